"""Losses that draw predictions together by their divergence: R-Drop, and knowledge distillation.

R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4): every
sentence is in a batch twice, so that its two rows get different dropout and predict p and q for
each token. The loss of a token is half of the paper's sum, so that `alpha` is the paper's:

    (loss(p) + loss(q)) / 2 + alpha / 4 * (KL(p || q) + KL(q || p))

Word-level knowledge distillation (Kim and Rush 2016, "Sequence-Level Knowledge Distillation",
section 3.1): the model also learns the predictions t of a teacher, with the share `weight`:

    (1 - weight) * loss(p) + weight * KL(t || p)

The paper has the cross-entropy of t and p, whose gradient is the same. Together, both passes of
R-Drop learn from the teacher. `loss` is the label-smoothed cross-entropy of
`training.ways.gradient.losses`.
"""

from typing import NamedTuple

import tensorflow as tf

from nmt_zoo.training.ways.gradient.losses import groups_of, in_groups, log_sums_of


class Compared(NamedTuple):
    """Where the divergences of predictions are measured.

    Attributes:
        alpha: weight of the divergence between two passes, at least 0; None for a single pass.
        taught: `training.ways.gradient.teacher.Taught`; None without a teacher.
    """

    alpha: float | None = None
    taught: tuple | None = None

    @property
    def passes(self):
        """Number of passes over a batch: 1 or 2."""
        return 1 if self.alpha is None else 2


def twice(inputs):
    """Repeats every row of a batch, for two passes: name -> `[B, ...]` to name -> `[2B, ...]`."""
    return {name: tf.concat([ids, ids], axis=0) for name, ids in inputs.items()}


