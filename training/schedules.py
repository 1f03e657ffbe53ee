"""Learning rates over time."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("nmt_zoo")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then decay with the inverse square root of the step.

    Vaswani et al. 2017, equation 3, written by its peak: `peak * min(s / w, sqrt(w / s))` at step
    s = 1, 2, ... The paper's own peak is `(width * warmup_steps) ** -0.5`.

    Args:
        peak: the largest learning rate, reached at step `warmup_steps`.
        warmup_steps: w, at least 1.

    Raises:
        ValueError: `warmup_steps` is below 1; the learning rate would stay 0.
    """

    def __init__(self, peak, warmup_steps):
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, found {warmup_steps}")
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        """Learning rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(step / self.warmup_steps, ops.sqrt(self.warmup_steps / step))

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}
