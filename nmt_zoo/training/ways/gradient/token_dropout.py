"""Token dropout: in training, random input tokens are replaced by `<unk>`.

Sennrich et al. 2016, "Edinburgh Neural Machine Translation Systems for WMT 16", section 2.5, set
the embeddings of random words to 0 on either side. Here they get the embedding of `<unk>`, which is
trained by this. On the target side, only the decoder's input changes: the tokens to predict stay.
"""

import keras
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID


class TokenDropout:
    """Replaces random tokens of both sides; padding, `<s>` and `</s>` always stay.

    A token is replaced with probability `rate`. The variable `seed` determines the next tokens.
    """

    def __init__(self, rate: float):
        self.rate = rate
        self._generator = keras.random.SeedGenerator()
        self.seed = self._generator.state
        self.variables = {"token_dropout/seed": self.seed}  # For checkpoints.

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns `{"source_ids": [B, S], "target_in_ids": [B, T]}` int32 with tokens replaced."""
        return {name: self._replaced(inputs[name]) for name in ("source_ids", "target_in_ids")}

    def _replaced(self, ids):
        draws = keras.random.uniform(tf.shape(ids), seed=self._generator)
        return tf.where((draws < self.rate) & (ids > EOS_ID), UNK_ID, ids)
