"""Training by gradient."""

import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import BY_NAME
from nmt_zoo.model_directory.directory import training_arrays
from nmt_zoo.models import shift_right
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.divergences import (
    Compared,
    diverging_cross_entropy,
    projected_diverging_cross_entropy,
    twice,
)
from nmt_zoo.training.ways.gradient.guided_alignment import Guide
from nmt_zoo.training.ways.gradient.losses import (
    BATCH_SIGNATURE,
    negative_log_likelihood,
    projected_cross_entropy,
    projected_losses,
    smoothed_cross_entropy,
)
from nmt_zoo.training.ways.gradient.moving_average import MovingAverage
from nmt_zoo.training.ways.gradient.precision import LossScale
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout
from nmt_zoo.training.ways.update import Update

# Whether the loss is averaged over target tokens or over sentences.
LOSS_AVERAGES = ("tokens", "sentences")

# Options that a model that predicts "scores" does not take, and why.
_NOT_WITH_SCORES = {
    "label_smoothing": "which maximises its exact likelihood",
    "teacher": "which maximises its exact likelihood",
    "bpe_dropout": "whose table has only the word pairs of the usual pieces",
    "copy_share": "whose table has only the word pairs of the text",
    "token_dropout": "whose table has only the word pairs of the text",
}
_NOT_GUIDED = "whose alignments are not an attention that training could guide"


