"""Rules of a search: processors, which change the scores of the tokens that may come next.

The scores of the tokens that a processor does not make impossible stay as they are, so that the
score of a translation is the model's own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.search.largest import largest
from nmt_zoo.decoding.search.types import IMPOSSIBLE


class Partial(NamedTuple):
    """N hypotheses that are extended by a token."""

    ids: tf.Tensor  # [N, t] int32, the tokens so far, of which the first is `<s>`.
    step: tf.Tensor  # Scalar int32, their number without `<s>`.
    rows: tf.Tensor  # [N] int32, the row of their sentence in the batch.
    log_probs: tf.Tensor  # [N, V] float32, of the next tokens by the model alone.
    states: dict[str, Any]  # Of the `Follower`s, by name.


# `(scores, partial) -> scores`, `[N, V]` float32; `IMPOSSIBLE` rules a token out.
Processor = Callable[[tf.Tensor, Partial], tf.Tensor]


class Follower(Protocol):
    """Follows what processors need to know of every hypothesis."""

    def start(self, rows: tf.Tensor) -> Any:
        """Returns the state of empty hypotheses, leaves `[N, ...]`; `rows` as of `Partial`."""
        ...

    def follow(self, state: Any, token_ids: tf.Tensor) -> Any:
        """Returns the state after one more token, `[N]` int32."""
        ...


def at_least(least: tf.Tensor) -> Processor:
    """Returns the rule that translations have at least `least` `[B]` tokens, with `</s>`."""
    return lambda scores, partial: bar_token(
        scores, EOS_ID, partial.step + 1 < tf.gather(least, partial.rows)
    )


def begin_with(prefix: tf.Tensor) -> Processor:
    """Returns the rule that translations begin with tokens, `[B, P]` int32, padded.

    It holds whatever the rules before it say.
    """
    # A column of padding, so that there is one to read after the longest prefix.
    prefix = tf.pad(prefix, [[0, 0], [0, 1]], constant_values=PAD_ID)

    def process(scores, partial):
        place = tf.minimum(partial.step, tf.shape(prefix)[1] - 1)
        token = tf.gather(prefix[:, place], partial.rows)
        return tf.where((token != PAD_ID)[:, None], only(partial.log_probs, token), scores)

    return process


def drawn(noise: tf.Tensor, **options: Any) -> Processor:
    """Returns the rule that tokens are drawn, see `draw`; `noise` is `[B, T]` int32 random bits."""

    def process(scores, partial):
        bits = noise[:, tf.minimum(partial.step, tf.shape(noise)[1] - 1)]
        return only(scores, draw(scores, tf.gather(bits, partial.rows), **options))

    return process


def bar(log_probs: tf.Tensor, barred: tf.Tensor) -> tf.Tensor:
    """Makes the tokens impossible for which `barred`, bool, broadcastable to `[N, V]`, is True."""
    return tf.where(barred, IMPOSSIBLE, log_probs)


def only(log_probs: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
    """Makes all tokens but one impossible for each hypothesis: `token`, `[N]` int32."""
    return bar(log_probs, tf.range(log_probs.shape[1]) != token[:, None])


def bar_token(log_probs: tf.Tensor, token: int, applies: tf.Tensor) -> tf.Tensor:
    """Makes one token, an int, impossible for the hypotheses in which `applies` `[N]` is True."""
    is_token = tf.range(log_probs.shape[1]) == token
    return bar(log_probs, is_token & applies[:, None])


def bar_repeated_ngrams(log_probs: tf.Tensor, ids: tf.Tensor, n: int) -> tf.Tensor:
    """Makes tokens impossible that would end an n-gram that `ids` `[N, t]` int32 already have."""
    count = tf.maximum(tf.shape(ids)[1] - (n - 1), 0)  # The n-grams so far, if one more is begun.
    same = tf.ones([tf.shape(ids)[0], count], tf.bool)
    for j in range(n - 1):  # Token j of each earlier n-gram, and of the n-gram that is being ended.
        same &= ids[:, j : j + count] == ids[:, count + j : count + j + 1]
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(same))
    ends = tf.stack([rows, ids[:, n - 1 :]], axis=-1)
    return tf.tensor_scatter_nd_min(log_probs, ends, tf.where(same, IMPOSSIBLE, tf.float32.max))


def draw(
    log_probs: tf.Tensor, noise: tf.Tensor, *, temperature: float, top_k: int, top_p: float
) -> tf.Tensor:
    """Draws a token, `[N]` int32: that of the largest sum of log-probability `[N, V]` and noise.

    The noise, made of `[N]` int32 random bits, has the Gumbel distribution, so each token is drawn
    with its probability. Each token has noise of its own, so a small change of the probabilities,
    as by rounding in a batch of another size, changes hardly any draw. Where it moves a token
    across the border of `top_k` or `top_p`, only the draws of this token change.

    `temperature` divides the log-probabilities; 0 takes the most probable token. Only the `top_k`
    most probable tokens are drawn (0: all), and only the most probable ones that have the
    probability `top_p` together (the nucleus of Holtzman et al. 2020; 1: all).
    """
    if temperature == 0:
        return tf.argmax(log_probs, axis=1, output_type=tf.int32)
    count = log_probs.shape[1]
    scores = tf.convert_to_tensor(log_probs) / temperature
    if 0 < top_k < count:
        scores = bar(scores, scores < largest(scores, top_k)[0][:, -1:])
    if top_p < 1:
        probabilities = tf.nn.softmax(tf.cast(scores, tf.float64))
        ordered = tf.sort(probabilities, axis=1, direction="DESCENDING")
        is_inside = tf.cumsum(ordered, axis=1, exclusive=True) < top_p
        least = tf.reduce_min(tf.where(is_inside, ordered, ordered[:, :1]), axis=1, keepdims=True)
        scores = bar(scores, probabilities < least)
    return tf.argmax(scores + _gumbel(noise, count), axis=1, output_type=tf.int32)


def _gumbel(noise, count):
    """Makes `[N, count]` float32 Gumbel noise of `noise` `[N]`, by MurmurHash3 of Appleby."""
    bits = tf.bitcast(noise, tf.uint32)[:, None]
    bits ^= tf.cast(tf.range(count), tf.uint32) * tf.constant(0x9E3779B9, tf.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits ^= tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32))
        bits *= tf.constant(factor, tf.uint32)
    # Small numbers, of which the most probable draws are made, are exact in float32.
    share = (tf.cast(bits, tf.float32) + 0.5) * 2.0**-32
    return -tf.math.log(-tf.math.log1p(-share))
