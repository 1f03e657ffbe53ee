"""The Transformer reduced to its main idea: self-attention instead of recurrence.

One head, learned positions, no layer normalisation, residual connections only around the
feed-forward layers, and a single cross-attention on top of the decoder.
"""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.architecture import SOFTMAX, SOURCE_WORDS, TARGET_WORDS, Architecture, Part
from nmt_zoo.models.base import (
    Tensor,
    TranslationModel,
    by_hypothesis,
    by_sentence,
    dense_weights,
    require_at_least,
    require_layers,
    require_rates,
    settings_of,
    shift_right,
)
from nmt_zoo.models.layers.attention_scores import SourceAttention
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.embeddings import Embedding
from nmt_zoo.models.layers.masks import causal_mask, padding_mask
from nmt_zoo.models.layers.transformer_layers import FeedForward


def _attention(width, name, dtype):
    """`sum_j softmax_j((W_Q y)^T W_K x_j) W_V x_j`, not scaled, without an output matrix."""
    return SourceAttention(
        "reduced_rank", width, width, rank=width, value_width=width, name=name, dtype=dtype
    )


class SimpleLayer(Composite):
    """Self-attention, then `FFN(x) + x`; its query and key matrices start equal."""

    def __init__(self, width: int, ffn_width: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.width = width
        self.self_attention = _attention(width, "self_attention", dtype)
        self.feed_forward = FeedForward(width, ffn_width, dropout, name="feed_forward", dtype=dtype)

    def build(self, input_shape: Any = None) -> None:
        # No residual connection goes around the attention, so an average over all positions, with
        # which attention usually starts, would lose which word stands where. With equal matrices
        # for queries and keys, an embedding starts with a score of about 1 for itself and 0 for
        # others. One initializer of Keras draws the same values for both.
        start = keras.initializers.RandomNormal(stddev=1 / self.width)
        self.self_attention.query.kernel_initializer = start
        self.self_attention.memory.kernel_initializer = start
        super().build()

    def call(
        self, x: Tensor, attention_mask: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """`x [B, T, D]`, mask that broadcasts to `[B, T, T]` -> `(x, weights [B, T, T])`."""
        keys, values = self.self_attention.project_memory(x)
        return self._from(x, keys, values, attention_mask, training)

    def _from(self, x, keys, values, attention_mask, training=None):
        x, weights = self.self_attention(x, keys, values, attention_mask)
        return self.feed_forward(x, training=training) + x, weights

    def step(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Processes the position t after those of the cache, and adds it to the cache.

        `x [N, 1, D]`, `keys [N, D, t]`, `values [N, t, D]` ->
        `(x [N, 1, D], keys [N, D, t + 1], values [N, t + 1, D])`.
        """
        new_keys, new_values = self.self_attention.project_memory(x)
        keys = ops.concatenate([keys, new_keys], axis=2)
        values = ops.concatenate([values, new_values], axis=1)
        return self._from(x, keys, values, None)[0], keys, values


@keras.saving.register_keras_serializable("nmt_zoo")
class SimpleTransformer(Composite, TranslationModel):
    """Stacks of single-head self-attention, joined by one attention to the source.

    Source: `v_j = E(f_j) + P(j)`; each layer `h = SelfAttention(v)`, `h' = FFN(h) + h`. The target
    is treated likewise, but no position sees later positions. Then, with g the decoder's vector,
    `c = CrossAttention(h', g)`, `o = c + g`, `P(e) = softmax(W o + b)`.

    Positions are learned, and all positions from `max_length` on share the last vector. So longer
    sentences are translated less well: train with a `--max_length` of at most `max_length`.
    Raises `SettingError` at a setting out of its range.

    Args:
        num_encoder_layers: layers of the encoder, at least 1.
        num_decoder_layers: layers of the decoder, at least 1.
        width: D, size of every representation.
        ffn_width: inner size of the feed-forward layers.
        max_length: number of positions with a separate vector.
        dropout: on embeddings and inside the feed-forward layers, in [0, 1).
    Example:
        >>> model = SimpleTransformer(100, 90, width=16, ffn_width=32)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model({"source_ids": ids, "target_in_ids": ids}).shape
        TensorShape([1, 3, 90])
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        num_encoder_layers: int = 2,
        num_decoder_layers: int = 2,
        width: int = 256,
        ffn_width: int = 1024,
        max_length: int = 256,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        settings = self.settings = settings_of(locals())
        _check_settings(settings)
        self.width = width
        self.max_length = max_length
        policy = self.dtype_policy
        self.source_embedding = self._embedding(source_vocab_size, "source_embedding")
        self.target_embedding = self._embedding(target_vocab_size, "target_embedding")
        self.source_positions = self._embedding(max_length, "source_positions")
        self.positions = self._embedding(max_length, "target_positions")
        self.embedding_dropout = Dropout(dropout, name="embedding_dropout", dtype=policy)

        def layers(side, count):
            sizes = width, ffn_width, dropout
            return [SimpleLayer(*sizes, name=f"{side}_{i}", dtype=policy) for i in range(count)]

        self.encoder_layers = layers("encoder", num_encoder_layers)
        self.decoder_layers = layers("decoder", num_decoder_layers)
        self.cross_attention = _attention(width, "cross_attention", policy)
        self.output_layer = Dense(width, target_vocab_size, name="output", dtype=policy)
        self.build()

    def _embedding(self, size, name):
        # Words and positions each contribute half of a variance of 1.
        start = keras.initializers.RandomNormal(stddev=0.5**0.5)
        return Embedding(
            size, self.width, embeddings_initializer=start, name=name, dtype=self.dtype_policy
        )

    def _embed(self, words, positions, ids, first=0, training=None):
        """`[B, T]` ids at positions from `first` on -> `[B, T, D]`."""
        position_ids = ops.minimum(first + ops.arange(ops.shape(ids)[1]), self.max_length - 1)
        x = words(ids) + positions(position_ids)[None]
        return self.embedding_dropout(x, training=training)

    def _encode(self, source_ids, training):
        source_mask = padding_mask(source_ids, self.pad_id)
        x = self._embed(self.source_embedding, self.source_positions, source_ids, training=training)
        x, maps = self._through(self.encoder_layers, x, source_mask[:, None, :], training)
        keys, values = self.cross_attention.project_memory(x)
        return {"source_mask": source_mask, "keys": keys, "values": values}, maps

    def _whole(self, source_ids, target_in_ids, training):
        """`(features, self-attention of encoder and decoder, cross-attention [B, T, S])`."""
        context, encoder_maps = self._encode(source_ids, training)
        x = self._embed(self.target_embedding, self.positions, target_in_ids, training=training)
        from_past = causal_mask(ops.shape(target_in_ids)[1])[0]
        x, decoder_maps = self._through(self.decoder_layers, x, from_past, training)
        features, weights = self._read(x, context)
        return features, (encoder_maps, decoder_maps), weights

    @staticmethod
    def _through(layers, x, attention_mask, training):
        """`x [B, T, D]` -> `(x [B, T, D], weights [B, T, T] of each layer)`."""
        maps = []
        for layer in layers:
            x, weights = layer(x, attention_mask, training=training)
            maps.append(weights)
        return x, maps

    def _read(self, g, context):
        """`g [B, T, D]` -> `(features [B, T, D], weights [B, T, S])`."""
        c, weights = self.cross_attention(
            g, context["keys"], context["values"], context["source_mask"][:, None, :]
        )
        return c + g, weights

    def features_and_alignment(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        features, _, weights = self._whole(inputs["source_ids"], inputs["target_in_ids"], training)
        return features, weights

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        return dense_weights(self.output_layer)

    def architecture(self) -> Architecture:
        source = SOURCE_WORDS, *self._parts("source", self.encoder_layers, "encoder")
        target = (
            TARGET_WORDS,
            *self._parts("target", self.decoder_layers, "decoder"),
            Part("Cross-attention", "attention", ("one head",), (self.cross_attention,), "", True),
            Part("Output layer", "output", (), (self.output_layer,)),
            SOFTMAX,
        )
        return Architecture(source, target)

    def _parts(self, side, layers, name):
        """Describes the embedding, positions and layers of a side."""
        positions = self.source_positions if side == "source" else self.positions
        inputs = getattr(self, f"{side}_embedding"), positions
        frame = f"{len(layers)} × {name}"
        yield Part(f"{side.title()} embedding", "embedding", ("learned positions",), inputs)
        attention = [layer.self_attention for layer in layers]
        feed_forward = [layer.feed_forward for layer in layers]
        heads = "one head" + ", no later words" * (side == "target")
        yield Part("Self-attention", "attention", (heads,), attention, frame)
        yield Part("Feed-forward", "layer", ("with a residual",), feed_forward, frame)

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context: `source_mask [B, S]`; cross-attention `keys [B, D, S]`, `values [B, S, D]`."""
        return self._encode(source_ids, training)[0]

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: self-attention `keys [B, D, t]`, `values [B, t, D]` per layer; t grows from 0."""
        batch_size = ops.shape(context["source_mask"])[0]
        shapes = {"keys": (batch_size, self.width, 0), "values": (batch_size, 0, self.width)}
        return {
            name: [ops.zeros(shape, self.compute_dtype) for _ in self.decoder_layers]
            for name, shape in shapes.items()
        }

    def step_features(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any], Tensor]:
        x = self._embed(self.target_embedding, self.positions, token_ids[:, None], first=step)
        keys, values = [], []
        by_layer = zip(self.decoder_layers, state["keys"], state["values"], strict=True)
        for layer, old_keys, old_values in by_layer:
            x, new_keys, new_values = layer.step(x, old_keys, old_values)
            keys.append(new_keys)
            values.append(new_values)
        # The K hypotheses of a sentence become K queries to its memory: [N, 1, D] -> [B, K, D].
        queries = by_sentence(x, ops.shape(context["source_mask"])[0])
        features, weights = self._read(queries, context)
        state = {"keys": keys, "values": values}
        return by_hypothesis(features), state, by_hypothesis(weights)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """As `TranslationModel`; the cross-attention is named after the decoder's last layer."""
        target_in_ids = shift_right(target_ids, self.bos_id)
        _, self_maps, cross = self._whole(source_ids, target_in_ids, training=False)
        maps = {
            f"{side}/{i}/self": weights[:, None]
            for side, of_layers in zip(("encoder", "decoder"), self_maps, strict=True)
            for i, weights in enumerate(of_layers)
        }
        return {**maps, f"decoder/{len(self.decoder_layers) - 1}/cross": cross[:, None]}


def _check_settings(settings):
    require_rates(settings, ("dropout",))
    require_layers(settings)
    require_at_least(1, settings, (name for name in settings if name != "dropout"))