class GradientUpdate(Update):
    """Gradient descent on the label-smoothed cross-entropy, as one TensorFlow graph.

    The loss of a model that predicts "scores" is the plain negative log-likelihood.

    If the model computes in float16, the loss is scaled. An update whose gradient is not finite
    then changes only the scale.

    Args:
        model: `TranslationModel`, built.
        optimizer: a Keras optimizer.
        label_smoothing: in [0, 1).
        clip_norm: largest global norm of the gradient; 0 leaves it as it is.
        loss_average: "tokens": the loss is divided by the number of target tokens; "sentences":
            by the number of sentences, so that a sentence counts in proportion to its length.
        jit_compile: whether XLA compiles the update, once for every shape of a batch.
        ema_decay: decay of a `MovingAverage` of the weights; the average is validated and saved in
            place of the weights. 0: no average.
        r_drop: weight of the divergence between two passes, `alpha` of `divergences`; 0: a single
            pass.
        token_dropout: `TokenDropout` of the inputs; None leaves them as they are.
        guide: `Guide` of the attention; None: no guided alignment.
        teacher: `Teacher` from which the model learns, too; None for none.
    """

    name = "gradient"
    options = (
        *("max_sentences_per_batch", "accumulate_steps", "pad_to_bucket", "precision"),
        *("jit_compile", "ema_decay", "adam_beta_2", "weight_decay", "clip_norm"),
        *("learning_rate", "warmup_steps", "schedule", "decay_steps", "plateau_patience"),
        *("loss_average", "label_smoothing", "r_drop", "bpe_dropout", "token_dropout"),
        *("guide", "guide_weight", "teacher", "teacher_weight", "copy_share"),
    )
    takes_batches = True

    def __init__(
        self,
        model,
        optimizer,
        *,
        label_smoothing=0.1,
        clip_norm=1.0,
        loss_average="tokens",
        jit_compile=False,
        ema_decay=0.0,
        r_drop=0.0,
        token_dropout=None,
        guide=None,
        teacher=None,
    ):
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.loss_average = loss_average
        self.jit_compile = jit_compile
        self.r_drop = r_drop
        self.token_dropout = token_dropout
        self.guide = guide
        self.teacher = teacher
        self.loss_scale = LossScale() if model.compute_dtype == "float16" else None
        weights = model.trainable_variables
        self.average = MovingAverage(weights, ema_decay) if ema_decay else None
        self.added = None  # Gradients and sums over the batches of an update.
        self._step_alone, self._add, self._step_with_added = self._make_functions()
        self.plateau = getattr(optimizer, "plateau", None)
        optimizer.build(weights)

    @classmethod
    def check(cls, preset, options, given, undecided=()):
        """As `Update.check`."""
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
    def make(cls, run, model):
        """As `Update.make`; on several devices, an update that all of them make together."""
        options = run.options
        of_schedule = {}
        if BY_NAME["decay_steps"].applies(options):
            of_schedule = {"decay_steps": options["decay_steps"]}
        elif BY_NAME["plateau_patience"].applies(options):
            of_schedule = {"patience": options["plateau_patience"]}
        optimizer = adam(
            learning_rate=options["learning_rate"],
            warmup_steps=options["warmup_steps"],
            schedule=options["schedule"],
            kind=run.devices.make_adam,
            beta_2=options["adam_beta_2"],
            weight_decay=options["weight_decay"],
            **of_schedule,
        )
        rate = options["token_dropout"]
        update = cls(
            model,
            optimizer,
            label_smoothing=options["label_smoothing"],
            clip_norm=options["clip_norm"],
            loss_average=options["loss_average"],
            jit_compile=options["jit_compile"],
            ema_decay=options["ema_decay"],
            r_drop=options["r_drop"],
            token_dropout=TokenDropout(rate) if rate else None,
            guide=Guide(run.guide, options["guide_weight"]) if run.guide else None,
            teacher=run.teacher,
        )
        update.warmup_steps = options["warmup_steps"]
        return run.devices.replicate(update)

    @classmethod
    def closing_line(cls, run, step):
        """As `Update.closing_line`: advice if the learning rate never reached its peak."""
        warmup_steps = run.options["warmup_steps"]
        if step >= warmup_steps:
            return None
        return (
            f"the run ended within its warm-up, at step {step:,} of --warmup_steps={warmup_steps}, "
            "before the learning rate reached its peak; resume with a longer limit, or give fewer "
            "warm-up steps in a new --model_dir"
        )

    def variables(self):
        """Returns name -> variable for everything that an update changes."""
        found = training_arrays(self.model, self.optimizer)
        for part in (self.loss_scale, self.average, self.plateau, self.token_dropout):
            found.update(part.variables() if part else {})
        return found

    def rates(self):
        rates = {"learning_rate": float(self.optimizer.learning_rate)}
        if self.loss_scale:
            rates["loss_scale"] = float(self.loss_scale.scale.numpy())
        return rates

    def for_validation(self):
        return self.average.in_place() if self.average else super().for_validation()

    def after_validation(self, evaluations_since_best):
        if self.plateau:
            self.plateau.after_validation(evaluations_since_best)

    def step(self, *batches):
        """Makes one update, from the gradient of all batches as if they were one.

        If loss or gradient are not finite, there is no update: weights and optimizer stay.

        Args:
            *batches: each `{"source_ids": [B, S], "target_ids": [B, T]}` int32, rows ended by EOS.

        Returns:
            name -> `(sum, count)`, float32 scalars: `loss` and `nll` over real target tokens,
            `gradient_norm` before clipping; `skipped`, 1 if there was no update. With a scaled loss
            also `overflows`, 1 if the scale was too large: such a step has no norm, and does not
            count as skipped.
        """
        if len(batches) == 1:
            return self._step_alone(*batches)
        if self.added is None:
            self.added = [tf.Variable(tf.zeros(v.shape)) for v in self.model.trainable_variables]
            self.added.append(tf.Variable(tf.zeros([4])))
        for batch in batches:
            self._add(batch)
        return self._step_with_added()

    def _make_functions(self):
        """Makes the graphs of `step`: for a single batch, for one of several, and after those."""

        def alone(batch):
            return self.apply(*self.gradients(batch))

        def add(batch):
            gradients, sums = self.gradients(batch)
            parts = [*(g * sums[0] for g in gradients), sums]
            for total, part in zip(self.added, parts, strict=True):
                total.assign_add(part)

        def with_added():
            *gradients, sums = [tf.identity(total) for total in self.added]
            for total in self.added:
                total.assign(tf.zeros_like(total))
            return self.apply([g / sums[0] for g in gradients], sums)

        def graph(function, *signature):
            compiled = self.jit_compile or None
            return tf.function(
                function, input_signature=signature, autograph=False, jit_compile=compiled
            )

        return graph(alone, BATCH_SIGNATURE), graph(add, BATCH_SIGNATURE), graph(with_added)

    def gradients(self, batch):
        """Computes the gradients of the mean loss of a batch.

        Returns:
            (list of gradients, `[4]` float32: number of tokens or sentences that the mean is over,
            sums of loss and nll, number of tokens).
        """
        with tf.GradientTape() as tape:
            loss, nll, tokens = self._losses(batch, training=True)
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

    def apply(self, gradients, sums):
        """Changes the weights by the results of `gradients`; returns the metrics of `step`."""
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

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch):
        """Returns the losses of `step`, without dropout and without an update."""
        loss, nll, tokens = self._losses(batch, training=False)
        return {"loss": (loss, tokens), "nll": (nll, tokens)}

    def _losses(self, batch, training):
        if self.model.predicts == "scores":
            nll, tokens = negative_log_likelihood(self.model, batch)
            return nll, nll, tokens
        target_ids = batch["target_ids"]
        inputs = {
            "source_ids": batch["source_ids"],
            "target_in_ids": shift_right(target_ids, self.model.bos_id),
        }
        wanted = target_ids, self.model.pad_id, self.label_smoothing
        if not training and self.model.predicts == "features":
            features = self.model.features(inputs, training=False)
            return projected_losses(features, *self.model.output_weights(), *wanted)
        if not training:
            return smoothed_cross_entropy(self.model(inputs, training=False), *wanted)
        compared = None
        if self.r_drop or self.teacher:
            taught = self.teacher and self.teacher.predict(inputs)
            compared = Compared(self.r_drop or None, taught)
        if self.token_dropout:
            inputs = self.token_dropout(inputs)
        if self.r_drop:  # Of equal inputs, dropped tokens too: only the network's dropout differs.
            inputs = twice(inputs)
        if self.model.predicts == "features":
            return self._losses_of_features(inputs, batch, wanted, compared)
        logits = self.model(inputs, training=True)
        if compared:
            return diverging_cross_entropy(logits, *wanted, compared)
        return smoothed_cross_entropy(logits, *wanted)

    def _losses_of_features(self, inputs, batch, wanted, compared):
        attention = None
        if self.guide:
            features, attention = self.model.features_and_alignment(inputs, training=True)
        else:
            features = self.model.features(inputs, training=True)
        weights = self.model.output_weights()
        if compared:
            losses = projected_diverging_cross_entropy(features, weights, *wanted, compared)
        else:
            losses = projected_cross_entropy(features, *weights, *wanted)
        if attention is None:
            return losses
        loss, nll, tokens = losses
        return loss + self.guide.loss(attention, batch), nll, tokens
