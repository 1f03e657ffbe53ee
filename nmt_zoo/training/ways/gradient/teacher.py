"""Word-level knowledge distillation: a model also learns the predictions t of a teacher.

Kim and Rush 2016, "Sequence-Level Knowledge Distillation", section 3.1. The teacher is a trained
model or an ensemble; its predictions have the share `weight` of the loss of each token:

    (1 - weight) * loss(p) + weight * KL(t || p)

The paper has the cross-entropy of t and p, whose gradient is the same. `loss` is the label-smoothed
cross-entropy of `training.ways.gradient.losses`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.data_pipeline.noise import NONE
from nmt_zoo.model_directory.combined_models import load_models, require_steps
from nmt_zoo.model_directory.directory import model_directories
from nmt_zoo.training import fine_tuning
from nmt_zoo.training.ways.gradient.losses import (
    Losses,
    Wanted,
    log_sums_of,
    logits_of,
    over_groups,
    projected,
    projected_cross_entropy,
    smoothed_cross_entropy,
)


class Taught(NamedTuple):
    """A teacher's predictions of the tokens of a batch."""

    weight: float  # share of the loss that compares with these predictions, from 0 to 1
    outputs: tf.Tensor  # [B, T, D], from which log-probabilities follow token by token
    log_probs: Callable  # of outputs [..., D]; returns log-probabilities [..., V] float32


class Teacher(NamedTuple):
    """A trained model from which another one learns; it is never changed."""

    model: Any  # with the vocabularies of the model in training
    weight: float  # as of `Taught`

    def predict(self, inputs: dict[str, tf.Tensor]) -> Taught:
        """Predicts all tokens of a batch, without dropout.

        `inputs` are `{"source_ids": [B, S], "target_in_ids": [B, T]}` int32.
        """
        if self.model.predicts != "features":
            logits = self.model(inputs, training=False)
            return Taught(self.weight, tf.stop_gradient(logits), tf.nn.log_softmax)
        features = tf.stop_gradient(self.model.features(inputs, training=False))
        # Read here, because a function with a gradient of its own must not read variables.
        weights = [tf.convert_to_tensor(x) for x in self.model.output_weights() if x is not None]
        return Taught(self.weight, features, lambda x: tf.nn.log_softmax(logits_of(x, *weights)))


def training_losses(
    outputs: tf.Tensor, weights: Sequence | None, wanted: Wanted, taught: Taught | None
) -> Losses:
    """Computes the loss of training, by the function of `losses` or of this module that suits.

    `outputs` are logits `[B, T, V]` if `weights` is None. Otherwise they are features `[B, T, D]`,
    and `weights` is (kernel, bias or None).
    """
    if weights and not wanted.counts_padding:
        outputs, weights = logits_of(outputs, *weights), None
    if weights and taught:
        return projected_distilled_cross_entropy(outputs, weights, wanted, taught)
    if weights:
        return projected_cross_entropy(outputs, weights, wanted)
    if taught:
        return distilled_cross_entropy(outputs, wanted, taught)
    return smoothed_cross_entropy(outputs, wanted)


def distilled_cross_entropy(logits: tf.Tensor, wanted: Wanted, taught: Taught) -> Losses:
    """Computes the loss of logits `[B, T, V]` float32, as `losses.smoothed_cross_entropy`."""
    loss, nll, tokens = smoothed_cross_entropy(logits, wanted)
    t = tf.stop_gradient(taught.log_probs(taught.outputs))
    divergence = tf.reduce_sum(tf.exp(t) * (t - tf.nn.log_softmax(logits)), axis=-1)
    of_teacher = tf.reduce_sum(divergence * wanted.mask)
    return (1 - taught.weight) * loss + taught.weight * of_teacher, nll, tokens


def projected_distilled_cross_entropy(
    features: tf.Tensor, weights: Sequence, wanted: Wanted, taught: Taught
) -> Losses:
    """As `distilled_cross_entropy` for logits `features kernel + bias`, see `losses.projected`."""
    token_loss = _token_loss(wanted.label_smoothing, taught)

    def compute(weights, features, target_ids, mask, outputs):
        others = target_ids, outputs
        values, *gradients = over_groups(token_loss, features, mask, weights, others)
        return tf.unstack(tf.reduce_sum(values * mask[:, None], axis=[0, 2])), *gradients

    return projected(compute, features, weights, wanted, taught.outputs)


def _token_loss(label_smoothing, taught):
    """Returns the function that computes the loss of each token and its gradient.

    Its arguments are `logits [N, V]` float32, `target_ids [N]`, and outputs of the teacher
    `[N, D]`. It returns ([loss `[N]`, nll `[N]`], gradient of the loss `[N, V]`).

    The gradients are written out, because automatic differentiation passes about three times as
    often over arrays as large as the logits, which takes most of the time in a small model. By the
    logits of p, the cross-entropy with a distribution q has the gradient p - q, as KL(q || p) has.
    """

    def token_loss(logits, target_ids, outputs):
        count, weight = logits.shape[-1], taught.weight
        probs = tf.nn.softmax(logits)
        log_sums = log_sums_of(logits, probs)
        nll = log_sums - tf.gather(logits, target_ids, batch_dims=1)
        uniform = log_sums - tf.reduce_mean(logits, axis=-1)
        loss = (1 - label_smoothing) * nll + label_smoothing * uniform
        elsewhere = label_smoothing / count
        wanted = tf.one_hot(target_ids, count, 1 - label_smoothing + elsewhere, elsewhere)
        t = tf.stop_gradient(taught.log_probs(outputs))
        divergence = tf.reduce_sum(tf.exp(t) * (t - logits + log_sums[:, None]), axis=-1)
        loss = (1 - weight) * loss + weight * divergence
        wanted = (1 - weight) * wanted + weight * tf.exp(t)
        return [loss, nll], probs - wanted

    return token_loss


def make_teacher(options: dict[str, Any]) -> Teacher | None:
    """Loads the `Teacher` of training options; None if there is none or its weight is 0."""
    if not (options["teacher"] and options["teacher_weight"]):
        return None
    model, *_ = load_models(model_directories(options["teacher"]))
    require_steps(model, f"--teacher={options['teacher']} cannot be learned from")
    return Teacher(model, options["teacher_weight"])


def vocabulary_options(teacher: str, user_options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the vocabulary that a run takes from its teacher.

    `teacher` has directories of models, separated by commas; the user gave `user_options`.

    Raises:
        UserError: there is no such directory, or the user asks for another vocabulary.
    """
    config = model_directories(teacher)[0].config()
    options = {name: config["options"][name] for name in VOCABULARY}
    if changed := fine_tuning.changes(options, user_options):
        raise UserError(
            f"--teacher={teacher}: the vocabulary comes from that model, but "
            f"{', '.join(changed)}; leave these flags out"
        )
    return {**options, "noise": config["options"].get("noise", NONE)}
