"""The tokenizers as TensorFlow graphs, for SavedModels whose inputs and outputs are strings."""

from typing import Any

import tensorflow as tf

from nmt_zoo.data_pipeline.text_form import INVISIBLE, JOINER, MARKS, SPACES
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    EOS_ID,
    JOINTS,
    PAD_ID,
    UNK_ID,
    BpeVocabulary,
    Vocabulary,
    WordVocabulary,
)


def graph_vocabulary(vocabulary: Vocabulary) -> "GraphBpe | GraphWords":
    """Makes a graph that encodes and decodes exactly as the given vocabulary."""
    return (GraphWords if hasattr(vocabulary, "words") else GraphBpe)(vocabulary)


def graph_normalised(lines: tf.Tensor, form: str) -> tf.Tensor:
    """Brings strings of any shape into a form of `text_form.FORMS`, as `text_form.normalised`."""
    text: Any = tf.strings.regex_replace(lines, f"[{INVISIBLE}]", "")
    text = tf.strings.strip(tf.strings.regex_replace(text, f"[{SPACES}]+", " "))
    if form == "nfc":
        import tensorflow_text

        text = tensorflow_text.normalize_utf8(text, "NFC")
    return text


class GraphBpe(tf.Module):
    """SentencePiece inside a graph.

    Ops of this module are in tensorflow_text, which must be imported before such a SavedModel is
    loaded in Python. Call `tf.random.set_seed` before making an instance, not after: it deletes
    TensorFlow's kernels, and the SentencePiece model with them.
    """

    def __init__(self, vocabulary: BpeVocabulary):
        super().__init__()
        import tensorflow_text

        self.processor = tensorflow_text.SentencepieceTokenizer(
            model=vocabulary.model, add_eos=True
        )
        self.words = tf.constant(vocabulary.pieces(range(len(vocabulary))))
        self.form = vocabulary.form
        self.language_token = vocabulary.language_token
        self.language_tokens = sorted(vocabulary.language_tokens)

    def encode(self, lines: tf.Tensor) -> tf.Tensor:
        """`[B]` strings -> `[B, S]` int32, each row ended by EOS, then padded."""
        ids: Any = self.processor.tokenize(graph_normalised(lines, self.form))
        if self.language_token is None:
            return ids.to_tensor(PAD_ID)
        has_language = tf.reduce_any(
            ids[:, :1].to_tensor(EOS_ID) == tf.constant(self.language_tokens), axis=1
        )
        needs_language = tf.ensure_shape((ids.row_lengths() > 1) & ~has_language, [None])
        language = tf.fill([tf.shape(needs_language)[0], 1], self.language_token)
        language = tf.ragged.boolean_mask(language, needs_language[:, None])
        return tf.concat([language, ids], axis=1).to_tensor(PAD_ID)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """`[B, T]` int32 -> `[B]` strings."""
        return graph_normalised(self.processor.detokenize(_until_eos(ids)), self.form)


class GraphWords(tf.Module):
    """A vocabulary of words or ready-made pieces, separated by white space, inside a graph."""

    def __init__(self, vocabulary: WordVocabulary):
        super().__init__()
        self.words = tf.constant(vocabulary.words)
        self.style = vocabulary.style
        self.form = vocabulary.form
        self.language_token = None
        keys = tf.constant(list(vocabulary.index), tf.string)
        values = tf.constant(list(vocabulary.index.values()), tf.int32)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), default_value=UNK_ID
        )

    def encode(self, lines: tf.Tensor) -> tf.Tensor:
        """`[B]` strings -> `[B, S]` int32, each row ended by EOS, then padded."""
        text = graph_normalised(lines, self.form)
        for rule in MARKS if self.style == JOINER else ():
            text = tf.strings.regex_replace(text, *rule)
        words = tf.strings.split(text)
        ids = tf.ragged.map_flat_values(self.table.lookup, words)
        eos = tf.fill([tf.shape(lines)[0], 1], EOS_ID)
        return tf.concat([ids, eos], axis=1).to_tensor(PAD_ID)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """`[B, T]` int32 -> `[B]` strings."""
        words = tf.ragged.map_flat_values(tf.gather, params=self.words, indices=_until_eos(ids))
        line = tf.strings.reduce_join(words, axis=1, separator="" if self.style == "▁" else " ")
        line = tf.strings.regex_replace(line, *JOINTS[self.style])
        return graph_normalised(line, self.form)


def _until_eos(ids):
    """`[B, T]` -> ragged rows of the ids before the first EOS, without padding."""
    before_eos = tf.math.cumsum(tf.cast(tf.equal(ids, EOS_ID), tf.int32), axis=1) == 0
    return tf.ragged.boolean_mask(ids, before_eos & (ids != PAD_ID))
