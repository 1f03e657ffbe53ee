"""The layers of the Transformer, and its encoder and decoder, each as one layer.

Vaswani et al. 2017, sections 3.1 to 3.3 and figure 1. Layer normalisation comes after the residual
connection as published ("post"), or before the sub-layer ("pre", Xiong et al. 2020). Layers of a
stack may share weights (Takase and Kiyono 2021). `settings` are those of
`models.transformer.Transformer`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor
from nmt_zoo.models.layers.attention import MaskedMultiHeadAttention, MultiHeadAttention
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.embeddings import SINUSOIDS, PositionalEncoding
from nmt_zoo.models.layers.recurrent import SSRU
from nmt_zoo.models.transformer_settings import layer_order


class LayerNorm(keras.layers.LayerNormalization):
    """Layer normalisation over the last axis, Ba et al. 2016, with the gradient in closed form.

    TensorFlow's gradient of the single operations reads and writes `[B, T, D]` about three times as
    often, which takes a tenth of an update's time on a CPU.
    """

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(epsilon=settings["norm_epsilon"], **kwargs)
        self.width = settings["width"]

    def build(self, input_shape: Any = None) -> None:
        super().build((None, self.width))

    def call(self, inputs: Tensor) -> Tensor:
        """`[..., D]` -> `[..., D]`."""

        @ops.custom_gradient
        def normalised(x, gamma, beta):
            centred = x - ops.mean(x, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
            inverse = ops.rsqrt(variance + self.epsilon)
            n = centred * inverse

            def gradient(upstream):
                axes = tuple(range(len(x.shape) - 1))
                product = upstream * n
                of_n = upstream * gamma
                along_n = ops.matmul(product, gamma[:, None]) / x.shape[-1]  # Mean of n * of_n.
                of_x = inverse * (of_n - ops.mean(of_n, axis=-1, keepdims=True) - n * along_n)
                return of_x, ops.sum(product, axis=axes), ops.sum(upstream, axis=axes)

            return n * gamma + beta, gradient

        float32 = [ops.cast(x, "float32") for x in (inputs, self.gamma, self.beta)]
        return ops.cast(normalised(*float32), self.compute_dtype)


class Residual(Composite):
    """The residual connection, dropout and layer normalisation around one sub-layer `f`.

    post: `norm(x + dropout(f(x)))`; pre: `x + dropout(f(norm(x)))`.
    """

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pre_norm = settings["norm"] == "pre"
        self.norm = LayerNorm(settings, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(settings["dropout"], name="dropout", dtype=self.dtype_policy)

    def enter(self, x: Tensor) -> Tensor:
        """Returns the sub-layer's input."""
        return self.norm(x) if self.pre_norm else x

    def leave(self, x: Tensor, y: Tensor, training: bool | None = None) -> Tensor:
        """Returns the output, from the residual's input `x` and the sub-layer's output `y`."""
        x = x + self.dropout(y, training=training)
        return x if self.pre_norm else self.norm(x)


# Besides the published relu: "gelu", Hendrycks and Gimpel 2016, exact, by the error function;
# "swish", x sigmoid(x), Ramachandran et al. 2017.
ACTIVATIONS = {"relu": ops.relu, "gelu": partial(ops.gelu, approximate=False), "swish": ops.silu}


