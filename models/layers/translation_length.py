"""How long a translation is, given how long its source is."""

import keras
import numpy as np
from keras import ops

from models.layers.source_positions import lengths_of


@keras.saving.register_keras_serializable("nmt_zoo")
class TranslationLength(keras.layers.Layer):
    """A logistic distribution whose mean is linear in the source length n, in tokens with `</s>`.

    The mean is intercept + slope n, at least 1, and the variance rises in proportion to n, as that
    of a sum of independent parts does. `parameters` are intercept, slope and variance for each
    source token; they are not trained, but measured.
    """

    def build(self, input_shape=None):
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

    def mean(self, source_mask):
        """`[B, S]` bool -> `[B]` float32."""
        lengths = ops.cast(lengths_of(source_mask), "float32")
        return ops.maximum(self.parameters[0] + self.parameters[1] * lengths, 1.0)

    def end_probability(self, num_words, source_mask):
        """P(a translation has so many words and no more | it has at least so many).

        Args:
            num_words: scalar, how many there are.
            source_mask: `[B, S]` bool.

        Returns:
            `[B]` float32.
        """
        variance = self.parameters[2] * ops.cast(lengths_of(source_mask), "float32")
        scale = ops.sqrt(3 * variance) / np.pi
        excess = ops.cast(num_words, "float32") + 1 - self.mean(source_mask)
        # log P(longer than x) = -softplus((x - mean) / scale)
        before, behind = (ops.softplus((excess + side) / scale) for side in (-0.5, 0.5))
        return -ops.expm1(before - behind)
