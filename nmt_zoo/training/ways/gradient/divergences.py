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

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from nmt_zoo.training.ways.gradient.losses import (
    Losses,
    Wanted,
    groups_of,
    in_groups,
    log_sums_of,
    over_groups,
    projected_cross_entropy,
    smoothed_cross_entropy,
    with_gradients,
)
from nmt_zoo.training.ways.gradient.teacher import Taught


class Compared(NamedTuple):
    """Where the divergences of predictions are measured."""

    alpha: float | None = None  # weight, at least 0, of two passes' divergence; None for one pass
    taught: Taught | None = None  # predictions of a teacher

    @property
    def passes(self) -> int:
        """Number of passes over a batch: 1 or 2."""
        return 1 if self.alpha is None else 2

    @property
    def outputs(self) -> list[tf.Tensor]:
        """The outputs of the teacher, if there is one."""
        return [] if self.taught is None else [self.taught.outputs]


def training_losses(
    outputs: tf.Tensor, weights: Sequence | None, wanted: Wanted, compared: Compared | None
) -> Losses:
    """Computes the loss of training, by the function of `losses` or of this module that suits.

    `outputs` of P passes are `[P B, T, V]` logits if `weights` is None. Otherwise they are
    `[P B, T, D]` features, and `weights` is (kernel, bias or None).
    """
    if weights and compared:
        return projected_diverging_cross_entropy(outputs, weights, wanted, compared)
    if weights:
        return projected_cross_entropy(outputs, weights, wanted)
    if compared:
        return diverging_cross_entropy(outputs, wanted, compared)
    return smoothed_cross_entropy(outputs, wanted)


def diverging_cross_entropy(logits: tf.Tensor, wanted: Wanted, compared: Compared) -> Losses:
    """Computes the loss of the predictions of one or two passes.

    `logits` are `[P B, T, V]` float32 of P passes; rows `b` and `B + b` are two passes over one
    sentence. Returns sums as `losses.smoothed_cross_entropy`, over the real tokens of one pass. The
    negative log-likelihood is the mean of all passes.
    """
    target_ids, mask = wanted.target_ids, wanted.mask
    token_loss = _token_loss(wanted.label_smoothing, compared)

    def compute(logits):
        rows = tf.reshape(logits, [-1, logits.shape[-1]])
        others = (tf.reshape(x, [-1, *x.shape[2:]]) for x in (target_ids, *compared.outputs))
        (loss, nll), of_logits = token_loss(rows, *others)
        real = tf.reshape(mask, [-1])
        of_logits *= tf.tile(real, [compared.passes])[:, None]
        sums = tf.reduce_sum(loss * real), tf.reduce_sum(nll * real)
        return sums, [tf.reshape(of_logits, tf.shape(logits))]

    return *with_gradients(compute, logits), tf.reduce_sum(mask)


def projected_diverging_cross_entropy(
    features: tf.Tensor, weights: Sequence, wanted: Wanted, compared: Compared
) -> Losses:
    """As `diverging_cross_entropy` for logits `features kernel + bias`, never all stored at once.

    As in `losses.projected_cross_entropy`, tokens are processed in groups, and the gradient of a
    group is computed while its logits are in memory. `features` are `[P B, T, D]`, `weights` are
    (kernel `[D, V]`, bias `[V]` or None).
    """
    passes, outputs = compared.passes, compared.outputs
    target_ids, mask = wanted.target_ids, wanted.mask
    count, width = tf.size(target_ids), features.shape[-1]
    groups = groups_of((passes + len(outputs)) * count, weights[0].shape[1])
    token_loss = _token_loss(wanted.label_smoothing, compared)

    def compute(features, *weights):
        grouped = [in_groups(x, groups) for x in tf.split(features, passes)]
        rows = tf.concat(grouped, axis=1)  # [G, P*N, D]
        real, *others = (in_groups(x, groups) for x in (mask, target_ids, *outputs))
        values, of_rows, of_weights = over_groups(token_loss, rows, real, weights, others)
        of_passes = (tf.reshape(x, [-1, width])[:count] for x in tf.split(of_rows, passes, axis=1))
        of_features = tf.reshape(tf.concat(list(of_passes), axis=0), tf.shape(features))
        loss, nll = tf.unstack(tf.reduce_sum(values * real[:, None], axis=[0, 2]))
        return (loss, nll), [of_features, *of_weights]

    weights = [x for x in weights if x is not None]
    return *with_gradients(compute, features, *weights), tf.reduce_sum(mask)


def _token_loss(label_smoothing, compared):
    """Returns the function that computes the loss of each token and its gradient.

    Its arguments are `logits [P*N, V]` float32, `target_ids [N]`, and outputs of the teacher
    `[N, D]`, if any. It returns ([loss `[N]`, nll `[N]`], gradient of the loss `[P*N, V]`).

    The gradients are written out, because automatic differentiation passes about three times as
    often over arrays as large as the logits, which takes most of the time in a small model. By the
    logits of p, the cross-entropy with a distribution q has the gradient p - q, as KL(q || p) has;
    KL(p || q) has p * (log p - log q - KL(p || q)).
    """
    alpha, taught = compared

    def token_loss(logits, target_ids, *outputs):
        count = logits.shape[-1]
        logits = tf.reshape(logits, [compared.passes, -1, count])
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
            return [loss, nll], probs[0] - wanted
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
        return [loss, nll], tf.concat(of_logits, axis=0)

    return token_loss
