"""Label-smoothed masked cross-entropy.

Szegedy et al. 2016, section 7: the smoothed distribution has `1 - e` on the target and `e` spread
evenly over the vocabulary, so the loss is `(1 - e) * nll + e * mean_v(-log p_v)`. Padding is
ignored.
"""

import tensorflow as tf

BATCH_SIGNATURE = {
    "source_ids": tf.TensorSpec([None, None], tf.int32),
    "target_ids": tf.TensorSpec([None, None], tf.int32),
}

# Logits at a time, few enough for a processor's cache, and fewest rows (tokens), enough for fast
# matrix products.
_LOGITS, _ROWS = 1 << 20, 256


def smoothed_cross_entropy(logits, target_ids, pad_id, label_smoothing):
    """Computes the loss of predictions.

    Args:
        logits: `[B, T, V]` float32.
        target_ids: `[B, T]` int32.
        pad_id: id of padding.
        label_smoothing: e, in [0, 1).

    Returns:
        `(loss, nll, tokens)`, float32 scalars: the sums over real tokens of the smoothed loss and
        of the plain negative log-likelihood in nats, and the number of real tokens. Only the loss
        has a gradient.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    loss, nll = _losses_of(logits, target_ids, label_smoothing)
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


def negative_log_likelihood(model, batch):
    """Returns (sum over real target tokens, number of real target tokens), float32 scalars."""
    real = batch["target_ids"] != model.pad_id
    scores = tf.where(real, model.score(batch["source_ids"], batch["target_ids"]), 0.0)
    return -tf.reduce_sum(scores), tf.reduce_sum(tf.cast(real, tf.float32))


def projected_cross_entropy(features, kernel, bias, target_ids, pad_id, label_smoothing):
    """Computes the loss of logits `features kernel + bias`, without storing all logits at once.

    Tokens are processed in groups. The gradient of a group is computed while its predictions p are
    in memory: it is p - q for the smoothed distribution q. Automatic differentiation would store
    several arrays as large as the logits of a batch. In a small model with a large vocabulary, that
    takes most of the memory and half of the time.

    Args:
        features: `[B, T, D]`.
        kernel: `[D, V]`.
        bias: `[V]`, or None.
        target_ids, pad_id, label_smoothing: as `smoothed_cross_entropy`.

    Returns:
        As `smoothed_cross_entropy`.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    groups = groups_of(tf.size(target_ids), kernel.shape[1])

    @tf.custom_gradient
    def losses(features, kernel, *bias):
        of_tokens = (in_groups(x, groups) for x in (features, target_ids, mask))
        loss, nll, of_features, *of_weights = _grouped(*of_tokens, kernel, bias, label_smoothing)
        of_features = tf.reshape(of_features, [-1, features.shape[-1]])[: tf.size(target_ids)]
        gradients = [tf.reshape(of_features, tf.shape(features)), *of_weights]

        def gradient(of_loss, _):
            sides = zip(gradients, (features, kernel, *bias), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return (loss, nll), gradient

    loss, nll = losses(features, kernel, *([] if bias is None else [bias]))
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def projected_losses(features, kernel, bias, target_ids, pad_id, label_smoothing):
    """Computes what `projected_cross_entropy` does, without a gradient, also group by group."""
    mask = tf.cast(target_ids != pad_id, tf.float32)
    groups = groups_of(tf.size(target_ids), kernel.shape[1])

    def group(of_tokens):
        features, target_ids, mask = of_tokens
        logits = tf.matmul(features, kernel)
        logits = tf.cast(logits if bias is None else tf.nn.bias_add(logits, bias), tf.float32)
        losses = _losses_of(logits, target_ids, label_smoothing)
        return tf.stack([tf.reduce_sum(each * mask) for each in losses])

    of_groups = tf.map_fn(
        group,
        [in_groups(x, groups) for x in (features, target_ids, mask)],
        fn_output_signature=tf.TensorSpec([2], tf.float32),
        parallel_iterations=1,  # Only one group's logits in memory.
    )
    loss, nll = tf.unstack(tf.reduce_sum(of_groups, axis=0))
    return loss, nll, tf.reduce_sum(mask)


def log_sums_of(logits, probs):
    """Returns the logarithms of the sums of exponentials, `[...]`, of logits `[..., V]`.

    Args:
        logits: `[..., V]` float32.
        probs: their softmax. It is their exponentials divided by the sums; the largest is at least
            1/V.
    """
    return tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(probs, axis=-1))


