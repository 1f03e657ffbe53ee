"""Label-smoothed masked cross-entropy.

Szegedy et al. 2016, section 7: the distribution to be met has `1 - e` on the target and `e` spread
evenly over the vocabulary, so the loss is `(1 - e) * nll + e * mean_v(-log p_v)`. Padding counts
nothing.
"""

import tensorflow as tf

# Logits at a time: few enough to stay in a processor's cache, but rows enough for fast products.
_LOGITS, _ROWS = 1 << 20, 256


def smoothed_cross_entropy(logits, target_ids, pad_id, label_smoothing):
    """The loss of predictions.

    Args:
        logits: `[B, T, V]` float32.
        target_ids: `[B, T]` int32.
        pad_id: id of padding.
        label_smoothing: e, in [0, 1).

    Returns:
        `(loss, nll, tokens)`, float32 scalars: the sums over real tokens of the smoothed loss and
        of the plain negative log-likelihood in nats, and the number of real tokens. The loss alone
        has a gradient.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    loss, nll = _token_losses(logits, target_ids, label_smoothing)[:2]
    return (
        tf.reduce_sum(loss * mask),
        tf.reduce_sum(tf.stop_gradient(nll) * mask),
        tf.reduce_sum(mask),
    )


def projected_cross_entropy(features, kernel, bias, target_ids, pad_id, label_smoothing):
    """The loss of predictions `features kernel + bias`, which are never held all at once.

    Tokens are worked off in groups, and the gradient of a group is found while its predictions are
    at hand: p - q for predictions p and the smoothed distribution q. For the gradient of the whole
    the logits of a batch would be needed several times over, in a small model under a large
    vocabulary most of its memory and half of its time.

    Args:
        features: `[B, T, D]`.
        kernel: `[D, V]`.
        bias: `[V]`, or None.
        target_ids: as `smoothed_cross_entropy`, and so are the others.

    Returns:
        As `smoothed_cross_entropy`.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    bias = tf.zeros(kernel.shape[1:], kernel.dtype) if bias is None else bias
    rows = max(_ROWS, _LOGITS // kernel.shape[1])
    groups = (tf.size(target_ids) + rows - 1) // rows

    @tf.custom_gradient
    def losses(features, kernel, bias):
        loss, nll, *gradients = _grouped(
            *(_in_groups(x, groups) for x in (features, target_ids, mask)),
            kernel,
            bias,
            label_smoothing,
        )
        gradients[0] = tf.reshape(gradients[0], [-1, features.shape[-1]])[: tf.size(target_ids)]
        gradients[0] = tf.reshape(gradients[0], tf.shape(features))

        def gradient(of_loss, _):
            sides = zip(gradients, (features, kernel, bias), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return (loss, nll), gradient

    loss, nll = losses(features, kernel, bias)
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def _in_groups(x, groups):
    """`[B, T, ...]` -> `[groups, tokens, ...]`, with zeros where the last group has room."""
    shape = x.shape[2:]
    x = tf.reshape(x, [-1, *shape])
    count = tf.shape(x)[0]
    rows = (count + groups - 1) // tf.maximum(groups, 1)
    x = tf.pad(x, [[0, rows * groups - count]] + [[0, 0]] * len(shape))
    return tf.reshape(x, [groups, rows, *shape])


def _grouped(features, target_ids, mask, kernel, bias, label_smoothing):
    """Losses of all groups, and the gradients of the first.

    Args:
        features: `[G, N, D]`.
        target_ids: `[G, N]`.
        mask: `[G, N]` float32, 1 or 0.
        kernel, bias, label_smoothing: as `projected_cross_entropy`.

    Returns:
        `(loss, nll)` summed; gradients of the loss, float32: `[G, N, D]`, `[D, V]`, `[V]`.
    """
    groups, vocab_size = tf.shape(features)[0], kernel.shape[1]

    def group(index, loss, nll, of_features, of_kernel, of_bias):
        x, ids, weight = features[index], target_ids[index], mask[index]
        logits = tf.cast(tf.matmul(x, kernel) + bias, tf.float32)
        token_loss, token_nll, p = _token_losses(logits, ids, label_smoothing)
        # p less the part of q on the target; the rest of q is the same for all words.
        rows = tf.stack([tf.range(tf.size(ids)), ids], axis=1)
        p = tf.tensor_scatter_nd_sub(p, rows, tf.fill([tf.size(ids)], 1 - label_smoothing))
        p, scaled = tf.cast(p, x.dtype), tf.cast(weight, x.dtype)[:, None] * x
        of_x = tf.cast(tf.matmul(p, kernel, transpose_b=True), tf.float32) * weight[:, None]
        return (
            index + 1,
            loss + tf.reduce_sum(token_loss * weight),
            nll + tf.reduce_sum(token_nll * weight),
            of_features.write(index, of_x),
            of_kernel + tf.cast(tf.matmul(scaled, p, transpose_a=True), tf.float32),
            of_bias
            + tf.cast(tf.linalg.matvec(p, tf.cast(weight, p.dtype), transpose_a=True), tf.float32),
        )

    zeros = [tf.zeros(x.shape, tf.float32) for x in (kernel, bias)]
    rows = tf.TensorArray(tf.float32, groups, element_shape=features.shape[1:])
    _, loss, nll, of_features, of_kernel, of_bias = tf.while_loop(
        lambda index, *_: index < groups,
        group,
        (0, 0.0, 0.0, rows, *zeros),
        maximum_iterations=groups,
    )
    of_features = of_features.stack()
    if label_smoothing:
        share = label_smoothing / vocab_size * mask[..., None]
        of_features -= share * tf.reduce_sum(tf.cast(kernel, tf.float32), axis=1)
        of_kernel -= tf.reduce_sum(share * tf.cast(features, tf.float32), axis=[0, 1])[:, None]
        of_bias -= tf.reduce_sum(share)
    return loss, nll, of_features, of_kernel, of_bias


def _token_losses(logits, target_ids, label_smoothing):
    """`(loss, nll)` of every token, `[...]`, and the predicted probabilities, `[..., V]`."""
    largest = tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
    exponentials = tf.exp(logits - largest)
    sums = tf.reduce_sum(exponentials, axis=-1, keepdims=True)
    log_sum = tf.squeeze(largest + tf.math.log(sums), -1)
    nll = loss = log_sum - tf.gather(logits, target_ids, batch_dims=target_ids.shape.rank)
    if label_smoothing:
        uniform = log_sum - tf.reduce_mean(logits, axis=-1)
        loss = (1 - label_smoothing) * nll + label_smoothing * uniform
    return loss, nll, exponentials * (1 / sums)
