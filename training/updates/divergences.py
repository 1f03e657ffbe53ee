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
`training.updates.losses`.
"""

from typing import NamedTuple

import tensorflow as tf

from training.updates.losses import groups_of, in_groups


class Compared(NamedTuple):
    """Where the divergences of predictions are measured.

    Attributes:
        alpha: weight of the divergence between two passes, at least 0; None for a single pass.
        taught: `training.updates.teacher.Taught`; None without a teacher.
    """

    alpha: float | None = None
    taught: tuple | None = None


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
    alpha, taught = compared
    mask = tf.cast(target_ids != pad_id, tf.float32)
    shape = [1 if alpha is None else 2, *tf.unstack(tf.shape(target_ids)), logits.shape[-1]]
    outputs = [] if taught is None else [taught.outputs]
    sums = _sums_of(label_smoothing, alpha, taught)
    loss, nll = sums(tf.reshape(logits, shape), target_ids, mask, *outputs)
    return loss, nll, tf.reduce_sum(mask)


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
    alpha, taught = compared
    passes = 1 if alpha is None else 2
    mask = tf.cast(target_ids != pad_id, tf.float32)
    count, width = tf.size(target_ids), features.shape[-1]
    weights = [x for x in weights if x is not None]
    outputs = [] if taught is None else [taught.outputs]
    groups = groups_of(count, (passes + len(outputs)) * weights[0].shape[1])
    sums = _sums_of(label_smoothing, alpha, taught)

    @tf.custom_gradient
    def losses(features, *weights):
        tokens = tf.transpose(tf.reshape(features, [passes, -1, width]), [1, 0, 2])  # [B*T, P, D]
        of_tokens = [in_groups(tokens, groups, 1)]
        of_tokens += [in_groups(x, groups) for x in (target_ids, mask, *outputs)]
        loss, nll, of_tokens, of_weights = _grouped(of_tokens, weights, sums)
        of_tokens = tf.reshape(of_tokens, [-1, passes, width])[:count]
        of_features = tf.reshape(tf.transpose(of_tokens, [1, 0, 2]), tf.shape(features))

        def gradient(of_loss, _):
            sides = zip([of_features, *of_weights], (features, *weights), strict=True)
            return [tf.cast(of_loss * g, x.dtype) for g, x in sides]

        return (loss, nll), gradient

    loss, nll = losses(features, *weights)
    return loss, tf.stop_gradient(nll), tf.reduce_sum(mask)


def _grouped(of_tokens, weights, sums):
    """Computes the losses over all groups and the gradients of the loss, in one loop.

    Args:
        of_tokens: features `[G, N, P, D]`, target ids `[G, N]`, mask `[G, N]`, and outputs of the
            teacher `[G, N, ...]`, if any.
        weights: kernel, and bias if any.
        sums: from `_sums_of`.

    Returns:
        (loss, nll, gradient by features `[G, N, P, D]`, [float32 gradients by `weights`]).
    """
    features, *others = of_tokens
    groups, passes = tf.shape(features)[0], features.shape[2]

    def group(index, loss, nll, of_features, of_weights):
        x = tf.transpose(features[index], [1, 0, 2])  # [P, N, D]
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            logits = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), weights[0])
            logits = tf.nn.bias_add(logits, weights[1]) if weights[1:] else logits
            logits = tf.reshape(tf.cast(logits, tf.float32), [passes, -1, weights[0].shape[1]])
            here = sums(logits, *(each[index] for each in others))
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


def _sums_of(label_smoothing, alpha, taught):
    """Returns the function that sums the losses over tokens.

    Its arguments are `logits [P, ..., V]`, `target_ids` and `mask` `[...]`, and outputs of the
    teacher `[..., D]`, if any. It returns (loss, nll), float32 scalars.
    """

    def sums(logits, target_ids, mask, *outputs):
        log_probs = tf.nn.log_softmax(logits)
        targets = tf.stack([target_ids] * logits.shape[0])
        nll = tf.gather(log_probs, targets, batch_dims=targets.shape.rank)
        nll = -tf.reduce_mean(nll, axis=0)
        uniform = -tf.reduce_mean(log_probs, axis=(0, -1))
        loss = (1 - label_smoothing) * nll + label_smoothing * uniform
        if outputs:
            t = tf.stop_gradient(taught.log_probs(*outputs))
            divergence = tf.reduce_sum(tf.exp(t) * (t - tf.reduce_mean(log_probs, axis=0)), axis=-1)
            loss = (1 - taught.weight) * loss + taught.weight * divergence
        if alpha is not None:
            p, q = tf.unstack(log_probs)
            # KL(p || q) + KL(q || p) = sum_v (p_v - q_v) (log p_v - log q_v)
            divergence = tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=-1)
            loss += alpha / 4 * divergence
        return tf.reduce_sum(loss * mask), tf.reduce_sum(tf.stop_gradient(nll) * mask)

    return sums
