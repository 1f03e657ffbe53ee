"""Layers that know the shapes of their inputs, so that `build` needs none."""

from typing import Any

import keras


class Composite:
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
