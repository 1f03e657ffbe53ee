"""Mixed precision: products of a model in 16 bits; weights, softmax and loss in float32.

Micikevicius et al. 2018, "Mixed Precision Training". bfloat16 has the range of float32 and needs
nothing else. In float16 small gradients would become 0, so the loss is scaled up before gradients
are computed.
"""

import tensorflow as tf

# Name of a precision -> dtype policy of Keras.
PRECISIONS = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}


class LossScale:
    """Dynamic loss scaling, section 3.2: the scale is as large as possible without overflow.

    It begins with `first`. An update whose gradient is not finite is skipped and halves the scale,
    down to 1. After `double_every` finite updates in a row, the scale doubles.
    """

    def __init__(self, first: float = 2.0**15, double_every: int = 2000):
        self.scale = tf.Variable(first, trainable=False)
        self.finite_updates = tf.Variable(0, trainable=False)  # Since the scale changed.
        self.double_every = double_every
        # For checkpoints.
        self.variables = {
            "loss_scale/scale": self.scale,
            "loss_scale/updates": self.finite_updates,
        }

    def adapt(self, is_finite: tf.Tensor, loss: tf.Tensor) -> tf.Tensor:
        """Sets the next update's scale, by whether loss and gradient of this update are finite.

        Returns:
            float32 scalar, 1 if the scale was too large for the gradient, else 0. It is 0 if the
            loss itself is not finite, or the scale was 1, because then the scale is not the reason.
        """
        overflow = ~is_finite & tf.math.is_finite(loss) & (self.scale > 1.0)
        updates = tf.where(is_finite, self.finite_updates + 1, 0)
        is_time = updates >= self.double_every
        factor = tf.where(is_time, 2.0, tf.where(overflow, 0.5, 1.0))
        self.scale.assign(tf.maximum(self.scale * factor, 1.0))
        self.finite_updates.assign(tf.where(is_time, 0, updates))
        return tf.cast(overflow, tf.float32)
