"""Label-smoothed masked cross-entropy.

Szegedy et al. 2016, section 7: the smoothed distribution has `1 - e` on the target and `e` spread
evenly over the vocabulary, so the loss is `(1 - e) * nll + e * mean_v(-log p_v)`. Padding is
ignored.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.models import shift_right

# The loss, the negative log-likelihood, and the number of tokens: float32 scalars.
Losses = tuple[tf.Tensor, tf.Tensor, tf.Tensor]

BATCH_SIGNATURE = {
    "source_ids": tf.TensorSpec([None, None], tf.int32),
    "target_ids": tf.TensorSpec([None, None], tf.int32),
}

# Logits at a time, few enough for a processor's cache, and fewest rows (tokens), enough for fast
# matrix products.
_LOGITS, _ROWS = 1 << 20, 256


class Wanted(NamedTuple):
    """What a model should predict."""

    target_ids: tf.Tensor  # [B, T] int32
    pad_id: int
    label_smoothing: float  # e, in [0, 1)
    counts_padding: bool = True  # Whether the share of padding in e counts in the loss.

    @property
    def mask(self) -> tf.Tensor:
        """`[B, T]` float32, 1 at real tokens, else 0."""
        return tf.cast(self.target_ids != self.pad_id, tf.float32)


def smoothed_cross_entropy(logits: tf.Tensor, wanted: Wanted) -> Losses:
    """Computes the loss of logits `[B, T, V]` float32.

    Returns:
        `(loss, nll, tokens)`, float32 scalars: the sums over real tokens of the smoothed loss and
        of the plain negative log-likelihood in nats, and the number of real tokens. Only the loss
        has a gradient.
    """
    loss, nll = _losses_of(logits, wanted.target_ids, wanted.label_smoothing)
    if not wanted.counts_padding:
        padding = logits[..., wanted.pad_id] - tf.reduce_logsumexp(logits, axis=-1)
        loss += wanted.label_smoothing / logits.shape[-1] * padding
    mask = wanted.mask
    return (
        tf.reduce_sum(loss * mask),
        tf.reduce_sum(tf.stop_gradient(nll) * mask),
        tf.reduce_sum(mask),
    )


def _losses_of(logits, target_ids, label_smoothing):
    """Returns (loss, nll) of every token, `[...]`, of logits `[..., V]` and ids `[...]`."""
    largest = tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
    sums = tf.reduce_sum(tf.exp(logits - largest), axis=-1, keepdims=True)
    log_sum = tf.squeeze(largest + tf.math.log(sums), -1)
    nll = log_sum - tf.gather(logits, target_ids, batch_dims=target_ids.shape.rank)
    uniform = log_sum - tf.reduce_mean(logits, axis=-1)
    return (1 - label_smoothing) * nll + label_smoothing * uniform, nll


def negative_log_likelihood(model: Any, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (sum over real target tokens, number of real target tokens), float32 scalars.

    The logits of a model with features are computed for some tokens at a time, without a gradient.
    """
    source_ids, target_ids = batch["source_ids"], batch["target_ids"]
    real = target_ids != model.pad_id
    tokens = tf.reduce_sum(tf.cast(real, tf.float32))
    if model.predicts != "features":
        scores = tf.where(real, model.score(source_ids, target_ids), 0.0)
        return -tf.reduce_sum(scores), tokens
    inputs = {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, model.bos_id)}
    features, weights = model.features(inputs, training=False), model.output_weights()
    groups = groups_of(tf.size(target_ids), weights[0].shape[1])

    def group(of_tokens):
        features, target_ids, real = of_tokens
        _, nll = _losses_of(logits_of(features, *weights), target_ids, 0.0)
        return tf.reduce_sum(tf.where(real, nll, 0.0))

    of_groups = tf.map_fn(
        group,
        [in_groups(x, groups) for x in (features, target_ids, real)],
        fn_output_signature=tf.float32,
        parallel_iterations=1,  # Only one group's logits in memory.
    )
    return tf.reduce_sum(of_groups), tokens


