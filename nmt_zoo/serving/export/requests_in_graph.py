"""Requests inside the graph of a SavedModel: checks, texts of several lines, empty rows."""

from typing import Any

import tensorflow as tf

from nmt_zoo.data_pipeline.documents import SEPARATOR
from nmt_zoo.data_pipeline.text_form import SPACES
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.search.types import Hypotheses, length_normaliser

DEFAULT = -1  # The value of an option of a request that stands for the exported one.


def lengths_of(ids: tf.Tensor) -> tf.Tensor:
    """Counts the tokens of each row: `[B, S]` ids -> `[B]` int32."""
    return tf.reduce_sum(tf.cast(ids != PAD_ID, tf.int32), axis=1)


def not_empty(ids: tf.Tensor) -> tf.Tensor:
    """Adds an EOS if B or S of `[B, S]` ids is 0, because some models cannot read empty batches."""
    missing = tf.maximum(1 - tf.shape(ids), 0)
    return tf.pad(ids, tf.stack([tf.zeros_like(missing), missing], axis=1), constant_values=EOS_ID)


def not_without_rows(values: tf.Tensor) -> tf.Tensor:
    """Adds a 1 if `[B]` values are none."""
    return tf.pad(values, [[0, tf.maximum(1 - tf.shape(values)[0], 0)]], constant_values=1)


def are_empty(ids: tf.Tensor) -> tf.Tensor:
    """Returns `[B]` bool: whether a row of `[B, S]` ids has no token before its end."""
    return tf.reduce_all((ids == PAD_ID) | (ids == EOS_ID), axis=1)


def are_new(texts: tf.Tensor, are_real: tf.Tensor) -> tf.Tensor:
    """Returns `[B, K]` bool: True for a real text that differs from all before it in its row."""
    same = (texts[:, :, None] == texts[:, None, :]) & are_real[:, None, :]
    numbers = tf.range(tf.shape(texts)[1])
    return are_real & ~tf.reduce_any(same & (numbers[None, :] < numbers[:, None]), axis=2)


def option(name: str, values: tf.Tensor, text: tf.Tensor, default: float) -> tf.Tensor:
    """Returns the values of an option, `[B]`, with the default in place of -1."""
    values = same_rows(values, text, name, "text")
    return tf.where(values == DEFAULT, tf.constant(default, values.dtype), values)


def checked(values: tf.Tensor, refusal: Any) -> tf.Tensor:
    """Returns the values; operations that use them run after the check."""
    with tf.control_dependencies([refusal]):
        return tf.identity(values)


def refuse(is_bad: tf.Tensor, values: tf.Tensor, message: str) -> tf.Operation:
    """Ends the request if a value is bad; the error names the first one.

    `is_bad`, bool, has the shape of `values`. `message` has `{}` twice: for the value's index,
    counted from 0, and for the value. Returns the checking operation.
    """
    first = tf.where(is_bad)[:1]
    index = tf.strings.reduce_join(tf.strings.as_string(first), axis=1, separator=", ")
    value = tf.gather_nd(values, first)
    value = tf.strings.as_string(value, shortest=values.dtype.is_floating)
    before, between, after = message.split("{}")
    message = tf.strings.join([before, index, between, value, after])
    return tf.debugging.Assert(~tf.reduce_any(is_bad), [message])


def valid(values: tf.Tensor, is_bad: tf.Tensor, message: str) -> tf.Tensor:
    """Returns the values; arguments and what happens to bad ones as in `refuse`."""
    return checked(values, refuse(is_bad, values, message))


def refuse_nan(scores: tf.Tensor, name: str) -> tf.Operation:
    """Ends the request if one of the scores `[B]` is not a number."""
    message = f"for {name}[{{}}] the model's score is {{}}: its training diverged"
    return refuse(tf.math.is_nan(scores), scores, message)


def same_rows(values: tf.Tensor, others: tf.Tensor, name: str, other_name: str) -> tf.Tensor:
    """Returns the values; refuses the request unless `others` has the same number of rows."""
    rows = tf.shape(values)[0], tf.shape(others)[0]
    message = f"{name} has {{}} rows and {other_name} has {{}}; give the same number of both"
    equal = tf.debugging.Assert(rows[0] == rows[1], [tf.strings.format(message, rows)])
    return checked(values, equal)


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
