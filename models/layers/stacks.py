"""The encoder and the decoder of the Transformer, each as one layer; and its positions."""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Precomputed, Tensor, settings_of
from nmt_zoo.models.layers.attention import MAX_DISTANCE
from nmt_zoo.models.layers.blocks import (
    DecoderLayer,
    EncoderLayer,
    LayerNorm,
    StackLayer,
    distinct,
)
from nmt_zoo.models.layers.embeddings import SINUSOIDS, sinusoidal_positions
from nmt_zoo.models.layers.masks import attend_to
from nmt_zoo.models.transformer_settings import NORM_EPSILON, layer_order


@keras.saving.register_keras_serializable("nmt_zoo")
class PositionalEncoding(keras.layers.Layer):
    """Adds a vector for each position, Vaswani et al. 2017, section 3.5.

    `kind` is of `embeddings.SINUSOIDS`, or "learned": `num_learned` vectors of `width`, the last of
    which serves all later positions, too.
    Example:
        >>> PositionalEncoding()(ops.zeros((1, 2, 4)))[0, 0]
        <tf.Tensor: shape=(4,), dtype=float32, numpy=array([0., 1., 0., 1.], dtype=float32)>
    """

    def __init__(
        self, kind: str = "sinusoidal", num_learned: int = 0, width: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.learned_shape = num_learned, width

    def build(self, input_shape: Any = None) -> None:
        if self.kind == "learned":
            start = keras.initializers.RandomNormal(stddev=self.learned_shape[1] ** -0.5)
            self.vectors = self.add_weight(
                name="vectors", shape=self.learned_shape, initializer=start, autocast=False
            )
        self.built = True

    def call(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """`x [..., T, D]`, D even; `positions [T]` int32, None: from 0 -> `[..., T, D]`."""
        positions = ops.arange(ops.shape(x)[-2]) if positions is None else positions
        if self.kind == "learned":
            vectors = ops.take(
                self.vectors, ops.minimum(positions, self.learned_shape[0] - 1), axis=0
            )
        else:
            vectors = sinusoidal_positions(positions, x.shape[-1], self.kind)
        return x + ops.cast(vectors, x.dtype)


class StackInput(keras.layers.Layer):
    """Makes the input of a stack from embeddings: adds positions, and normalises if asked to.

    `settings` are those of `models.transformer.Transformer`.
    """

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, kind = settings["width"], settings["positions"]
        own = self.dtype_policy
        self.positions = (
            PositionalEncoding(
                kind, settings["max_positions"], self.width, name="positions", dtype=own
            )
            if kind in (*SINUSOIDS, "learned")
            else None
        )
        epsilon = settings["norm_epsilon"]
        self.norm = (
            LayerNorm(epsilon=epsilon, name="norm", dtype=own)
            if settings["norm_embeddings"]
            else None
        )

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
        num_layers: number of layers, at least 1.
        width, num_heads, ffn_width, dropout, attention_dropout, ffn_dropout, norm, positions,
            max_distance, scale_scores, share_layers, distinct_layers, activation, norm_epsilon: as
            of `models.transformer.Transformer`. Only relative and rotary positions are known here;
            others are to be in the input.
    """

    layer_class = StackLayer

    def __init__(
        self,
        num_layers: int,
        width: int,
        num_heads: int,
        ffn_width: int,
        *,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        ffn_dropout: float = 0.0,
        norm: str = "post",
        positions: str = "sinusoidal",
        max_distance: int = MAX_DISTANCE,
        scale_scores: bool = True,
        share_layers: str = "none",
        distinct_layers: int = 1,
        activation: str = "relu",
        norm_epsilon: float = NORM_EPSILON,
        **kwargs: Any,
    ) -> None:
        settings = settings_of(locals())
        super().__init__(**kwargs)
        self.settings = settings
        order = layer_order(num_layers, distinct_layers, share_layers)
        made = [
            self.layer_class(settings, name=f"layer_{i}", dtype=self.dtype_policy)
            for i in range(max(order) + 1)
        ]
        # A layer whose weights several layers share is in the list several times.
        self.layers = [made[i] for i in order]
        # Pre-norm layers do not normalise their outputs, so one more normalisation ends the stack.
        self.norm = (
            LayerNorm(epsilon=norm_epsilon, name="norm", dtype=self.dtype_policy)
            if norm == "pre"
            else None
        )

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
        return {**super().get_config(), **self.settings}


@keras.saving.register_keras_serializable("nmt_zoo")
class Encoder(Stack):
    """Layers of self-attention and feed-forward networks.

    Example:
        >>> encoder = Encoder(num_layers=2, width=8, num_heads=2, ffn_width=16)
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
        >>> decoder = Decoder(num_layers=2, width=8, num_heads=2, ffn_width=16)
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
        return [each for each in joined if each is not None]