def projected_cross_entropy(features: tf.Tensor, weights: Sequence, wanted: Wanted) -> Losses:
    """As `smoothed_cross_entropy` for logits `features kernel + bias`, see `projected`."""
    return projected(partial(_grouped, wanted.label_smoothing), features, weights, wanted)


def projected(
    compute: Callable, features: tf.Tensor, weights: Sequence, wanted: Wanted, *others: tf.Tensor
) -> Losses:
    """Computes the loss of logits `features kernel + bias`, which are never all stored at once.

    Tokens are processed in groups. The gradient of a group is computed while its predictions p are
    in memory: it is p - q for the smoothed distribution q. Automatic differentiation would store
    several arrays as large as the logits of a batch. In a small model with a large vocabulary, that
    takes most of the memory and half of the time.

    Args:
        compute: function of the weights without None, and of features, target ids, mask and
            `others` in groups, see `in_groups`; returns ((loss, nll), gradients of the loss by
            features `[groups, tokens, D]` and by the weights).
        features: `[B, T, D]`.
        weights: (kernel `[D, V]`, bias `[V]` or None).
        wanted: what the logits should predict.
        others: `[B, T, ...]`; each counts as many numbers a token as the logits.
    """
    count = tf.size(wanted.target_ids)
    groups = groups_of((1 + len(others)) * count, weights[0].shape[1])

    @tf.custom_gradient
    def losses(features, *weights):
        arrays = features, wanted.target_ids, wanted.mask, *others
        in_order = (in_groups(x, groups) for x in arrays)
        sums, of_features, of_weights = compute(weights, *in_order)
        of_features = tf.reshape(of_features, [-1, features.shape[-1]])[:count]
        gradients = [tf.reshape(of_features, tf.shape(features)), *of_weights]

        def gradient(of_loss, _):
            sides = zip(gradients, (features, *weights), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return sums, gradient

    loss, nll = losses(features, *(x for x in weights if x is not None))
    return loss, tf.stop_gradient(nll), tf.reduce_sum(wanted.mask)


def logits_of(features: tf.Tensor, kernel: Any, bias: Any = None) -> tf.Tensor:
    """Returns the float32 logits `[..., V]` of features `[..., D]`."""
    logits = tf.matmul(features, kernel)
    return tf.cast(logits if bias is None else tf.nn.bias_add(logits, bias), tf.float32)


def log_sums_of(logits: tf.Tensor, probs: tf.Tensor) -> tf.Tensor:
    """Returns the logarithms of the sums of exponentials, `[...]`, of logits `[..., V]`.

    `probs` are their softmax: the exponentials divided by the sums; the largest is at least 1/V.
    """
    return tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(probs, axis=-1))


