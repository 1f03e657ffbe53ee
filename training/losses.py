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
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(target_ids, logits)  # [B, T]
    loss = nll
    if label_smoothing:
        target_logits = tf.gather(logits, target_ids, batch_dims=2)
        loss = nll + label_smoothing * (target_logits - tf.reduce_mean(logits, axis=-1))
    return tf.reduce_sum(loss * mask), tf.reduce_sum(nll * mask), tf.reduce_sum(mask)