def groups_of(count, logits):
    """Returns into how many groups `count` tokens are split, with `logits` logits a token."""
    rows = max(_ROWS, _LOGITS // logits)
    return (count + rows - 1) // rows


def in_groups(x, groups, axes=2):
    """Splits `[B, T, ...]`, or `[tokens, ...]` if `axes` is 1, into `[groups, tokens, ...]`.

    Zeros fill the last group.
    """
    shape = x.shape[axes:]
    x = tf.reshape(x, [-1, *shape])
    count = tf.shape(x)[0]
    rows = (count + groups - 1) // tf.maximum(groups, 1)
    x = tf.pad(x, [[0, rows * groups - count]] + [[0, 0]] * len(shape))
    return tf.reshape(x, [groups, rows, *shape])


def _grouped(features, target_ids, mask, kernel, bias, label_smoothing):
    """Computes both losses over all groups, and the gradients of the smoothed loss.

    The gradient of a token's loss by its logits is p - q. q has only two different values and is
    never written out, because a pass over an array as large as the logits takes a good part of the
    time of a matrix product.

    Args:
        features: `[G, N, D]`.
        target_ids: `[G, N]`.
        mask: `[G, N]` float32, 1 or 0.
        kernel, label_smoothing: as `projected_cross_entropy`.
        bias: `[bias]`, or empty.

    Returns:
        `(loss, nll)` summed; gradients of the loss, float32: `[G, N, D]`, `[D, V]` and, of a bias,
        `[V]`.
    """
    log_sums, of_features, of_weights = _of_predictions(features, mask, kernel, bias)
    everywhere = label_smoothing / kernel.shape[1]  # Probability that smoothing gives every word.
    of_target = 1 - label_smoothing  # Probability that the target gets on top.

    x, kernel, *bias = (tf.cast(x, tf.float32) for x in (features, kernel, *bias))
    targets = tf.gather(tf.transpose(kernel), target_ids)
    whole = tf.reduce_sum(kernel, axis=1)
    nll = log_sums - tf.reduce_sum(x * targets, axis=-1)
    uniform = log_sums - tf.linalg.matvec(x, whole / kernel.shape[1])
    for b in bias:
        nll -= tf.gather(b, target_ids)
        uniform -= tf.reduce_mean(b)
    loss = (1 - label_smoothing) * nll + label_smoothing * uniform

    of_features -= mask[..., None] * (of_target * targets + everywhere * whole)
    ones = tf.ones_like(mask)[..., None]
    for index, inputs in enumerate([x, ones][: len(of_weights)]):
        real = tf.reshape(mask[..., None] * inputs, [-1, inputs.shape[-1]])
        ids = tf.reshape(target_ids, [-1])
        of_words = tf.math.unsorted_segment_sum(of_target * real, ids, kernel.shape[1])
        of_words += everywhere * tf.reduce_sum(real, axis=0)
        of_weights[index] -= tf.reshape(tf.transpose(of_words), of_weights[index].shape)
    return tf.reduce_sum(loss * mask), tf.reduce_sum(nll * mask), of_features, *of_weights


def _of_predictions(features, mask, kernel, bias):
    """Computes everything that needs all logits, in one loop over groups.

    Args:
        features, mask, kernel, bias: as `_grouped`.

    Returns:
        (log_sums, gradient by features, [gradient by kernel, gradient by bias if any]): `log_sums`
        are `[G, N]` logarithms of the sums of exponentials; the gradients are the part of p in
        p - q.
    """
    groups = tf.shape(features)[0]

    def group(index, log_sums, of_features, of_weights):
        x = features[index]
        logits = tf.matmul(x, kernel)
        logits = tf.cast(tf.nn.bias_add(logits, bias[0]) if bias else logits, tf.float32)
        probs = tf.nn.softmax(logits)
        log_sums_here = log_sums_of(logits, probs)
        probs = tf.cast(probs, x.dtype)
        real = mask[index][:, None]
        of_x = real * tf.cast(tf.matmul(probs, kernel, transpose_b=True), tf.float32)
        real = tf.cast(real, x.dtype)
        parts = [tf.matmul(real * x, probs, transpose_a=True)]
        if bias:
            parts.append(tf.linalg.matvec(probs, real[:, 0], transpose_a=True))
        return (
            index + 1,
            log_sums.write(index, log_sums_here),
            of_features.write(index, of_x),
            [g + tf.cast(part, tf.float32) for g, part in zip(of_weights, parts, strict=True)],
        )

    arrays = [
        tf.TensorArray(tf.float32, groups, element_shape=x.shape[1:]) for x in (mask, features)
    ]
    zeros = [tf.zeros(x.shape, tf.float32) for x in (kernel, *bias)]
    _, log_sums, of_features, of_weights = tf.while_loop(
        lambda index, *_: index < groups,
        group,
        (0, *arrays, zeros),
        maximum_iterations=groups,
    )
    return log_sums.stack(), of_features.stack(), list(of_weights)
