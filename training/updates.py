"""How one batch changes a model."""

import keras
import tensorflow as tf

from models import shift_right
from training.losses import smoothed_cross_entropy
from training.schedules import InverseSquareRoot

BATCH_SIGNATURE = {
    "source_ids": tf.TensorSpec([None, None], tf.int32),
    "target_ids": tf.TensorSpec([None, None], tf.int32),
}


def adam(*, learning_rate, warmup_steps):
    """Adam with the Transformer's moments and schedule, Vaswani et al. 2017, section 5.3."""
    schedule = InverseSquareRoot(learning_rate, warmup_steps)
    return keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


class GradientUpdate:
    """Gradient descent on the label-smoothed cross-entropy, as one TensorFlow graph.

    Args:
        model: `TranslationModel`, built.
        optimizer: a Keras optimizer.
        label_smoothing: in [0, 1).
        clip_norm: largest global norm of the gradient; 0 leaves it as it is.
    """

    def __init__(self, model, optimizer, *, label_smoothing=0.1, clip_norm=1.0):
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[BATCH_SIGNATURE])
    def step(self, batch):
        """Makes one update.

        Args:
            batch: `{"source_ids": [B, S], "target_ids": [B, T]}` int32, rows ended by EOS.

        Returns:
            name -> `(sum, count)`, float32 scalars: `loss` and `nll` over real target tokens,
            `gradient_norm` before clipping.
        """
        with tf.GradientTape() as tape:
            loss, nll, tokens = self._losses(batch, training=True)
            mean_loss = loss / tokens
        weights = self.model.trainable_variables
        # Dense, because the norm of sparse slices counts a repeated row wrongly.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(mean_loss, weights)]
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        self.optimizer.apply(gradients, weights)
        one = tf.ones([])
        return {"loss": (loss, tokens), "nll": (nll, tokens), "gradient_norm": (norm, one)}

    @tf.function(input_signature=[BATCH_SIGNATURE])
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
        logits = self.model(inputs, training=training)
        return smoothed_cross_entropy(logits, target_ids, self.model.pad_id, self.label_smoothing)
