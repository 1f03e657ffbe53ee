"""The lines of a text in a request: each is translated, and their translations are joined."""

import tensorflow as tf

from nmt_zoo.data_pipeline.documents import SEPARATOR
from nmt_zoo.data_pipeline.text_form import SPACES
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.search.types import Hypotheses, length_normaliser


def lines_of(text: tf.Tensor, context_sentences: int = 0) -> tf.RaggedTensor:
    """Splits `[B]` strings at line feeds, except those at the ends; returns ragged `[B, lines]`.

    Each line comes after at most `context_sentences` lines of the text, as
    `data_pipeline.documents.Context` puts them.
    """
    lines = tf.strings.split(tf.strings.regex_replace(text, f"^[{SPACES}]+|[{SPACES}]+$", ""), "\n")
    rows = tf.cast(lines.value_rowids(), tf.int32)
    with_context, is_blank = lines.values, tf.strings.regex_full_match(lines.values, f"[{SPACES}]*")
    # A document ends with its text, and at a blank line: it has another number then.
    document = tf.cumsum(tf.cast(is_blank, tf.int32)) + rows
    for back in range(1, context_sentences + 1):
        before = tf.concat([tf.fill([back], ""), lines.values], 0)[: tf.size(rows)]
        of_before = tf.concat([tf.fill([back], -1), document], 0)[: tf.size(rows)]
        blank_before = tf.concat([tf.fill([back], True), is_blank], 0)[: tf.size(rows)]
        has_more = (of_before == document) & ~blank_before & ~is_blank
        longer = before + f" {SEPARATOR} " + with_context
        with_context = tf.where(has_more, longer, with_context)
    return lines.with_values(with_context)


def joined(
    lines: tf.RaggedTensor,
    texts: tf.Tensor,
    scores: tf.Tensor,
    hypotheses: Hypotheses,
    length_penalty: float | tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Joins the translations of all R lines to B texts, as `Translator` does.

    `lines` is ragged `[B, lines]`. `texts [R]`, strings, and `scores [R]` float32 belong to the
    best translation of each line, the first in `hypotheses`. `length_penalty` is a float, or `[B]`
    float32. Returns `[B]` strings, with a line feed between lines, and their scores `[B]` float32:
    that of the only line, or the sum of the log-probabilities by the penalty of their length.
    """
    ids, log_probs = hypotheses.ids[:, 0], hypotheses.log_probs[:, 0]
    tokens = tf.reduce_sum(tf.cast((ids != PAD_ID) & (ids != EOS_ID), tf.int32), axis=1)
    length = tf.reduce_sum(lines.with_values(tokens), axis=1) + 1
    together = tf.reduce_sum(lines.with_values(log_probs), axis=1)
    together /= length_normaliser(length, length_penalty)
    alone = tf.gather(scores, lines.row_starts())
    score = tf.where(lines.row_lengths() == 1, alone, together)
    # Not by `separator`, which TensorFlow leaves out after empty strings at the beginning.
    texts = tf.strings.reduce_join(lines.with_values("\n" + texts), axis=1)
    return tf.strings.regex_replace(texts, "^\n", "", replace_global=False), score
