"""Learning rates over time."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("nmt_zoo")
class Constant(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then the same rate for ever: `peak * min(s / w, 1)` at step s = 1, 2, ...

    Args:
        peak: the largest learning rate, reached at step `warmup_steps`.
        warmup_steps: w, at least 1, which means no warm-up.

    Raises:
        ValueError: `warmup_steps` is below 1.
    """

    def __init__(self, peak, warmup_steps):
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, found {warmup_steps}")
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        """Learning rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(step / self.warmup_steps, self._after(step))

    def _after(self, step):
        """What the peak is multiplied with once warm-up is over, 1 at its last step."""
        return ops.ones_like(step)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable("nmt_zoo")
class InverseSquareRoot(Constant):
    """Linear warm-up, then decay with the inverse square root of the step.

    Vaswani et al. 2017, equation 3, written by its peak: `peak * min(s / w, sqrt(w / s))` at step
    s = 1, 2, ... The paper's own peak is `(width * warmup_steps) ** -0.5`. Arguments as `Constant`.
    """

    def _after(self, step):
        return ops.sqrt(self.warmup_steps / step)


SCHEDULES = {"inverse_sqrt": InverseSquareRoot, "constant": Constant}
