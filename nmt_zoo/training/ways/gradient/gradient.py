"""Training by gradient."""

from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import BY_NAME
from nmt_zoo.model_directory.directory import training_arrays
from nmt_zoo.models import shift_right
from nmt_zoo.training.ways.base import Names, Options, WayOfTraining
from nmt_zoo.training.ways.gradient.accumulator import Accumulator, mean, summands
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.guided_alignment import Guide
from nmt_zoo.training.ways.gradient.losses import (
    BATCH_SIGNATURE,
    Wanted,
    negative_log_likelihood,
)
from nmt_zoo.training.ways.gradient.moving_average import MovingAverage
from nmt_zoo.training.ways.gradient.precision import LossScale
from nmt_zoo.training.ways.gradient.teacher import Teacher, training_losses
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout

# Options that a model that predicts "scores" does not take, and why.
_NOT_WITH_SCORES = {
    "label_smoothing": "which maximises its exact likelihood",
    "smoothing_over": "which maximises its exact likelihood",
    "teacher": "which maximises its exact likelihood",
    "bpe_dropout": "whose table has only the word pairs of the usual pieces",
    "noise": "whose table has only the word pairs of the text",
    "token_dropout": "whose table has only the word pairs of the text",
}
# Options that are arguments of `Gradient`, by the same names.
_ARGUMENTS = ["label_smoothing", "smoothing_over", "l2", "clip_norm", "loss_average"]
_ARGUMENTS += ["jit_compile", "ema_decay", "warmup_steps"]
_NOT_GUIDED = "whose alignments are not an attention that training could guide"


