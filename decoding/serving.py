"""A trained model as a SavedModel: strings in, strings out, nothing of this project needed.

Signatures:

* `serving_default`: `text [B]` string -> `translation [B]` string, `score [B]` float32
* `translate_ids`: `source_ids [B, S]` int32, `source_lengths [B]` int32 -> `target_ids [B, T]`
  int32, `target_lengths [B]` int32, `score [B]` float32
* `attention`: `source [B]`, `target [B]` strings -> `source_tokens [B, S]`, `target_tokens [B, T]`
  strings, `attention [B, T, S]` float32, the model's soft alignment
"""

import tensorflow as tf

from data_pipeline.graph_tokenizers import graph_vocabulary
from data_pipeline.tokenizers import EOS_ID, PAD_ID
from decoding.translator import make_search

_STRINGS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)
_LENGTHS = tf.TensorSpec([None], tf.int32)


class ServingModule(tf.Module):
    """The endpoints, with all that they use tracked: weights, tables and tokenizers.

    Args:
        model: `TranslationModel`.
        tokenizer: its `Tokenizer`.
        beam_size: hypotheses followed at a time.
        length_penalty: alpha of Wu et al. 2016.
    """

    def __init__(self, model, tokenizer, *, beam_size=4, length_penalty=0.6):
        super().__init__()
        self.model = model
        self.source = graph_vocabulary(tokenizer.source)
        self.target = self.source if tokenizer.shared else graph_vocabulary(tokenizer.target)
        self._search = make_search(model, beam_size=beam_size, length_penalty=length_penalty)

    def _best(self, source_ids):
        """The best hypothesis of each sentence, `[B, T]`; nothing for an empty sentence."""
        found = self._search(source_ids)
        is_empty = tf.reduce_all((source_ids == PAD_ID) | (source_ids == EOS_ID), axis=1)
        nothing = tf.where(tf.range(tf.shape(found.ids)[2]) == 0, EOS_ID, PAD_ID)
        target_ids = tf.where(is_empty[:, None], nothing, found.ids[:, 0])
        return target_ids, tf.where(is_empty, 0.0, found.scores[:, 0])

    @tf.function(input_signature=[_STRINGS])
    def translate(self, text):
        """The endpoint `serving_default`."""
        target_ids, score = self._best(self.source.encode(text))
        return {"translation": self.target.decode(target_ids), "score": score}

    @tf.function(input_signature=[_IDS, _LENGTHS])
    def translate_ids(self, source_ids, source_lengths):
        """The endpoint `translate_ids`. Ids at and behind a row's length are ignored."""
        real = tf.sequence_mask(source_lengths, tf.shape(source_ids)[1])
        target_ids, score = self._best(tf.where(real, source_ids, PAD_ID))
        target_lengths = tf.reduce_sum(tf.cast(target_ids != PAD_ID, tf.int32), axis=1)
        return {"target_ids": target_ids, "target_lengths": target_lengths, "score": score}

    @tf.function(input_signature=[_STRINGS, _STRINGS])
    def attention(self, source, target):
        """The endpoint `attention`. Padding has the token "" and the weight 0."""
        source_ids, target_ids = self.source.encode(source), self.target.encode(target)
        weights = self.model.align(source_ids, target_ids)
        real = tf.cast(target_ids != PAD_ID, tf.float32)
        return {
            "source_tokens": tf.where(source_ids == PAD_ID, "", self.source.pieces(source_ids)),
            "target_tokens": tf.where(target_ids == PAD_ID, "", self.target.pieces(target_ids)),
            "attention": weights * real[:, :, None],
        }

    def save(self, folder):
        """Writes the SavedModel into a folder."""
        tf.saved_model.save(
            self,
            str(folder),
            signatures={
                "serving_default": self.translate,
                "translate_ids": self.translate_ids,
                "attention": self.attention,
            },
        )