def diverging_cross_entropy(logits, target_ids, pad_id, label_smoothing, compared):
    """Computes the loss of the predictions of one or two passes.

    Args:
        logits: `[P B, T, V]` float32 of P passes; rows `b` and `B + b` are two passes over one
            sentence.
        target_ids: `[B, T]` int32.
        pad_id: id of padding.
        label_smoothing: in [0, 1).
        compared: `Compared`.

    Returns:
        As `losses.smoothed_cross_entropy`: sums over the real tokens of one pass. The negative
        log-likelihood is the mean of all passes.
    """
    mask = tf.cast(target_ids != pad_id, tf.float32)
    outputs = [] if compared.taught is None else [compared.taught.outputs]
    of_tokens = _of_tokens(label_smoothing, compared)

    @tf.custom_gradient
    def losses(logits):
        passes = tf.reshape(logits, [compared.passes, tf.size(target_ids), logits.shape[-1]])
        others = (tf.reshape(x, [-1, *x.shape[2:]]) for x in (target_ids, *outputs))
        loss, nll, of_logits = of_tokens(passes, *others)
        real = tf.reshape(mask, [-1])
        of_logits = tf.reshape(real[:, None] * tf.stack(of_logits), tf.shape(logits))
        sums = tf.reduce_sum(loss * real), tf.reduce_sum(nll * real)
        return sums, lambda of_loss, _: of_loss * of_logits

    loss, nll = losses(logits)
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def projected_diverging_cross_entropy(
    features, weights, target_ids, pad_id, label_smoothing, compared
):
    """Computes the loss of logits `features kernel + bias`, without storing all logits at once.

    As in `losses.projected_cross_entropy`, tokens are processed in groups, and the gradient of a
    group is computed while its logits are in memory.

    Args:
        features: `[P B, T, D]`.
        weights: (kernel `[D, V]`, bias `[V]` or None).
        target_ids, pad_id, label_smoothing, compared: as `diverging_cross_entropy`.

    Returns:
        As `diverging_cross_entropy`.
    """
    passes = compared.passes
    mask = tf.cast(target_ids != pad_id, tf.float32)
    count, width = tf.size(target_ids), features.shape[-1]
    weights = [x for x in weights if x is not None]
    outputs = [] if compared.taught is None else [compared.taught.outputs]
    groups = groups_of((passes + len(outputs)) * count, weights[0].shape[1])
    of_tokens = _of_tokens(label_smoothing, compared)

    @tf.custom_gradient
    def losses(features, *weights):
        tokens = tf.transpose(tf.reshape(features, [passes, -1, width]), [1, 0, 2])  # [B*T, P, D]
        inputs = [in_groups(tokens, groups, 1)]
        inputs += [in_groups(x, groups) for x in (mask, target_ids, *outputs)]
        loss, nll, of_features, of_weights = _grouped(inputs, weights, of_tokens)
        of_features = tf.reshape(of_features, [-1, passes, width])[:count]
        of_features = tf.reshape(tf.transpose(of_features, [1, 0, 2]), tf.shape(features))

        def gradient(of_loss, _):
            sides = zip([of_features, *of_weights], (features, *weights), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return (loss, nll), gradient

    loss, nll = losses(features, *weights)
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def _grouped(inputs, weights, of_tokens):
    """Computes the losses over all groups and the gradients of the loss, in one loop.

    Args:
        inputs: features `[G, N, P, D]`, mask `[G, N]`, target ids `[G, N]`, and outputs of the
            teacher `[G, N, ...]`, if any.
        weights: kernel, and bias if any.
        of_tokens: from `_of_tokens`.

    Returns:
        (loss, nll, gradient by features `[G, N, P, D]`, [gradients by `weights`]), all float32.
    """
    features, mask, *others = inputs
    groups, passes, width = tf.shape(features)[0], *features.shape[2:]
    kernel, *bias = weights

    def group(index, loss, nll, of_features, of_weights):
        x = tf.reshape(tf.transpose(features[index], [1, 0, 2]), [-1, width])  # [P*N, D]
        logits = tf.matmul(x, kernel)
        logits = tf.cast(tf.nn.bias_add(logits, bias[0]) if bias else logits, tf.float32)
        logits = tf.reshape(logits, [passes, -1, kernel.shape[1]])
        loss_here, nll_here, of_logits = of_tokens(logits, *(each[index] for each in others))
        of_logits = tf.concat([tf.cast(each, x.dtype) for each in of_logits], axis=0)
        real = tf.cast(tf.tile(mask[index], [passes])[:, None], x.dtype)
        of_x = real * tf.matmul(of_logits, kernel, transpose_b=True)
        of_x = tf.transpose(tf.reshape(of_x, [passes, -1, width]), [1, 0, 2])
        parts = [tf.matmul(real * x, of_logits, transpose_a=True)]
        if bias:
            parts.append(tf.linalg.matvec(of_logits, real[:, 0], transpose_a=True))
        return (
            index + 1,
            loss + tf.reduce_sum(loss_here * mask[index]),
            nll + tf.reduce_sum(nll_here * mask[index]),
            of_features.write(index, tf.cast(of_x, tf.float32)),
            [g + tf.cast(part, tf.float32) for g, part in zip(of_weights, parts, strict=True)],
        )

    of_features = tf.TensorArray(tf.float32, groups, element_shape=features.shape[1:])
    zeros = [tf.zeros(x.shape, tf.float32) for x in weights]
    _, loss, nll, of_features, of_weights = tf.while_loop(
        lambda index, *_: index < groups,
        group,
        (0, 0.0, 0.0, of_features, zeros),
        maximum_iterations=groups,
    )
    return loss, nll, of_features.stack(), of_weights


def _of_tokens(label_smoothing, compared):
    """Returns the function that computes the loss of each token and its gradient.

    Its arguments are `logits [P, N, V]` float32, `target_ids [N]`, and outputs of the teacher
    `[N, D]`, if any. It returns (loss `[N]`, nll `[N]`, the gradients of the loss by the logits of
    each pass, P times `[N, V]`).

    The gradients are written out, because automatic differentiation passes about three times as
    often over arrays as large as the logits, which takes most of the time in a small model. By the
    logits of p, the cross-entropy with a distribution q has the gradient p - q, as KL(q || p) has;
    KL(p || q) has p * (log p - log q - KL(p || q)).
    """
    alpha, taught = compared

    def of_tokens(logits, target_ids, *outputs):
        count = logits.shape[-1]
        probs = tf.nn.softmax(logits)
        log_sums = log_sums_of(logits, probs)
        of_targets = tf.stack([tf.gather(x, target_ids, batch_dims=1) for x in tf.unstack(logits)])
        nll = tf.reduce_mean(log_sums - of_targets, axis=0)
        uniform = tf.reduce_mean(log_sums - tf.reduce_mean(logits, axis=-1), axis=0)
        loss = (1 - label_smoothing) * nll + label_smoothing * uniform
        elsewhere = label_smoothing / count
        wanted = tf.one_hot(target_ids, count, 1 - label_smoothing + elsewhere, elsewhere)
        if outputs:
            t = tf.stop_gradient(taught.log_probs(*outputs))
            log_probs = tf.reduce_mean(logits - log_sums[..., None], axis=0)
            divergence = tf.reduce_sum(tf.exp(t) * (t - log_probs), axis=-1)
            loss = (1 - taught.weight) * loss + taught.weight * divergence
            wanted = (1 - taught.weight) * wanted + taught.weight * tf.exp(t)
        if alpha is None:
            return loss, nll, [probs[0] - wanted]
        p, q = tf.unstack(probs)
        # log p - log q is this and a term that all words have and that cancels out.
        difference = alpha / 4 * (logits[0] - logits[1])
        of_p = tf.reduce_sum(p * difference, axis=-1, keepdims=True)
        of_q = tf.reduce_sum(q * difference, axis=-1, keepdims=True)
        loss += tf.squeeze(of_p - of_q, -1)
        of_both = alpha / 4 * (p - q)
        wanted /= 2
        of_logits = [
            p * (difference + (0.5 - of_p)) + of_both - wanted,
            q * ((0.5 + of_q) - difference) - of_both - wanted,
        ]
        return loss, nll, of_logits

    return of_tokens