@dataclass(eq=False)
class Gradient(WayOfTraining):
    """Gradient descent on the label-smoothed cross-entropy, as one TensorFlow graph.

    The loss of a model that predicts "scores" is the plain negative log-likelihood. If the model
    computes in float16, the loss is scaled. An update whose gradient is not finite then changes
    only the scale.
    """

    name = "gradient"
    options = (
        *("max_sentences_per_batch", "accumulate_steps", "pad_to_bucket", "precision"),
        *("jit_compile", "ema_decay", "optimizer", "adam_beta_2", "weight_decay", "clip_norm"),
        *("learning_rate", "warmup_steps", "schedule", "decay_steps", "plateau_patience"),
        *("loss_average", "label_smoothing", "smoothing_over", "l2", "bpe_dropout"),
        *("token_dropout", "context_sentences", "noise"),
        *("guide", "guide_weight", "teacher", "teacher_weight"),
    )
    takes_batches = True

    model: Any  # A `TranslationModel`, built.
    optimizer: keras.optimizers.Optimizer
    _: KW_ONLY
    label_smoothing: float = 0.1  # In [0, 1).
    smoothing_over: str = "vocabulary"  # Or "words": without padding, see `losses.Wanted`.
    l2: float = 0.0  # Factor on the squares of matrices in the loss.
    clip_norm: float = 1.0  # Largest global norm of the gradient; 0 leaves it as it is.
    # "tokens": the loss is divided by the number of target tokens; "sentences": by the number of
    # sentences, so that a sentence counts in proportion to its length.
    loss_average: str = "tokens"
    jit_compile: bool = False  # Whether XLA compiles the update, for every shape of a batch.
    # Decay of a `MovingAverage` of the weights, which is validated and saved in their place; 0: no
    # average.
    ema_decay: float = 0.0
    token_dropout: TokenDropout | None = None  # Of the inputs.
    guide: Guide | None = None  # Of the attention.
    teacher: Teacher | None = None  # From which the model learns, too.
    warmup_steps: int = 0  # Updates during which the learning rate rises.

    @classmethod
    def check(cls, preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
        if models.model_class(preset).predicts == "scores":
            for name in filter(given.get, _NOT_WITH_SCORES):
                raise UserError(
                    f"--{name}={options[name]}: not with --model={preset}, "
                    f"{_NOT_WITH_SCORES[name]}; leave it out"
                )
        if options["guide"] and models.model_class(preset).predicts != "features":
            raise UserError(f"--guide: not with --model={preset}, {_NOT_GUIDED}; leave it out")
        if BY_NAME["decay_steps"].applies(options) and "decay_steps" not in undecided:
            last = options["decay_steps"] or options["max_steps"]
            least = 1 if "warmup_steps" in undecided else options["warmup_steps"]
            if last < least:
                raise UserError(
                    f"--schedule={options['schedule']} falls to 0 at the last update: give "
                    f"--decay_steps or --max_steps of at least --warmup_steps, {least:,}; found "
                    f"{last:,}"
                )

    @classmethod
    def of_run(cls, run: Any, model: keras.Model) -> WayOfTraining:
        options = run.options
        of_schedule = {}
        if BY_NAME["decay_steps"].applies(options):
            of_schedule = {"decay_steps": options["decay_steps"]}
        elif BY_NAME["plateau_patience"].applies(options):
            of_schedule = {"patience": options["plateau_patience"]}
        names = ("learning_rate", "warmup_steps", "schedule", "weight_decay")
        optimizer = adam(
            **{name: options[name] for name in names},
            muon=model.compute_dtype if options["optimizer"] == "muon" else None,
            kind=run.devices.make_adam,
            beta_2=options["adam_beta_2"],
            **of_schedule,
        )
        rate = options["token_dropout"]
        way = cls(
            model,
            optimizer,
            **{name: options[name] for name in _ARGUMENTS},
            token_dropout=TokenDropout(rate) if rate else None,
            guide=Guide(run.guide, options["guide_weight"]) if run.guide else None,
            teacher=run.teacher,
        )
        return run.devices.replicate(way)

    @classmethod
    def closing_line(cls, run: Any, step: int) -> str | None:
        warmup_steps = run.options["warmup_steps"]
        if step >= warmup_steps:
            return None
        return (
            f"the run ended within its warm-up, at step {step:,} of --warmup_steps={warmup_steps}, "
            "before the learning rate reached its peak; resume with a longer limit, or give fewer "
            "warm-up steps in a new --model_dir"
        )

    def __post_init__(self):
        self.loss_scale = LossScale() if self.model.compute_dtype == "float16" else None
        weights = self.model.trainable_variables
        self.average = MovingAverage(weights, self.ema_decay) if self.ema_decay else None
        self.accumulator = Accumulator(weights)
        self._step_alone, self._add, self._step_with_added = self._make_functions()
        self.plateau = getattr(self.optimizer, "plateau", None)
        self.optimizer.build(weights)

    def variables(self) -> dict[str, Any]:
        variables = training_arrays(self.model, self.optimizer)
        for part in (self.loss_scale, self.average, self.plateau, self.token_dropout):
            variables |= part.variables if part else {}
        return variables

    def rates(self) -> dict[str, float]:
        rates = {"learning_rate": float(self.optimizer.learning_rate)}
        if self.loss_scale:
            rates["loss_scale"] = float(self.loss_scale.scale.numpy())
        return rates

    def for_validation(self) -> AbstractContextManager:
        return self.average.in_place() if self.average else super().for_validation()

    def after_validation(self, evaluations_since_best: int) -> None:
        if self.plateau:
            self.plateau.after_validation(evaluations_since_best)

    def step(self, *batches: dict[str, tf.Tensor]) -> dict[str, tuple]:
        """Makes one update, from the gradient of all batches as if they were one.

        If loss or gradient are not finite, there is no update: weights and optimizer stay. Each
        batch is `{"source_ids": [B, S], "target_ids": [B, T]}` int32, rows ended by EOS.

        Returns:
            name -> `(sum, count)`, float32 scalars: `loss` and `nll` over real target tokens,
            `gradient_norm` before clipping; `skipped`, 1 if there was no update. With a scaled loss
            also `overflows`, 1 if the scale was too large: such a step has no norm, and does not
            count as skipped.
        """
        if len(batches) == 1:
            return self._step_alone(*batches)
        self.accumulator.build()
        for batch in batches:
            self._add(batch)
        return self._step_with_added()

    def _make_functions(self):
        """Makes the graphs of `step`: for a single batch, for one of several, and after those."""

        def alone(batch):
            return self.apply(*self.gradients(batch))

        def add(batch):
            self.accumulator.add(summands(*self.gradients(batch)))

        def with_added():
            return self.apply(*mean(self.accumulator.take()))

        def graph(function, *signature):
            compiled = self.jit_compile or None
            return tf.function(
                function, input_signature=signature, autograph=False, jit_compile=compiled
            )

        return graph(alone, BATCH_SIGNATURE), graph(add, BATCH_SIGNATURE), graph(with_added)

    def gradients(self, batch: dict[str, tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Computes the gradients of the mean loss of a batch.

        Also returns `[4]` float32: number of tokens or sentences that the mean is over, sums of
        loss and nll, number of tokens.
        """
        with tf.GradientTape() as tape:
            loss, nll, tokens = self._losses(batch)
            # A batch padded to a fixed shape may have rows that are only padding.
            is_sentence = batch["target_ids"][:, 0] != self.model.pad_id
            sentences = tf.reduce_sum(tf.cast(is_sentence, tf.float32))
            count = tokens if self.loss_average == "tokens" else sentences
            mean_loss = loss / count
            if self.loss_scale:
                mean_loss *= self.loss_scale.scale
        # Dense, because the norm of sparse slices counts a repeated row wrongly.
        gradients = tape.gradient(mean_loss, self.model.trainable_variables)
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        if self.loss_scale:
            gradients = [g / self.loss_scale.scale for g in gradients]
        return gradients, tf.stack([count, loss, nll, tokens])

    def apply(self, gradients: list[tf.Tensor], sums: tf.Tensor) -> dict[str, tuple]:
        """Changes the weights by the results of `gradients`; returns the metrics of `step`."""
        if self.l2:
            pairs = zip(gradients, self.model.trainable_variables, strict=True)
            gradients = [g + 2 * self.l2 * w if len(w.shape) > 1 else g for g, w in pairs]
        norm, one = tf.linalg.global_norm(gradients), tf.ones([])
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        _, loss, nll, tokens = tf.unstack(sums)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        tf.cond(finite, lambda: self._change(gradients), lambda: None)
        metrics = {"loss": (loss, tokens), "nll": (nll, tokens)}
        overflow = tf.zeros([])
        if self.loss_scale:
            overflow = self.loss_scale.adapt(finite, loss)
            metrics["overflows"] = (overflow, one)
        return {
            **metrics,
            "gradient_norm": (tf.where(overflow > 0, 0.0, norm), one - overflow),
            "skipped": (one - tf.cast(finite, tf.float32) - overflow, one),
        }

    def _change(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)
        if self.average:
            self.average.follow(self.optimizer.iterations)

    def _losses(self, batch):
        """Returns (loss, nll, tokens) of a batch, summed over its real target tokens."""
        if self.model.predicts == "scores":
            nll, tokens = negative_log_likelihood(self.model, batch)
            return nll, nll, tokens
        target_ids = batch["target_ids"]
        inputs = {
            "source_ids": batch["source_ids"],
            "target_in_ids": shift_right(target_ids, self.model.bos_id),
        }
        counts_padding = self.smoothing_over == "vocabulary"
        wanted = Wanted(target_ids, self.model.pad_id, self.label_smoothing, counts_padding)
        taught = self.teacher and self.teacher.predict(inputs)
        if self.token_dropout:
            inputs = self.token_dropout(inputs)
        outputs, weights, attention = self._outputs(inputs)
        loss, nll, tokens = training_losses(outputs, weights, wanted, taught)
        if attention is not None:
            loss += self.guide.loss(attention, batch)
        return loss, nll, tokens

    def _outputs(self, inputs):
        """Returns (logits, None, None), or (features, output weights, attention to be guided)."""
        if self.model.predicts == "logits":
            return self.model(inputs, training=True), None, None
        if self.guide:
            features, attention = self.model.features_and_alignment(inputs, training=True)
        else:
            features, attention = self.model.features(inputs, training=True), None
        return features, self.model.output_weights(), attention
