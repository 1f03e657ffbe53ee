"""R-Drop: predictions of two passes with different dropout are drawn together.

Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4. Every sentence is
in a batch twice, so that its two rows get different dropout and predict p and q for each token.
The loss of a token is half of the paper's sum, so that `alpha` is the paper's:

    (loss(p) + loss(q)) / 2 + alpha / 4 * (KL(p || q) + KL(q || p))

`loss` is the label-smoothed cross-entropy of `training.updates.losses`.
"""

import tensorflow as tf

from training.updates.losses import groups_of, in_groups


def twice(inputs):
    """Repeats every row of a batch, for two passes: name -> `[B, ...]` to name -> `[2B, ...]`."""
    return {name: tf.concat([ids, ids], axis=0) for name, ids in inputs.items()}


def consistent_cross_entropy(logits, target_ids, pad_id, label_smoothing, alpha):
    """Computes the loss of the predictions of both passes.

    Args:
        logits: `[2B, T, V]` float32; rows `b` and `B + b` are two passes over one sentence.
        target_ids: `[B, T]` int32.
        pad_id: id of padding.
        label_smoothing: in [0, 1).
        alpha: weight of the divergence, at least 0.

    Returns:
        As `losses.smoothed_cross_entropy`: sums over the real tokens of one pass. The negative
        log-likelihood is the mean of both passes.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    logits = tf.reshape(logits, [2, *tf.unstack(tf.shape(target_ids)), logits.shape[-1]])
    loss, nll = _sums(logits, target_ids, mask, label_smoothing, alpha)
    return loss, nll, tf.reduce_sum(mask)


def projected_consistent_cross_entropy(
    features, weights, target_ids, pad_id, label_smoothing, alpha
):
    """Computes the loss of logits `features kernel + bias`, without storing all logits at once.

    As in `losses.projected_cross_entropy`, tokens are processed in groups, and the gradient of a
    group is computed while its logits are in memory.

    Args:
        features: `[2B, T, D]`.
        weights: (kernel `[D, V]`, bias `[V]` or None).
        target_ids, pad_id, label_smoothing, alpha: as `consistent_cross_entropy`.

    Returns:
        As `consistent_cross_entropy`.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    count, width = tf.size(target_ids), features.shape[-1]
    weights = [x for x in weights if x is not None]
    groups = groups_of(count, 2 * weights[0].shape[1])

    @tf.custom_gradient
    def losses(features, *weights):
        tokens = tf.transpose(tf.reshape(features, [2, -1, width]), [1, 0, 2])  # [B*T, 2, D]
        of_tokens = [in_groups(tokens, groups, 1)]
        of_tokens += [in_groups(x, groups) for x in (target_ids, mask)]
        loss, nll, of_tokens, of_weights = _grouped(of_tokens, weights, label_smoothing, alpha)
        of_tokens = tf.reshape(of_tokens, [-1, 2, width])[:count]
        of_features = tf.reshape(tf.transpose(of_tokens, [1, 0, 2]), tf.shape(features))

        def gradient(of_loss, _):
            sides = zip([of_features, *of_weights], (features, *weights), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return (loss, nll), gradient

    loss, nll = losses(features, *weights)
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def _grouped(of_tokens, weights, label_smoothing, alpha):
    """Computes the losses over all groups and the gradients of the loss, in one loop.

    Args:
        of_tokens: features `[G, N, 2, D]`, target ids `[G, N]`, mask `[G, N]`.
        weights: kernel, and bias if any.
        label_smoothing, alpha: as `consistent_cross_entropy`.

    Returns:
        (loss, nll, gradient by features `[G, N, 2, D]`, [float32 gradients by `weights`]).
    """
    features, target_ids, mask = of_tokens
    groups = tf.shape(mask)[0]

    def group(index, loss, nll, of_features, of_weights):
        x = tf.transpose(features[index], [1, 0, 2])  # [2, N, D]
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            logits = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), weights[0])
            logits = tf.nn.bias_add(logits, weights[1]) if weights[1:] else logits
            logits = tf.reshape(tf.cast(logits, tf.float32), [2, -1, weights[0].shape[1]])
            here = _sums(logits, target_ids[index], mask[index], label_smoothing, alpha)
        of_x, *parts = tape.gradient(here[0], [x, *weights])
        return (
            index + 1,
            loss + here[0],
            nll + here[1],
            of_features.write(index, tf.transpose(of_x, [1, 0, 2])),
            [g + tf.cast(part, tf.float32) for g, part in zip(of_weights, parts, strict=True)],
        )

    of_features = tf.TensorArray(features.dtype, groups, element_shape=features.shape[1:])
    zeros = [tf.zeros(x.shape, tf.float32) for x in weights]
    _, loss, nll, of_features, of_weights = tf.while_loop(
        lambda index, *_: index < groups,
        group,
        (0, 0.0, 0.0, of_features, zeros),
        maximum_iterations=groups,
    )
    return loss, nll, tf.cast(of_features.stack(), tf.float32), of_weights


def _sums(logits, target_ids, mask, label_smoothing, alpha):
    """Sums the losses over tokens, from `logits [2, ..., V]` and `target_ids`, `mask` `[...]`.

    Returns:
        (loss, nll), float32 scalars.
    """
    log_probs = tf.nn.log_softmax(logits)
    both = tf.stack([target_ids, target_ids])
    nll = -tf.reduce_mean(tf.gather(log_probs, both, batch_dims=both.shape.rank), axis=0)
    uniform = -tf.reduce_mean(log_probs, axis=(0, -1))
    p, q = tf.unstack(log_probs)
    # KL(p || q) + KL(q || p) = sum_v (p_v - q_v) (log p_v - log q_v)
    divergence = tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=-1)
    loss = (1 - label_smoothing) * nll + label_smoothing * uniform + alpha / 4 * divergence
    return tf.reduce_sum(loss * mask), tf.reduce_sum(tf.stop_gradient(nll) * mask)
