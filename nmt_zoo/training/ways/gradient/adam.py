"""Adam, with the learning rate schedules of `training.ways.gradient.schedules`."""

from typing import Any

import keras
import tensorflow as tf

from nmt_zoo.training.ways.gradient.schedules import SCHEDULES, Plateau


def adam(
    *,
    learning_rate: float,
    warmup_steps: int,
    schedule: str = "inverse_sqrt",
    beta_2: float = 0.98,
    weight_decay: float = 0.0,
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
        kind: class of the optimizer; `FusedAdam` if None.
        **of_schedule: more arguments of the schedule.
    """
    rate = SCHEDULES[schedule](learning_rate, warmup_steps, **of_schedule)
    decay = weight_decay or None
    kind = kind or FusedAdam
    optimizer = kind(rate, beta_1=0.9, beta_2=beta_2, epsilon=1e-9, weight_decay=decay)
    if decay:
        optimizer.exclude_from_weight_decay(var_names=[r"(bias|gamma|beta)(:0)?$"])
    if isinstance(rate, Plateau):
        optimizer.plateau = rate
    return optimizer


class FusedAdam(keras.optimizers.Adam):
    """Adam of Keras, without `amsgrad`, in one pass over each variable instead of a dozen."""

    def _backend_update_step(self, gradients, variables, learning_rate):
        """Updates variables and their moments; what is the same for all is computed once."""
        step = tf.cast(self.iterations + 1, tf.float32)
        common = {
            "beta1_power": self.beta_1**step,
            "beta2_power": self.beta_2**step,
            "lr": tf.cast(learning_rate, tf.float32),
            "beta1": tf.constant(self.beta_1),
            "beta2": tf.constant(self.beta_2),
            "epsilon": tf.constant(self.epsilon),
        }
        for gradient, variable in zip(gradients, variables, strict=True):
            index = self._get_variable_index(variable)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=self._momentums[index].value.handle,
                v=self._velocities[index].value.handle,
                grad=gradient,
                **common,
            )
