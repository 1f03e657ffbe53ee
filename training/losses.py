"""Label-smoothed masked cross-entropy."""

import tensorflow as tf


def smoothed_cross_entropy(logits, target_ids, pad_id, label_smoothing):
    """Cross-entropy against `1 - e` on the target and `e` spread evenly over the vocabulary.

    Szegedy et al. 2016, section 7; `(1 - e) * nll + e * mean_v(-log p_v)`, without a one-hot
    tensor. Padding counts nothing.

    Args:
        logits: `[B, T, V]` float32.
        target_ids: `[B, T]` int32.
        pad_id: id of padding.
        label_smoothing: e, in [0, 1).

    Returns:
        `(loss, nll, tokens)`, float32 scalars: the sums over real tokens of the smoothed loss and
        of the plain negative log-likelihood in nats, and the number of real tokens.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    loss, nll = _token_losses(logits, target_ids, label_smoothing)
    return tf.reduce_sum(loss * mask), tf.reduce_sum(nll * mask), tf.reduce_sum(mask)


def _token_losses(logits, target_ids, label_smoothing):
    """`(loss, nll)`, `[B, T]` each.

    With a gradient of its own, `p - q` for predictions p and smoothed targets q: in a model with
    one small layer under a large vocabulary, half of all time went by in what TensorFlow's
    cross-entropy and the gradient of its sums make of `[B, T, V]`.
    """

    @tf.custom_gradient
    def compute(logits):
        probabilities = tf.nn.softmax(logits)
        # The logarithm of the sum of exp(logits), from the entry that is safe from underflow.
        log_sums = tf.reduce_max(logits, -1) - tf.math.log(tf.reduce_max(probabilities, -1))
        nll = log_sums - tf.gather(logits, target_ids, batch_dims=2)
        loss = nll
        if label_smoothing:
            spread = log_sums - tf.reduce_mean(logits, -1)
            loss = (1 - label_smoothing) * nll + label_smoothing * spread

        def gradient(of_loss, of_nll):
            shape = tf.shape(logits)
            result = (of_loss + of_nll)[..., None] * probabilities
            if label_smoothing:
                share = label_smoothing / tf.cast(shape[-1], tf.float32)
                result -= (of_loss * share)[..., None]
            rows = tf.reshape(result, (-1, shape[-1]))
            targets = tf.reshape(target_ids, (-1, 1))
            places = tf.concat([tf.range(tf.size(targets))[:, None], targets], axis=1)
            at_targets = tf.reshape((1 - label_smoothing) * of_loss + of_nll, (-1,))
            return tf.reshape(tf.tensor_scatter_nd_sub(rows, places, at_targets), shape)

        return (loss, nll), gradient

    return compute(logits)
