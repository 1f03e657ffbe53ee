"""The distribution of a translation's length, given the length of its source."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.base import Tensor
from nmt_zoo.models.layers.source_positions import lengths_of


@keras.saving.register_keras_serializable("nmt_zoo")
class TranslationLength(keras.layers.Layer):
    """A logistic distribution whose mean is linear in the source length n, in tokens with `</s>`.

    The mean is intercept + slope n, at least 1. The variance is proportional to n, like the
    variance of a sum of independent parts. `parameters` holds the intercept, the slope and the
    variance per source token; these are measured, not trained.
    """

    def build(self, input_shape: Any = None) -> None:
        first = [0.0, 1.0, 0.5]
        self.parameters = self.add_weight(
            name="parameters",
            shape=(3,),
            dtype="float32",
            autocast=False,
            initializer=lambda shape, dtype=None: ops.array(first, "float32"),
            trainable=False,
        )
        self.built = True

    def mean(self, source_mask: Tensor) -> Tensor:
        """`[B, S]` bool -> `[B]` float32, mean length in tokens with `</s>`."""
        lengths = ops.cast(lengths_of(source_mask), "float32")
        return ops.maximum(self.parameters[0] + self.parameters[1] * lengths, 1.0)

    def end_probability(self, num_words: Tensor, source_mask: Tensor) -> Tensor:
        """Computes P(the translation has exactly `num_words` words | it has at least `num_words`).

        `num_words` is a scalar, without `</s>`; `source_mask [B, S]` bool -> `[B]` float32.
        """
        variance = self.parameters[2] * ops.cast(lengths_of(source_mask), "float32")
        scale = ops.sqrt(3 * variance) / np.pi
        excess = ops.cast(num_words, "float32") + 1 - self.mean(source_mask)
        # log P(longer than x) = -softplus((x - mean) / scale)
        before, behind = (ops.softplus((excess + side) / scale) for side in (-0.5, 0.5))
        return -ops.expm1(before - behind)
