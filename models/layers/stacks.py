"""The encoder and the decoder of the Transformer, each as one layer; and their input."""

from typing import Any

import keras

from nmt_zoo.models.base import Precomputed, Tensor
from nmt_zoo.models.layers.blocks import (
    DecoderLayer,
    EncoderLayer,
    LayerNorm,
    StackLayer,
    distinct,
)
from nmt_zoo.models.layers.embeddings import SINUSOIDS, PositionalEncoding
from nmt_zoo.models.layers.masks import attend_to
from nmt_zoo.models.transformer_settings import layer_order


class StackInput(keras.layers.Layer):
    """Makes the input of a stack from embeddings: adds positions, and normalises if asked to.

    `settings` are those of `models.transformer.Transformer`.
    """

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, kind = settings["width"], settings["positions"]
        policy, self.positions, self.norm = self.dtype_policy, None, None
        if kind in (*SINUSOIDS, "learned"):
            self.positions = PositionalEncoding(
                kind, settings["max_positions"], self.width, name="positions", dtype=policy
            )
        if settings["norm_embeddings"]:
            self.norm = LayerNorm(epsilon=settings["norm_epsilon"], name="norm", dtype=policy)

    def build(self, input_shape: Any = None) -> None:
        if self.positions is not None:
            self.positions.build()
        if self.norm is not None:
            self.norm.build((None, None, self.width))
        self.built = True

    def call(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """`[..., T, D]` -> `[..., T, D]`; `positions` as of `PositionalEncoding`."""
        x = x if self.positions is None else self.positions(x, positions)
        return x if self.norm is None else self.norm(x)


class Stack(keras.layers.Layer):
    """Base of `Encoder` and `Decoder`.

    Args:
        settings: those of `models.transformer.Transformer`. Only relative and rotary positions are
            known here; others are to be in the input.
        num_layers: number of layers, at least 1.
    """

    layer_class = StackLayer

    def __init__(self, settings: dict[str, Any], num_layers: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings, self.num_layers = settings, num_layers
        policy = self.dtype_policy
        order = layer_order(num_layers, settings["distinct_layers"], settings["share_layers"])
        made = [
            self.layer_class(settings, name=f"layer_{i}", dtype=policy)
            for i in range(max(order) + 1)
        ]
        # A layer whose weights several layers share is in the list several times.
        self.layers = [made[i] for i in order]
        # Pre-norm layers do not normalise their outputs, so one more normalisation ends the stack.
        self.norm = None
        if settings["norm"] == "pre":
            self.norm = LayerNorm(epsilon=settings["norm_epsilon"], name="norm", dtype=policy)

    def build(self, *shapes: Any) -> None:
        for layer in distinct(self.layers):
            layer.build()
        if self.norm is not None:
            self.norm.build((None, None, self.settings["width"]))
        self.built = True

    def normalised(self, x: Tensor) -> Tensor:
        """Applies the normalisation that ends a stack of pre-norm layers."""
        return x if self.norm is None else self.norm(x)

    def get_config(self) -> dict[str, Any]:
        own = {"settings": dict(self.settings), "num_layers": self.num_layers}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("nmt_zoo")
class Encoder(Stack):
    """Layers of self-attention and feed-forward networks.

    Example:
        >>> from keras import ops
        >>> from nmt_zoo.models import preset_settings
        >>> sizes = {"width": 8, "num_heads": 2, "ffn_width": 16}
        >>> encoder = Encoder(preset_settings("transformer_base", **sizes), num_layers=2)
        >>> x, maps = encoder(ops.ones((1, 3, 8)), ops.ones((1, 3), "bool"))
        >>> x.shape, len(maps)
        (TensorShape([1, 3, 8]), 2)
    """

    layer_class = EncoderLayer

    def call(
        self, x: Tensor, source_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """`x [B, S, D]`, `source_mask [B, S]` bool -> x, weights `[B, H, S, S]` of each layer."""
        maps = []
        for layer in self.layers:
            x, weights = layer(x, attend_to(source_mask), training=training)
            maps.append(weights)
        return self.normalised(x), maps


@keras.saving.register_keras_serializable("nmt_zoo")
class Decoder(Stack):
    """Layers of masked self-attention, attention to the source, and feed-forward networks.

    `call` takes whole sequences; `step` takes one position and caches. Both give equal results.
    Example:
        >>> from keras import ops
        >>> from nmt_zoo.models import preset_settings
        >>> sizes = {"width": 8, "num_heads": 2, "ffn_width": 16}
        >>> decoder = Decoder(preset_settings("transformer_base", **sizes), num_layers=2)
        >>> x, memory = ops.ones((1, 5, 8)), ops.ones((1, 3, 8))
        >>> decoder(x, memory, ops.ones((1, 3), "bool"))[0].shape
        TensorShape([1, 5, 8])
    """

    layer_class = DecoderLayer

    def call(
        self, x: Tensor, memory: Tensor, source_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Decodes whole target sequences.

        `x [B, T, D]`, `memory [B, S, D]`, `source_mask [B, S]` bool -> x, the weights of
        self-attention `[B, H, T, T]` and those of cross-attention `[B, H, T, S]` of all layers.
        """
        self_maps, cross_maps = [], []
        for layer in self.layers:
            x, self_weights, cross_weights = layer(x, memory, source_mask, training=training)
            self_maps.append(self_weights)
            cross_maps.append(cross_weights)
        return self.normalised(x), self_maps, cross_maps

    def project_memory(self, memory: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """`[B, S, D]` -> keys and values of every layer, `[B, H, S, d]` each."""
        by_layer = {
            layer: layer.cross_attention.project_memory(memory) for layer in distinct(self.layers)
        }
        projected = [by_layer[layer] for layer in self.layers]
        return [keys for keys, _ in projected], [values for _, values in projected]

    def empty_caches(self, batch_size: int | Tensor) -> dict[str, list[Tensor]]:
        """Makes the caches `keys` and `values` of no position: `[B, H, 0, d]` for each layer."""
        caches = [layer.self_attention.empty_cache(batch_size) for layer in self.layers]
        return {"keys": [keys for keys, _ in caches], "values": [values for _, values in caches]}

    def step(
        self,
        x: Tensor,
        caches: dict[str, list[Tensor]],
        memory: tuple[list[Tensor], list[Tensor]],
        source_mask: Tensor,
        position: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor]], list[Tensor]]:
        """Decodes the target position after those of the caches.

        `x [N, D]`; `caches` as of `empty_caches`, with N rows; `memory` from `project_memory`;
        `source_mask [B, S]` bool; `position` as in `MaskedMultiHeadAttention.step` -> x, caches
        and weights of cross-attention, `[B, H, K, S]`, of all layers.
        """
        keys, values, maps = [], [], []
        for index, layer in enumerate(self.layers):
            x, (new_keys, new_values), weights = layer.step(
                x,
                (caches["keys"][index], caches["values"][index]),
                memory[0][index],
                memory[1][index],
                source_mask,
                position,
            )
            keys.append(new_keys)
            values.append(new_values)
            maps.append(weights)
        return self.normalised(x), {"keys": keys, "values": values}, maps

    def precompute(self) -> list[Precomputed]:
        """Joins projections of self-attention, see `Searchable.precompute`; returns them."""
        for layer in distinct(self.layers):
            layer.self_attention.precompute()
        return self.precomputed()

    def precomputed(self) -> list[Precomputed]:
        """Returns what decoding reads besides the weights, after `precompute`."""
        joined = (layer.self_attention.joined for layer in distinct(self.layers))
        return [tensors for tensors in joined if tensors is not None]