class FeedForward(Composite):
    """`max(0, x W1 + b1) W2 + b2` at every position, equation 2 of Vaswani et al. 2017.

    `activation`, of `ACTIVATIONS`, may take the place of the maximum.
    """

    def __init__(
        self,
        width: int,
        ffn_width: int,
        dropout: float,
        activation: str = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.inner = Dense(
            width, ffn_width, activation=ACTIVATIONS[activation], name="inner", dtype=dtype
        )
        self.outer = Dense(ffn_width, width, name="outer", dtype=dtype)
        self.dropout = Dropout(dropout, name="dropout", dtype=dtype)

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """`[B, T, D]` -> `[B, T, D]`."""
        return self.outer(self.dropout(self.inner(x), training=training))


SubLayer = Callable[[Tensor], Sequence[Tensor]]  # x -> its output and other results.


class TransformerLayer(Composite):
    """Base of the layers of both stacks: attention, then feed-forward, each within a residual."""

    self_attention_class = MultiHeadAttention
    residuals = ("attention", "feed_forward")  # Names of what has a residual around it, in order.

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dtype, width = self.dtype_policy, settings["width"]
        heads = width, settings["num_heads"], settings["attention_dropout"]
        positions = settings["positions"], settings["max_distance"]
        common = {"scaled": settings["scale_scores"], "dtype": dtype}
        self.self_attention = (
            SSRU(width, name="ssru", dtype=dtype)
            if settings["ssru"] and self.self_attention_class is MaskedMultiHeadAttention
            else self.self_attention_class(*heads, *positions, name="self_attention", **common)
        )
        if "cross_attention" in self.residuals:
            self.cross_attention = MultiHeadAttention(*heads, name="cross_attention", **common)
        inner = (settings[name] for name in ("ffn_width", "ffn_dropout", "activation"))
        self.feed_forward = FeedForward(width, *inner, name="feed_forward", dtype=dtype)
        self.around = [
            Residual(settings, name=f"around_{name}", dtype=dtype) for name in self.residuals
        ]

    def through(
        self, x: Tensor, *attention: SubLayer, training: bool | None = None
    ) -> tuple[Tensor, ...]:
        """Applies attention and the feed-forward network; returns `x` and what attention adds."""
        *around_attention, around_feed_forward = self.around
        results = []
        for residual, sub_layer in zip(around_attention, attention, strict=True):
            y, *more = sub_layer(residual.enter(x))
            x = residual.leave(x, y, training)
            results.extend(more)
        y = self.feed_forward(around_feed_forward.enter(x), training=training)
        return around_feed_forward.leave(x, y, training), *results


class EncoderLayer(TransformerLayer):
    """Self-attention, then feed-forward."""

    def call(
        self, x: Tensor, attention_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """`x [B, S, D]`, `attention_mask [B, 1, 1, S]` -> `(x [B, S, D], weights [B, H, S, S])`."""
        return self.through(
            x,
            lambda y: self.self_attention(y, y, attention_mask, training=training),
            training=training,
        )


class DecoderLayer(TransformerLayer):
    """Masked self-attention, or an `SSRU`, attention to the source, then feed-forward."""

    self_attention_class = MaskedMultiHeadAttention
    residuals = ("self_attention", "cross_attention", "feed_forward")

    def call(
        self, x: Tensor, memory: Tensor, source_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decodes whole target sequences.

        `x [B, T, D]`, `memory [B, S, D]` from the encoder, `source_mask [B, S]` bool ->
        `(x [B, T, D], self weights [B, H, T, T] or None, cross weights [B, H, T, S])`.
        """
        visible = source_mask[:, None, None, :]  # [B, 1, 1, S]
        return self.through(
            x,
            lambda y: self.self_attention(y, training=training),
            lambda y: self.cross_attention(y, memory, visible, training=training),
            training=training,
        )

    def step(
        self,
        x: Tensor,
        state: Sequence[Tensor],
        cross_keys: Tensor,
        cross_values: Tensor,
        source_mask: Tensor,
        place: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        """Decodes the target position after the t positions of the state.

        `x [N, D]`; `state`, keys and values, and `place`, as in `MaskedMultiHeadAttention.step`, or
        the cells of `SSRU.step`; `cross_keys`, `cross_values [B, H, S, d]`; `source_mask [B, S]`
        bool -> `(x [N, D], state of t + 1 positions, cross weights [B, H, K, S])`.
        """
        from_source = source_mask[:, None, None, :]  # [B, 1, 1, S]
        return self.through(
            x,
            lambda y: self.self_attention.step(y, *state, place),
            lambda y: self.cross_attention.step(y, cross_keys, cross_values, from_source),
        )


def distinct(layers: Iterable[keras.layers.Layer]) -> list[keras.layers.Layer]:
    """Returns the layers, each once."""
    return list(dict.fromkeys(layers))


class StackInput(Composite):
    """Makes the input of a stack from embeddings: adds positions, and normalises if asked to."""

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.positions = self.norm = None
        if settings["positions"] in (*SINUSOIDS, "learned"):
            options = (settings[name] for name in ("positions", "max_positions", "width"))
            self.positions = PositionalEncoding(*options, name="positions", dtype=self.dtype_policy)
        if settings["norm_embeddings"]:
            self.norm = LayerNorm(settings, name="norm", dtype=self.dtype_policy)

    def call(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """`[..., T, D]` -> `[..., T, D]`; `positions` as of `PositionalEncoding`."""
        x = x if self.positions is None else self.positions(x, positions)
        return x if self.norm is None else self.norm(x)


class Stack(Composite):
    """Base of `Encoder` and `Decoder`: `num_layers`, at least 1, layers of one class.

    Only relative and rotary positions are known here; others are to be in the input.
    """

    layer_class = TransformerLayer

    def __init__(self, settings: dict[str, Any], num_layers: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        order = layer_order(num_layers, settings["distinct_layers"], settings["share_layers"])
        layers = [
            self.layer_class(settings, name=f"layer_{i}", dtype=self.dtype_policy)
            for i in range(max(order) + 1)
        ]
        # A layer whose weights several layers share is in the list several times.
        self.layers = [layers[i] for i in order]
        # Pre-norm layers do not normalise their outputs, so one more normalisation ends the stack.
        self.norm = None
        if settings["norm"] == "pre":
            self.norm = LayerNorm(settings, name="norm", dtype=self.dtype_policy)

    def normalised(self, x: Tensor) -> Tensor:
        """Applies the normalisation that ends a stack of pre-norm layers."""
        return x if self.norm is None else self.norm(x)

    def through(
        self, x: Tensor, *inputs: Tensor, training: bool | None = None
    ) -> tuple[Tensor, ...]:
        """Applies all layers; returns `x` and a list for each kind of their attention weights."""
        maps = []
        for layer in self.layers:
            x, *weights = layer(x, *inputs, training=training)
            maps.append(weights)
        return self.normalised(x), *map(list, zip(*maps, strict=True))


@keras.saving.register_keras_serializable("nmt_zoo")
class Encoder(Stack):
    """Layers of self-attention and feed-forward networks.

    Example:
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
        return self.through(x, source_mask[:, None, None, :], training=training)


@keras.saving.register_keras_serializable("nmt_zoo")
class Decoder(Stack):
    """Layers of masked self-attention, attention to the source, and feed-forward networks.

    `call` takes whole sequences; `step` takes one position and caches. Both give equal results.
    Example:
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
        self-attention `[B, H, T, T]`, None for an `SSRU`, and those of cross-attention
        `[B, H, T, S]` of all layers.
        """
        return self.through(x, memory, source_mask, training=training)

    def project_memory(self, memory: Tensor) -> tuple[list[Tensor], ...]:
        """`[B, S, D]` -> keys and values of every layer, `[B, H, S, d]` each."""
        projected = {
            layer: layer.cross_attention.project_memory(memory) for layer in distinct(self.layers)
        }
        return tuple([projected[layer][i] for layer in self.layers] for i in range(2))

    def empty_caches(self, batch_size: int | Tensor) -> dict[str, list[Tensor]]:
        """Makes the state of no position: `keys` and `values`, `[B, H, 0, d]`, or `cells [B, D]`.

        Each is a list of one for each layer.
        """
        states = [layer.self_attention.empty_state(batch_size) for layer in self.layers]
        return {name: [state[name] for state in states] for name in states[0]}

    def step(
        self,
        x: Tensor,
        caches: dict[str, list[Tensor]],
        memory: tuple[list[Tensor], list[Tensor], Tensor],
        place: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor]], list[Tensor]]:
        """Decodes the target position after those of the caches.

        `x [N, D]`; `caches` as of `empty_caches`, with N rows; `memory` from `project_memory`, and
        the mask of the source, `[B, S]` bool; `place` as in
        `MaskedMultiHeadAttention.step` -> x, caches and weights of cross-attention,
        `[B, H, K, S]`, of all layers.
        """
        results, (*projected, source_mask) = [], memory
        states = zip(*caches.values(), strict=True)
        for layer, state, *cross in zip(self.layers, states, *projected, strict=True):
            x, *others = layer.step(x, state, *cross, source_mask, place)
            results.append(others)
        *states, maps = map(list, zip(*results, strict=True))
        return self.normalised(x), dict(zip(caches, states, strict=True)), maps
