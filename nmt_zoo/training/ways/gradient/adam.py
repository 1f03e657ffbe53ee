"""Adam, and the learning rate over time."""

import collections
import math
import re
from typing import Any

import keras
import tensorflow as tf
from keras import ops


class Constant(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then a constant rate: `peak * min(s / w, 1)` at step s = 1, 2, ...

    `warmup_steps` is w, at least 1, which means no warm-up.
    """

    def __init__(self, peak: float, warmup_steps: int):
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(step / self.warmup_steps, self._after(step))

    def _after(self, step):
        """Returns the factor on the peak after warm-up; it is 1 at the last step of warm-up."""
        return ops.ones_like(step)


class InverseSquareRoot(Constant):
    """Linear warm-up, then decay with the inverse square root of the step.

    Vaswani et al. 2017, equation 3, in terms of the peak: `peak * min(s / w, sqrt(w / s))` at step
    s = 1, 2, ... The paper's own peak is `(width * warmup_steps) ** -0.5`.
    """

    def _after(self, step):
        return ops.sqrt(self.warmup_steps / step)


class Linear(Constant):
    """Linear warm-up, linear decay: `peak * min(s / w, (n + 1 - s) / (n + 1 - w))`.

    The decay ends with update n, `decay_steps`, at least `warmup_steps`; the rate is 0 after it.
    """

    def __init__(self, peak: float, warmup_steps: int, decay_steps: int):
        super().__init__(peak, warmup_steps)
        self.decay_steps = decay_steps

    def _after(self, step):
        end = self.decay_steps + 1.0
        return ops.clip((end - step) / (end - self.warmup_steps), 0.0, 1.0)


class Cosine(Linear):
    """Linear warm-up, then half a cosine; Loshchilov and Hutter 2017, equation 5, no restarts.

    `peak * (1 + cos(pi (s - w) / (n + 1 - w))) / 2` at steps s from w to n.
    """

    def _after(self, step):
        return (1 - ops.cos(math.pi * super()._after(step))) / 2


class Plateau(Constant):
    """Linear warm-up, then a constant rate, reduced whenever validation stops improving.

    The rate is multiplied by `factor`, in (0, 1), after every `patience` (at least 1) validations
    without a better one.
    """

    def __init__(self, peak: float, warmup_steps: int, patience: int = 2, factor: float = 0.5):
        super().__init__(peak, warmup_steps)
        self.patience = patience
        self.factor = factor
        self.reduction = keras.Variable(1.0, trainable=False, name="reduction")
        self.variables = {"schedule/reduction": self.reduction}  # For checkpoints.

    def __call__(self, step: Any) -> Any:
        return super().__call__(step) * self.reduction

    def after_validation(self, evaluations_since_best: int) -> None:
        """Reduces the rate if due, by the number of validations since the best one."""
        if evaluations_since_best and evaluations_since_best % self.patience == 0:
            self.reduction.assign(self.reduction * self.factor)


SCHEDULES = {
    "inverse_sqrt": InverseSquareRoot,
    "constant": Constant,
    "linear": Linear,
    "cosine": Cosine,
    "plateau": Plateau,
}


def adam(
    *,
    learning_rate: float,
    warmup_steps: int,
    schedule: str = "inverse_sqrt",
    beta_2: float = 0.98,
    weight_decay: float = 0.0,
    muon: str | None = None,
    kind: type | None = None,
    **of_schedule: Any,
) -> keras.optimizers.Optimizer:
    """Makes Adam, by default with the moments and schedule of Vaswani et al. 2017, section 5.3.

    Args:
        learning_rate: peak of the schedule.
        warmup_steps: updates until the peak, at least 1.
        schedule: one of `SCHEDULES`.
        beta_2: decay of the second moment; 0.999 in Kingma and Ba 2015.
        weight_decay: AdamW, Loshchilov and Hutter 2019: every update subtracts the learning rate
            times this share from all weights but biases and the weights of layer normalisation.
        muon: dtype of the products by which Muon updates matrices, see `FusedAdam`; None: no Muon.
        kind: class of the optimizer; `FusedAdam` if None.
        **of_schedule: more arguments of the schedule.
    """
    rate = SCHEDULES[schedule](learning_rate, warmup_steps, **of_schedule)
    decay = weight_decay or None
    kind = kind or FusedAdam
    optimizer = kind(rate, beta_1=0.9, beta_2=beta_2, epsilon=1e-9, weight_decay=decay)
    optimizer.muon = muon
    if decay:
        optimizer.exclude_from_weight_decay(var_names=[r"(bias|gamma|beta)(:0)?$"])
    if isinstance(rate, Plateau):
        optimizer.plateau = rate
    return optimizer


# Odd polynomials of degree 5 that one after the other bring singular values near 1 (Jordan et al.
# 2024, https://kellerjordan.github.io/posts/muon). Each is the best for what the one before leaves,
# as Amsel et al. 2025 choose them (arXiv 2505.16932): values from 0.005 to 1 end within 8% of 1.
_QUINTICS = (
    (8.2987, -24.4305, 18.0903),
    (3.9152, -2.9211, 0.5592),
    (3.1746, -2.3804, 0.4978),
    (2.1895, -1.5672, 0.4079),
)
# Momentum of Muon; and the size of its steps as that of Adam's, Liu et al. 2025, equation 4
# (arXiv 2502.16982), so that both take the same learning rate.
_MOMENTUM, _AS_ADAM = 0.95, 0.2
# Paths of variables with a vector for each word, which Adam updates.
_OF_WORDS = re.compile(r"embedding|^[^/]*/\w*output/")


class FusedAdam(keras.optimizers.Adam):
    """Adam of Keras, without `amsgrad`, in one pass over each variable instead of a dozen.

    If `muon` is a dtype, matrices but for embeddings and output layers are updated by Muon, Jordan
    et al. 2024, instead: along the orthogonal matrix that is nearest to their momentum, so that all
    directions of a layer learn at the same speed.
    """

    muon: str | None = None

    def _backend_update_step(self, gradients, variables, learning_rate):
        """Updates variables and their moments; what is the same for all is computed once."""
        rate, step = tf.cast(learning_rate, tf.float32), tf.cast(self.iterations + 1, tf.float32)
        common = {
            "beta1_power": self.beta_1**step,
            "beta2_power": self.beta_2**step,
            "lr": rate,
            "beta1": tf.constant(self.beta_1),
            "beta2": tf.constant(self.beta_2),
            "epsilon": tf.constant(self.epsilon),
        }
        matrices = collections.defaultdict(list)  # Those of one shape are updated together.
        for gradient, variable in zip(gradients, variables, strict=True):
            index = self._get_variable_index(variable)
            momentum = self._momentums[index].value.handle
            if self.muon and len(variable.shape) == 2 and not _OF_WORDS.search(variable.path):
                shape = tuple(sorted(variable.shape))
                matrices[shape].append((gradient, momentum, variable))
                continue
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=momentum,
                v=self._velocities[index].value.handle,
                grad=gradient,
                **common,
            )
        for (_, longer), group in matrices.items():
            _update_matrices(group, rate * _AS_ADAM * math.sqrt(longer), self.muon)


def _update_matrices(group, rate, dtype):
    """Updates matrices of one shape, some perhaps transposed, by Muon.

    `group` has (gradient, handle of the momentum, variable) of each.
    """
    flat, directions = [], []
    for gradient, handle, variable in group:
        momentum = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        momentum = _MOMENTUM * momentum + gradient
        tf.raw_ops.AssignVariableOp(resource=handle, value=momentum)
        flat.append(variable.shape[0] <= variable.shape[1])
        direction = gradient + _MOMENTUM * momentum  # Nesterov's.
        directions.append(direction if flat[-1] else tf.transpose(direction))
    x = tf.stack(directions)
    x = tf.cast(x / (tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7), dtype)
    one = tf.eye(x.shape[1], dtype=dtype)
    for a, b, c in _QUINTICS:
        square = tf.matmul(x, x, transpose_b=True)
        x = tf.matmul(a * one + b * square + c * tf.matmul(square, square), x)
    steps = tf.unstack(tf.cast(x, tf.float32) * rate)
    for (_, _, variable), step, is_flat in zip(group, steps, flat, strict=True):
        step = step if is_flat else tf.transpose(step)
        tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=step)
