"""An average of the weights of many updates."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf


class MovingAverage:
    """The exponential moving average of weights; Polyak and Juditsky 1992 on why averages help.

    `a += (1 - d) (w - a)` after each update, with `d = min(decay, (1 + t) / (10 + t))` after t
    updates, so that an early average soon forgets the weights that training began with. `decay` is
    in [0, 1).
    """

    def __init__(self, weights: list, decay: float):
        self.weights = weights
        self.decay = decay
        self.averages = [tf.Variable(w.numpy(), trainable=False) for w in weights]
        # For checkpoints.
        self.variables = {f"average/{index:04d}": a for index, a in enumerate(self.averages)}

    def follow(self, updates: tf.Tensor) -> None:
        """Updates the average; `updates` is a scalar, the number of updates of the weights."""
        t = tf.cast(updates, tf.float32)
        share = 1 - tf.minimum(self.decay, (1 + t) / (10 + t))
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.assign_add(share * (weight - average))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Returns a context in which the average replaces the weights."""
        own = [weight.numpy() for weight in self.weights]
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.assign(average)
        try:
            yield
        finally:
            for weight, value in zip(self.weights, own, strict=True):
                weight.assign(value)
