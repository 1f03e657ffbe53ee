"""RMSprop, the optimizer of the tutorials of keras.io, as a way of training of one's own.

python train.py --update=docs/tutorials/rmsprop.py:rmsprop ...
"""

import keras

import nmt_zoo
from nmt_zoo.training.ways.gradient.gradient import Gradient


@nmt_zoo.register
class RMSprop(Gradient):
    """Gradient descent by RMSprop (Hinton 2012) in place of Adam, with Keras's usual constants."""

    name = "rmsprop"
    trains = ("KerasIO", "KerasHub", "Characters")

    def __post_init__(self):
        self.optimizer = keras.optimizers.RMSprop(self.optimizer._learning_rate)
        super().__post_init__()
