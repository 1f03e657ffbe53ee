"""Token dropout: in training, random input tokens are replaced by `<unk>`.

Sennrich et al. 2016, "Edinburgh Neural Machine Translation Systems for WMT 16", section 2.5, set
the embeddings of random words to 0 on either side. Here they get the embedding of `<unk>`, which is
trained by this. On the target side, only the decoder's input changes: the tokens to predict stay.
"""

from typing import Any

import keras
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES, Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID

# Whether tokens are dropped one by one, or all tokens of a word together.
UNITS = ("token", "word")


class TokenDropout:
    """Replaces random tokens of both sides; padding, `<s>` and `</s>` always stay.

    Args:
        rates: probabilities that a token of the source and of the target is replaced, in [0, 1].
        vocabularies: those of source and target if all tokens of a word are replaced together;
            None replaces tokens one by one.

    Attributes:
        seed: variable that determines the next tokens.
    """

    def __init__(self, rates: list[float], vocabularies: tuple | None = None):
        self.rates = rates
        self.joints = vocabularies and [_joints(vocabulary) for vocabulary in vocabularies]
        self._generator = keras.random.SeedGenerator()
        self.seed = self._generator.state

    @classmethod
    def of(cls, options: dict[str, Any], tokenizer: Tokenizer) -> "TokenDropout | None":
        """Makes the token dropout of training options; None if there is none."""
        rates = [options[f"{side}_token_dropout"] for side in SIDES]
        whole_words = options["token_dropout_unit"] == "word"
        vocabularies = (tokenizer.source, tokenizer.target) if whole_words else None
        return cls(rates, vocabularies) if any(rates) else None

    def variables(self) -> dict[str, Any]:
        """Returns name -> variable, for the checkpoint."""
        return {"token_dropout/seed": self.seed}

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Replaces tokens.

        Args:
            inputs: `{"source_ids": [B, S], "target_in_ids": [B, T]}` int32.

        Returns:
            As `inputs`.
        """
        names = ("source_ids", "target_in_ids")
        return {name: self._replaced(inputs[name], side) for side, name in enumerate(names)}

    def _replaced(self, ids, side):
        if not self.rates[side]:
            return ids
        draws = keras.random.uniform(tf.shape(ids), seed=self._generator)
        if self.joints:
            draws = tf.gather(draws, _word_numbers(ids, *self.joints[side]), batch_dims=1)
        return tf.where((draws < self.rates[side]) & (ids > EOS_ID), UNK_ID, ids)


def _joints(vocabulary):
    """Returns two `[V]` bool arrays: whether a word goes on before, and after, each piece."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    marked = vocabulary.style == "▁"
    before = [marked and not piece.startswith("▁") for piece in pieces]
    after = [vocabulary.style == "@@" and piece.endswith("@@") for piece in pieces]
    before[: EOS_ID + 1] = [False] * (EOS_ID + 1)
    return tf.constant(before), tf.constant(after)


def _word_numbers(ids, before, after):
    """`[B, T]` ids -> `[B, T]` number of the word of each token, not falling, below T."""
    goes_on = tf.gather(after, ids)
    goes_on = tf.concat([tf.zeros_like(goes_on[:, :1]), goes_on[:, :-1]], axis=1)
    begins = tf.cast(~(tf.gather(before, ids) | goes_on), tf.int32)
    return tf.maximum(tf.cumsum(begins, axis=1) - 1, 0)
