"""Constraints on translations, such as a given beginning, as changes of token scores.

Each function takes log-probabilities `[N, V]` of the next token of N hypotheses and returns them
with some tokens made impossible. The scores of the other tokens stay as they are, so that the score
of a translation is the model's own. `Constrained` puts them around a model; a search that asks for
nothing uses the model itself.
"""

import tensorflow as tf

from nmt_zoo.decoding.search.largest import largest
from nmt_zoo.decoding.search.terms import IMPOSSIBLE

_LEAST = 1e-9  # Coverage of a word that was never attended to, so that its logarithm is finite.


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


def coverage_penalty(attended: tf.Tensor) -> tf.Tensor:
    """`sum_j log(min(attended_j, 1))`, `[N]`, Wu et al. 2016, equation 14, for a factor beta of 1.

    `attended` `[N, S]` float32 is the attention that each source token has received so far; at
    least 1 for what is no word.
    """
    return tf.reduce_sum(tf.math.log(tf.clip_by_value(attended, _LEAST, 1.0)), axis=1)


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
