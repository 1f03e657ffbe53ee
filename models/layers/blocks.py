"""Encoder and decoder stacks of the Transformer.

Vaswani et al. 2017, sections 3.1 to 3.3 and figure 1. Layer normalisation comes after the residual
connection as published ("post"), or before the sub-layer ("pre", Xiong et al. 2020). Layers of a
stack may share weights (Takase and Kiyono 2021).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor
from nmt_zoo.models.layers.attention import (
    MaskedMultiHeadAttention,
    MultiHeadAttention,
)
from nmt_zoo.models.layers.dropout import Dropout
from nmt_zoo.models.layers.masks import attend_to


class Residual(keras.layers.Layer):
    """The residual connection, dropout and layer normalisation around one sub-layer `f`.

    post: `norm(x + dropout(f(x)))`; pre: `x + dropout(f(norm(x)))`. To be used as
    `y = residual.leave(x, f(residual.enter(x)))`.
    """

    def __init__(
        self, width: int, dropout: float, norm: str, epsilon: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.pre_norm = norm == "pre"
        self.norm = LayerNorm(epsilon=epsilon, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.norm.build((None, None, self.width))
        self.built = True

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre_norm else x

    def leave(self, x: Tensor, y: Tensor, training: bool | None = None) -> Tensor:
        """Returns the block's output from its input `x` and the sub-layer's output `y`."""
        x = x + self.dropout(y, training=training)
        return x if self.pre_norm else self.norm(x)


class LayerNorm(keras.layers.LayerNormalization):
    """Layer normalisation over the last axis, Ba et al. 2016, with the gradient in closed form.

    TensorFlow's gradient of the single operations reads and writes `[B, T, D]` about three times as
    often, which takes a tenth of an update's time on a CPU.
    """

    def call(self, inputs: Tensor) -> Tensor:
        """`[..., D]` -> `[..., D]`."""
        float32 = [ops.cast(x, "float32") for x in (inputs, self.gamma, self.beta)]
        return ops.cast(_normalised(*float32, self.epsilon), self.compute_dtype)


def _normalised(x, gamma, beta, epsilon):
    @ops.custom_gradient
    def normalised(x, gamma, beta):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        inverse = ops.rsqrt(variance + epsilon)
        n = centred * inverse

        def gradient(upstream):
            axes = tuple(range(len(x.shape) - 1))
            product = upstream * n
            of_n = upstream * gamma
            along_n = ops.matmul(product, gamma[:, None]) / x.shape[-1]  # Mean of n * of_n.
            of_x = inverse * (of_n - ops.mean(of_n, axis=-1, keepdims=True) - n * along_n)
            return of_x, ops.sum(product, axis=axes), ops.sum(upstream, axis=axes)

        return n * gamma + beta, gradient

    return normalised(x, gamma, beta)


# Besides the published relu: "gelu", Hendrycks and Gimpel 2016, exact, by the error function;
# "swish", x sigmoid(x), Ramachandran et al. 2017.
ACTIVATIONS = {"relu": ops.relu, "gelu": partial(ops.gelu, approximate=False), "swish": ops.silu}


class FeedForward(keras.layers.Layer):
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
        self.width = width
        self.ffn_width = ffn_width
        self.inner = keras.layers.Dense(
            ffn_width, activation=ACTIVATIONS[activation], name="inner", dtype=self.dtype_policy
        )
        self.outer = keras.layers.Dense(width, name="outer", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.inner.build((None, None, self.width))
        self.outer.build((None, None, self.ffn_width))
        self.built = True

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """`[B, T, D]` -> `[B, T, D]`."""
        return self.outer(self.dropout(self.inner(x), training=training))


class StackLayer(keras.layers.Layer):
    """Base of the layers of both stacks; `settings` as `models.transformer.Transformer`."""

    # In which sub-layers the subclasses differ.
    self_attention_class = MultiHeadAttention
    attends_to_source = False

    def __init__(self, settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dtype, width, dropout = self.dtype_policy, settings["width"], settings["dropout"]
        heads = width, settings["num_heads"], settings["attention_dropout"]
        positions = settings["positions"], settings["max_distance"]
        common = {"scaled": settings["scale_scores"], "dtype": dtype}
        self.self_attention = self.self_attention_class(
            *heads, *positions, name="self_attention", **common
        )
        if self.attends_to_source:
            self.cross_attention = MultiHeadAttention(*heads, name="cross_attention", **common)
        inner = (settings[name] for name in ("ffn_width", "ffn_dropout", "activation"))
        self.feed_forward = FeedForward(width, *inner, name="feed_forward", dtype=dtype)
        norm = settings["norm"], settings["norm_epsilon"]
        around = partial(Residual, width, dropout, *norm, dtype=dtype)
        sub_layers = [self.self_attention]
        if self.attends_to_source:
            self.around_self = around(name="around_self_attention")
            self.around_cross = around(name="around_cross_attention")
            sub_layers += [self.cross_attention, self.around_self, self.around_cross]
        else:
            self.around_attention = around(name="around_attention")
            sub_layers.append(self.around_attention)
        self.around_feed_forward = around(name="around_feed_forward")
        self.sub_layers = [*sub_layers, self.feed_forward, self.around_feed_forward]

    def build(self, input_shape: Any = None) -> None:
        for layer in self.sub_layers:
            layer.build()
        self.built = True

    def _fed_forward(self, x, training=None):
        """The last sub-layer: `[..., D]` -> `[..., D]`."""
        y = self.feed_forward(self.around_feed_forward.enter(x), training=training)
        return self.around_feed_forward.leave(x, y, training=training)


class EncoderLayer(StackLayer):
    """Self-attention, then feed-forward."""

    def call(
        self, x: Tensor, attention_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """`x [B, S, D]`, `attention_mask [B, 1, 1, S]` -> `(x [B, S, D], weights [B, H, S, S])`."""
        inner = self.around_attention.enter(x)
        y, weights = self.self_attention(inner, inner, attention_mask, training=training)
        x = self.around_attention.leave(x, y, training=training)
        return self._fed_forward(x, training), weights


class DecoderLayer(StackLayer):
    """Masked self-attention, attention to the source, then feed-forward."""

    self_attention_class = MaskedMultiHeadAttention
    attends_to_source = True

    def call(
        self, x: Tensor, memory: Tensor, source_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decodes whole target sequences.

        `x [B, T, D]`, `memory [B, S, D]` from the encoder, `source_mask [B, S]` bool ->
        `(x [B, T, D], self weights [B, H, T, T], cross weights [B, H, T, S])`.
        """
        y, self_weights = self.self_attention(self.around_self.enter(x), training=training)
        x = self.around_self.leave(x, y, training=training)
        y, cross_weights = self.cross_attention(
            self.around_cross.enter(x), memory, attend_to(source_mask), training=training
        )
        x = self.around_cross.leave(x, y, training=training)
        return self._fed_forward(x, training), self_weights, cross_weights

    def step(
        self,
        x: Tensor,
        cache: Sequence[Tensor],
        cross_keys: Tensor,
        cross_values: Tensor,
        source_mask: Tensor,
        position: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Tensor], Tensor]:
        """Decodes the target position after the t positions of the cache.

        `x [N, D]`; `cache`, keys and values of self-attention, `[N, H, t, d]` each, and `position`
        as in `MaskedMultiHeadAttention.step`;
        `cross_keys [B, H, S, d]`, `cross_values [B, H, S, d]`; `source_mask [B, S]` bool ->
        `(x [N, D], cache of t + 1 positions, cross weights [B, H, K, S])`.
        """
        y, *cache = self.self_attention.step(self.around_self.enter(x), *cache, position)
        x = self.around_self.leave(x, y)
        y, weights = self.cross_attention.step(
            self.around_cross.enter(x), cross_keys, cross_values, attend_to(source_mask)
        )
        x = self.around_cross.leave(x, y)
        return self._fed_forward(x), cache, weights


def distinct(layers: Iterable[keras.layers.Layer]) -> list[keras.layers.Layer]:
    """Returns the layers, each once."""
    return list(dict.fromkeys(layers))
