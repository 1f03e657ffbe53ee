"""What other layers consist of: layers that know the shapes of their inputs, and dropout."""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor, round_weight
from nmt_zoo.models.layers.products import product


class Composite(keras.layers.Layer):
    """Base of layers and models that consist of layers, which it builds."""

    def build(self, input_shape: Any = None) -> None:
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if not layer.built:
                layer.build()
        self.built = True


class Dense(keras.layers.Dense):
    """As `keras.layers.Dense`, from `[..., input_width]` to `[..., units]`."""

    def __init__(self, input_width: int, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.input_width = input_width

    def build(self, input_shape: Any = None) -> None:
        super().build((None, self.input_width))

    def quantise(self) -> None:
        """As `Searchable.quantise`."""
        round_weight(self, "_kernel", ops.convert_to_tensor(self.kernel))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """`[..., input_width]` -> `[..., units]`."""
        y = product(inputs, self.kernel)
        y = ops.add(y, self.bias) if self.use_bias else y
        return y if self.activation is None else self.activation(y)


_NUMBERS = 1 << 16  # How many different random numbers there are for a unit.


@keras.saving.register_keras_serializable("nmt_zoo")
class Dropout(keras.layers.Dropout):
    """Sets units to 0 while training, and scales the others up so that the mean stays the same.

    Srivastava et al. 2014. A random number of 32 bits decides about two units, 16 bits each. On a
    CPU, drawing the numbers is the largest part of the work. The rate, the share of the units that
    are dropped, in [0, 1), is rounded to the nearest multiple of 1/65536.
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        dropped = min(round(self.rate * _NUMBERS), _NUMBERS - 1)
        if not training or not dropped:
            return inputs
        size = ops.size(inputs)
        numbers = keras.random.randint(
            ((size + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32", seed=self.seed_generator
        )
        numbers = ops.reshape(ops.view(numbers, "uint16"), (-1,))[:size]
        kept = ops.reshape(numbers >= ops.cast(dropped, "uint16"), ops.shape(inputs))
        return inputs * (ops.cast(kept, inputs.dtype) * (_NUMBERS / (_NUMBERS - dropped)))
