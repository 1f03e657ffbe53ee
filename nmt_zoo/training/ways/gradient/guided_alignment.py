"""Guided alignment: an alignment model teaches a translation model which source words to look at.

Chen et al. 2016, "Guided Alignment Training for Topic-Aware Neural Machine Translation", for
recurrent models; Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
Models", section 4.2, for one head of a Transformer. Both read links from a file. Here the alignment
model aligns every batch, and its soft alignments are the targets.

The loss of a target token gets `weight` times the cross-entropy of the attention a under the
alignment p of that token, `-sum_s p_s log a_s`.
"""

import keras
import tensorflow as tf

_LEAST = 1e-12  # A smaller attention counts as this much, so that the loss stays finite.


class Guide:
    """Compares the attention of a model with the alignments of another, which stays as it is."""

    def __init__(self, model: keras.Model, weight: float):
        model.trainable = False
        self.model = model
        self.weight = weight

    def loss(self, attention: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the weighted sum of the cross-entropy over the real target tokens of a batch.

        `attention` is `[B, T, S]` float32. The batch is `{"source_ids": [B, S],
        "target_ids": [B, T]}` int32.
        """
        source_ids, target_ids = batch["source_ids"], batch["target_ids"]
        alignment = tf.stop_gradient(self.model.align(source_ids, target_ids))
        real = tf.cast(target_ids != self.model.pad_id, tf.float32)
        return self.weight * cross_entropy(attention, alignment, real)


def cross_entropy(attention: tf.Tensor, alignment: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Sums the cross-entropy of attention under an alignment over real target tokens.

    Rows of `attention` and `alignment`, `[B, T, S]` float32, sum to 1; `real` is `[B, T]` float32,
    1 at real target tokens, else 0.
    """
    nll = -tf.reduce_sum(alignment * tf.math.log(tf.maximum(attention, _LEAST)), axis=-1)
    return tf.reduce_sum(nll * real)