def groups_of(count: tf.Tensor, logits: int) -> tf.Tensor:
    """Returns into how many groups `count` tokens are split, with `logits` logits a token."""
    rows = max(_ROWS, _LOGITS // logits)
    return (count + rows - 1) // rows


def in_groups(x: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
    """Splits `[B, T, ...]` into `[groups, tokens, ...]`; zeros fill the last group."""
    shape = x.shape[2:]
    x = tf.reshape(x, [-1, *shape])
    count = tf.shape(x)[0]
    rows = (count + groups - 1) // tf.maximum(groups, 1)
    x = tf.pad(x, [[0, rows * groups - count]] + [[0, 0]] * len(shape))
    return tf.reshape(x, [groups, rows, *shape])


def over_groups(
    token_loss: Callable, features: tf.Tensor, mask: tf.Tensor, weights: Sequence, others: Sequence
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Computes everything that needs all logits, in one loop over groups of N tokens.

    Args:
        token_loss: function of a group's logits `[N, V]` float32 and of its part of each of
            `others`; returns (list of float32 values of each token `[N]`, gradient `[N, V]`).
        features: `[G, N, D]`.
        mask: `[G, N]` float32, 1 or 0; only tokens in the mask have a gradient.
        weights: kernel `[D, V]`, and bias `[V]` if any.
        others: list of `[G, N, ...]`.

    Returns:
        (values `[G, values, N]`, gradient by features `[G, N, D]`, by `weights`), float32.
    """
    groups, kernel = tf.shape(features)[0], weights[0]

    def group(index, values, of_features, of_weights):
        x = features[index]
        values_here, of_logits = token_loss(logits_of(x, *weights), *(o[index] for o in others))
        of_logits = tf.cast(of_logits, x.dtype)
        real = tf.cast(mask[index][:, None], x.dtype)
        of_x = real * tf.matmul(of_logits, kernel, transpose_b=True)
        parts = [tf.matmul(real * x, of_logits, transpose_a=True)]
        if len(weights) > 1:
            parts.append(tf.linalg.matvec(of_logits, real[:, 0], transpose_a=True))
        return (
            index + 1,
            values.write(index, tf.stack(values_here)),
            of_features.write(index, tf.cast(of_x, tf.float32)),
            [g + tf.cast(part, tf.float32) for g, part in zip(of_weights, parts, strict=True)],
        )

    arrays = [
        tf.TensorArray(tf.float32, groups, element_shape=shape)
        for shape in ([None, mask.shape[1]], features.shape[1:])
    ]
    zeros = [tf.zeros(x.shape, tf.float32) for x in weights]
    _, values, of_features, of_weights = tf.while_loop(
        lambda index, *_: index < groups,
        group,
        (0, *arrays, zeros),
        maximum_iterations=groups,
    )
    return values.stack(), of_features.stack(), list(of_weights)


def _grouped(label_smoothing, weights, features, target_ids, mask):
    """Computes both losses over all groups, and the gradients of the smoothed loss.

    The gradient of a token's loss by its logits is p - q. q has only two different values and is
    never written out, because a pass over an array as large as the logits takes a good part of the
    time of a matrix product. Returns `((loss, nll) summed, gradient by features, by weights)`.
    """

    def of_predictions(logits):
        probs = tf.nn.softmax(logits)
        return [log_sums_of(logits, probs)], probs

    values, of_features, of_weights = over_groups(of_predictions, features, mask, weights, [])
    log_sums = values[:, 0]
    num_words = weights[0].shape[1]
    everywhere = label_smoothing / num_words  # Probability that smoothing gives every word.
    of_target = 1 - label_smoothing  # Probability that the target gets on top.

    x, kernel, *bias = (tf.cast(x, tf.float32) for x in (features, *weights))
    targets = tf.gather(tf.transpose(kernel), target_ids)
    whole = tf.reduce_sum(kernel, axis=1)
    nll = log_sums - tf.reduce_sum(x * targets, axis=-1)
    uniform = log_sums - tf.linalg.matvec(x, whole / num_words)
    for b in bias:
        nll -= tf.gather(b, target_ids)
        uniform -= tf.reduce_mean(b)
    loss = (1 - label_smoothing) * nll + label_smoothing * uniform

    of_features -= mask[..., None] * (of_target * targets + everywhere * whole)
    ones = tf.ones_like(mask)[..., None]
    for index, inputs in enumerate([x, ones][: len(of_weights)]):
        real = tf.reshape(mask[..., None] * inputs, [-1, inputs.shape[-1]])
        ids = tf.reshape(target_ids, [-1])
        of_words = tf.math.unsorted_segment_sum(of_target * real, ids, num_words)
        of_words += everywhere * tf.reduce_sum(real, axis=0)
        of_weights[index] -= tf.reshape(tf.transpose(of_words), of_weights[index].shape)
    sums = tf.reduce_sum(loss * mask), tf.reduce_sum(nll * mask)
    return sums, of_features, of_weights
