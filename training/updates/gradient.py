"""How one batch changes a model."""

import contextlib

import keras
import tensorflow as tf

from model_directory.directory import training_arrays
from models import shift_right
from training.updates.losses import projected_cross_entropy, smoothed_cross_entropy
from training.updates.moving_average import MovingAverage
from training.updates.precision import LossScale
from training.updates.schedules import SCHEDULES, Plateau

BATCH_SIGNATURE = {
    "source_ids": tf.TensorSpec([None, None], tf.int32),
    "target_ids": tf.TensorSpec([None, None], tf.int32),
}


# What the gradient is that of: the mean over target tokens, or of the sums of the sentences.
LOSS_AVERAGES = ("tokens", "sentences")


def adam(
    *,
    learning_rate,
    warmup_steps,
    schedule="inverse_sqrt",
    beta_2=0.98,
    weight_decay=0.0,
    kind=None,
    **of_schedule,
):
    """Adam; by default with the moments and schedule of Vaswani et al. 2017, section 5.3.

    Args:
        learning_rate: peak of the schedule.
        warmup_steps: updates until the peak, at least 1.
        schedule: one of `SCHEDULES`.
        beta_2: decay of the second moment; 0.999 in Kingma and Ba 2015.
        weight_decay: AdamW, Loshchilov and Hutter 2019: every update takes off the learning rate
            times this share of all weights but biases and those of layer normalisation.
        kind: class of the optimizer; `FusedAdam` if None.
        **of_schedule: more arguments of the schedule.
    """
    rate = SCHEDULES[schedule](learning_rate, warmup_steps, **of_schedule)
    decay = weight_decay or None
    kind = kind or FusedAdam
    optimizer = kind(rate, beta_1=0.9, beta_2=beta_2, epsilon=1e-9, weight_decay=decay)
    if decay:
        optimizer.exclude_from_weight_decay(var_names=[r"(bias|gamma|beta)(:0)?$"])
    if isinstance(rate, Plateau):
        optimizer.plateau = rate
    return optimizer


class FusedAdam(keras.optimizers.Adam):
    """Adam of Keras, without `amsgrad`, in one pass over a variable instead of a dozen."""

    def update_step(self, gradient, variable, learning_rate):
        """Updates a variable and its moments."""
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


class Update:
    """What the loop asks of any update, besides `step`, `evaluate`, `model` and `variables`."""

    def rates(self):
        """What a record of training says of the update."""
        return {}

    def for_validation(self):
        """A context in which the model has the weights to validate and to keep."""
        return contextlib.nullcontext()

    def after_validation(self, evaluations_since_best):
        """Is told how many validations there have been since the best one, 0 if it was this."""


class GradientUpdate(Update):
    """Gradient descent on the label-smoothed cross-entropy, as one TensorFlow graph.

    A model that computes in float16 has its loss scaled; an update whose gradient is not finite
    then changes nothing but the scale.

    Args:
        model: `TranslationModel`, built.
        optimizer: a Keras optimizer.
        label_smoothing: in [0, 1).
        clip_norm: largest global norm of the gradient; 0 leaves it as it is.
        loss_average: "tokens": the loss is divided by the number of target tokens; "sentences":
            by that of sentences, so that a long one counts as much more as it is longer.
        jit_compile: whether XLA compiles the update, once for every shape of a batch.
        ema_decay: that of a `MovingAverage` of the weights, which is validated and kept in their
            place; 0 for none.
    """

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
    ):
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.loss_average = loss_average
        self.jit_compile = jit_compile
        self.loss_scale = LossScale() if model.compute_dtype == "float16" else None
        weights = model.trainable_variables
        self.average = MovingAverage(weights, ema_decay) if ema_decay else None
        self.earlier = None  # Of the batches of an update so far: gradients and sums.
        self._step_alone, self._add, self._step_with_earlier = self._make_functions()
        self.plateau = getattr(optimizer, "plateau", None)
        optimizer.build(weights)

    def variables(self):
        """name -> variable of all that an update changes."""
        found = training_arrays(self.model, self.optimizer)
        for part in (self.loss_scale, self.average, self.plateau):
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

        There is none if loss or gradient are not finite: weights and optimizer stay.

        Args:
            *batches: each `{"source_ids": [B, S], "target_ids": [B, T]}` int32, rows ended by EOS.

        Returns:
            name -> `(sum, count)`, float32 scalars: `loss` and `nll` over real target tokens,
            `gradient_norm` before clipping; `skipped`, 1 if there was no update. With a scaled loss
            also `overflows`, 1 if the scale was too large: such a step has no norm, and is no
            skipped one.
        """
        if len(batches) == 1:
            return self._step_alone(*batches)
        if self.earlier is None:
            self.earlier = [tf.Variable(tf.zeros(v.shape)) for v in self.model.trainable_variables]
            self.earlier.append(tf.Variable(tf.zeros([4])))
        for batch in batches[:-1]:
            self._add(batch)
        return self._step_with_earlier(batches[-1])

    def _make_functions(self):
        """The graphs of `step`: of a batch alone, of one of many, and of the last of many."""

        def alone(batch):
            return self._apply(*self._gradients(batch))

        def add(batch):
            gradients, sums = self._gradients(batch)
            parts = [*(g * sums[0] for g in gradients), sums]
            for total, part in zip(self.earlier, parts, strict=True):
                total.assign_add(part)

        def with_earlier(batch):
            add(batch)
            *gradients, sums = [tf.identity(total) for total in self.earlier]
            for total in self.earlier:
                total.assign(tf.zeros_like(total))
            return self._apply([g / sums[0] for g in gradients], sums)

        options = {
            "input_signature": [BATCH_SIGNATURE],
            "autograph": False,
            "jit_compile": self.jit_compile or None,
        }
        return [tf.function(function, **options) for function in (alone, add, with_earlier)]

    def _gradients(self, batch):
        """`(gradients of the mean loss, [4] float32: what it is the mean of, loss, nll, tokens)`"""
        with tf.GradientTape() as tape:
            loss, nll, tokens = self._losses(batch, training=True)
            # Static shapes may have rows of padding alone.
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

    def _apply(self, gradients, sums):
        """Changes the weights; returns the metrics of `step`."""
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
        """The losses of `step` without dropout and without an update."""
        loss, nll, tokens = self._losses(batch, training=False)
        return {"loss": (loss, tokens), "nll": (nll, tokens)}

    def _losses(self, batch, training):
        target_ids = batch["target_ids"]
        inputs = {
            "source_ids": batch["source_ids"],
            "target_in_ids": shift_right(target_ids, self.model.bos_id),
        }
        weights = self.model.output_weights()
        if training and weights is not None:
            features = self.model.features(inputs, training=True)
            rest = (target_ids, self.model.pad_id, self.label_smoothing)
            return projected_cross_entropy(features, *weights, *rest)
        logits = self.model(inputs, training=training)
        return smoothed_cross_entropy(logits, target_ids, self.model.pad_id, self.label_smoothing)


class LikelihoodUpdate(GradientUpdate):
    """Gradient descent on the negative log-likelihood as `model.score` has it.

    For a model that knows the probability of one word without those of all others.
    """

    def _losses(self, batch, training):
        nll, tokens = negative_log_likelihood(self.model, batch)
        return nll, nll, tokens


def negative_log_likelihood(model, batch):
    """(sum over real target tokens, their number), float32 scalars."""
    real = batch["target_ids"] != model.pad_id
    scores = tf.where(real, model.score(batch["source_ids"], batch["target_ids"]), 0.0)
    return -tf.reduce_sum(scores), tf.reduce_sum(tf.cast(real, tf.float32))
