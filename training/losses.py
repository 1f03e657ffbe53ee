"""Label-smoothed masked cross-entropy."""

import tensorflow as tf


def smoothed_cross_entropy(logits, target_ids, pad_id, label_smoothing):
    """Cross-entropy against `1 - e` on the target and `e` spread evenly over the vocabulary.

    Szegedy et al. 2016, section 7; `(1 - e) * nll + e * mean_v(-log p_v)`. Padding counts nothing.

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
    loss, nll = _token_losses(logits, target_ids, label_smoothing)
    nll = tf.stop_gradient(nll)
    return tf.reduce_sum(loss * mask), tf.reduce_sum(nll * mask), tf.reduce_sum(mask)


def _token_losses(logits, target_ids, label_smoothing):
    """`(loss, nll)`, `[B, T]` each; the loss alone has a gradient.

    That gradient, p - q for predictions p and the smoothed distribution q, is written down here. In
    a small model under a large vocabulary half of the time went by in what TensorFlow makes of
    `[B, T, V]` by itself.
    """

    @tf.custom_gradient
    def losses(logits):
        p = tf.nn.softmax(logits)
        # The logarithm of the sum of exp(logits), from the entry of p that cannot underflow.
        log_sum = tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(p, axis=-1))
        nll = loss = log_sum - tf.gather(logits, target_ids, batch_dims=2)
        if label_smoothing:
            uniform = log_sum - tf.reduce_mean(logits, axis=-1)
            loss = (1 - label_smoothing) * nll + label_smoothing * uniform

        def gradient(of_loss, _):
            vocab_size = logits.shape[-1]
            share = label_smoothing / vocab_size
            q = tf.one_hot(target_ids, vocab_size, 1 - label_smoothing + share, share)
            return of_loss[..., None] * (p - q)

        return (loss, nll), gradient

    return losses(logits)
