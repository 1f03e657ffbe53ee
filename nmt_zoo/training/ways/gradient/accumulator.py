"""Adds up the gradients of several batches, or of several replicas, as if they were one batch."""

import tensorflow as tf


class Accumulator:
    """The sums of the batches of an update, for weights that have a gradient; made when needed."""

    def __init__(self, weights: list):
        self._shapes = [*(weight.shape for weight in weights), [4]]
        self._totals = None

    def build(self) -> None:
        """Makes the variables; further calls do nothing."""
        if self._totals is None:
            self._totals = [tf.Variable(tf.zeros(shape)) for shape in self._shapes]

    def add(self, summands: list[tf.Tensor]) -> None:
        """Adds the `summands` of a batch."""
        for total, part in zip(self._totals, summands, strict=True):
            total.assign_add(part)

    def take(self) -> list[tf.Tensor]:
        """Returns the sums, and sets them to 0 for the next update."""
        totals = [tf.identity(total) for total in self._totals]
        for total in self._totals:
            total.assign(tf.zeros_like(total))
        return totals


def summands(gradients: list[tf.Tensor], sums: tf.Tensor) -> list[tf.Tensor]:
    """Returns what batches add up: gradients of the sum of the losses, and `sums`.

    `gradients` are of the mean loss of a batch. `sums` is `[4]` float32, from
    `Gradient.gradients`; the first is what the mean is over.
    """
    return [*(g * sums[0] for g in gradients), sums]


def mean(totals: list[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Returns (gradients of the mean loss of all batches, sums), from added `summands`."""
    *gradients, sums = totals
    return [g / sums[0] for g in gradients], sums
