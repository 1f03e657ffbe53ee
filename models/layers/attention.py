"""Scaled dot-product, multi-head and masked multi-head attention.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2, equation 1 and figure 2. Relative
positions: Shaw et al. 2018, "Self-Attention with Relative Position Representations".
"""

from functools import partial
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Precomputed, Tensor, dense_weights
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.embeddings import SINUSOIDS, rotate
from nmt_zoo.models.layers.masks import causal_mask, masked_softmax
from nmt_zoo.models.layers.products import Int8, product

# Ways in which a Transformer knows positions; "none": not at all, so that it reads bags of words.
POSITIONS = (*SINUSOIDS, "learned", "relative", "rotary", "none")
MAX_DISTANCE = 16  # Shaw et al. 2018, section 4.1: k of their base model.


@keras.saving.register_keras_serializable("nmt_zoo")
class ScaledDotProductAttention(Composite):
    """`softmax(Q K^T / sqrt(d)) V`, equation 1 of Vaswani et al. 2017.

    `dropout`, the share of the weights that training drops, is in [0, 1). Without `scaled`, scores
    are not divided by sqrt(d).
    Example:
        >>> layer = ScaledDotProductAttention()
        >>> output, weights = layer(
        ...     ops.ones((2, 3, 4)), ops.ones((2, 5, 4)), ops.ones((2, 5, 4)))
        >>> output.shape, weights.shape
        (TensorShape([2, 3, 4]), TensorShape([2, 3, 5]))
    """

    def __init__(self, dropout: float = 0.0, scaled: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scaled = scaled
        self.weight_dropout = Dropout(dropout, dtype="float32", name="dropout")

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        first: Tensor | None = None,
        shared: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """`query [..., T, d]`, `key [..., S, d]`, `value [..., S, e]` -> output and weights.

        `attention_mask` is bool, broadcastable to `[..., T, S]`, True where attention is allowed.
        `first`, scalar int32, is the position of the first query; None: the queries are at the
        last positions of the keys. So many neighbouring queries, or keys, as `shared` says have the
        same position. The output is `[..., T, e]`; the weights `[..., T, S]` are
        float32 and before dropout. If every key of a query is hidden, its weights are equal, never
        NaN.
        """
        if self.scaled:
            query = query * (query.shape[-1] ** -0.5)
        weights = masked_softmax(self.scores(query, key, first, shared), attention_mask)
        used = ops.cast(self.weight_dropout(weights, training=training), self.compute_dtype)
        return self.average(used, value, first, shared), weights

    def scores(
        self, query: Tensor, key: Tensor, first: Tensor | None = None, shared: int = 1
    ) -> Tensor:
        """`[..., T, d]` scaled queries and `[..., S, d]` keys -> `[..., T, S]`."""
        return ops.matmul(query, ops.swapaxes(key, -1, -2))

    def average(
        self, weights: Tensor, value: Tensor, first: Tensor | None = None, shared: int = 1
    ) -> Tensor:
        """`[..., T, S]` weights and `[..., S, e]` values -> `[..., T, e]`."""
        return ops.matmul(weights, value)


@keras.saving.register_keras_serializable("nmt_zoo")
class RelativeAttention(ScaledDotProductAttention):
    """Attention within a sequence that knows how far apart two positions are (Shaw et al. 2018).

    For a query at position t, a learned vector of the distance s - t is added to the key and
    another one to the value of position s (equations 3 and 4). All heads share these vectors.
    Distances beyond `max_distance`, k in the paper, count as equal to it. `size` is d, of queries
    `[B, H, T, d]`, keys and values `[B, H, S, d]`. `sees_future` is False if all keys after a query
    are masked; such distances have no vectors.
    """

    def __init__(
        self,
        size: int,
        max_distance: int = MAX_DISTANCE,
        sees_future: bool = True,
        dropout: float = 0.0,
        scaled: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout, scaled, **kwargs)
        self.size = size
        self.max_distance = max_distance
        self.sees_future = sees_future

    def build(self, input_shape: Any = None) -> None:
        count = self.max_distance * (2 if self.sees_future else 1) + 1
        self.key_vectors, self.value_vectors = (
            self.add_weight(name=name, shape=(count, self.size), initializer="glorot_uniform")
            for name in ("key_vectors", "value_vectors")
        )
        super().build(input_shape)

    def scores(
        self, query: Tensor, key: Tensor, first: Tensor | None = None, shared: int = 1
    ) -> Tensor:
        sizes = ops.shape(query)[2], ops.shape(key)[2]
        of_keys = self._by_distance(self.key_vectors, *sizes, first, shared)
        return super().scores(query, key) + ops.einsum("bhtd,tsd->bhts", query, of_keys)

    def average(
        self, weights: Tensor, value: Tensor, first: Tensor | None = None, shared: int = 1
    ) -> Tensor:
        sizes = ops.shape(weights)[2:]
        of_values = self._by_distance(self.value_vectors, *sizes, first, shared)
        return super().average(weights, value) + ops.einsum("bhts,tsd->bhtd", weights, of_values)

    def _by_distance(self, vectors, num_queries, num_keys, first, shared):
        """Looks up the vector of every pair of positions: `[T, S, d]` in the compute dtype."""
        first = num_keys - num_queries if first is None else first
        query_positions = ops.arange(num_queries) // shared + first
        distances = ops.arange(num_keys)[None, :] // shared - query_positions[:, None]
        longest = self.max_distance
        distances = ops.clip(distances, -longest, longest if self.sees_future else 0)
        return ops.cast(ops.take(vectors, distances + longest, axis=0), self.compute_dtype)


@keras.saving.register_keras_serializable("nmt_zoo")
class MultiHeadAttention(Composite):
    """Attention in H subspaces at once, section 3.2.2 of Vaswani et al. 2017.

    Args:
        width: D, the size of queries, memory and output; `ValueError` unless a multiple of H.
        num_heads: H.
        dropout: share of the attention weights that training drops, in [0, 1).
        positions: of self-attention, one of `POSITIONS`: "relative" as `RelativeAttention`,
            "rotary" as `rotate`; all others: the input contains its positions already, or none.
        scaled: whether scores are divided by sqrt(d).
    Example:
        >>> layer = MultiHeadAttention(width=8, num_heads=2)
        >>> output, weights = layer(ops.ones((2, 3, 8)), ops.ones((2, 5, 8)))
        >>> output.shape, weights.shape
        (TensorShape([2, 3, 8]), TensorShape([2, 2, 3, 5]))
    """

    sees_future = True

    def __init__(
        self,
        width: int,
        num_heads: int,
        dropout: float = 0.0,
        positions: str = "sinusoidal",
        max_distance: int = MAX_DISTANCE,
        scaled: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if width % num_heads:
            raise ValueError(
                f"width must be a multiple of num_heads, found width={width}, num_heads={num_heads}"
            )
        self.width = width
        self.num_heads = num_heads
        self.positions = positions
        dtype = self.dtype_policy
        self.query, self.key, self.value, self.output_projection = (
            Dense(width, width, name=name, dtype=dtype)
            for name in ("query", "key", "value", "output")
        )
        kind = ScaledDotProductAttention
        if positions == "relative":
            kind = partial(RelativeAttention, width // num_heads, max_distance, self.sees_future)
        self.attention = kind(dropout=dropout, scaled=scaled, name="attention", dtype=dtype)

    def _split_heads(self, x):
        x = ops.reshape(x, (*ops.shape(x)[:2], self.num_heads, self.width // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))  # [B, T, D] -> [B, H, T, d]

    def _merge_heads(self, x):
        x = ops.transpose(x, (0, 2, 1, 3))  # [B, H, T, d] -> [B, T, H, d]
        return ops.reshape(x, (*ops.shape(x)[:2], self.width))

    def _placed(self, x):
        """Rotates queries or keys `[B, H, T, d]` if positions are rotary."""
        return rotate(x) if self.positions == "rotary" else x

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, S, D]` -> keys and values, `[B, H, S, d]` each, which decoding computes once."""
        keys, values = (self._split_heads(layer(memory)) for layer in (self.key, self.value))
        return self._placed(keys), values

    def step(
        self, x: Tensor, keys: Tensor, values: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Attends from one position of every hypothesis to another sequence.

        `x [N, D]`, not yet projected; N is a multiple of B; `keys`, `values` of `project_memory`;
        `attention_mask`, bool, broadcastable to `[B, H, K, S]` ->
        `(output [N, D], weights [B, H, K, S] float32)`.
        """
        # The K hypotheses of a sentence become K queries to its memory, which is not repeated.
        query = ops.reshape(self.query(x), (ops.shape(keys)[0], -1, self.width))
        output, weights = self.attention(self._split_heads(query), keys, values, attention_mask)
        output = ops.reshape(self._merge_heads(output), (-1, self.width))
        return self.output_projection(output), weights

    def call(
        self,
        query: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attends from `query [B, T, D]` to `memory [B, S, D]`, neither of them projected yet.

        `attention_mask`, bool, is broadcastable to `[B, H, T, S]` ->
        `(output [B, T, D], weights [B, H, T, S] float32)`.
        """
        keys, values = self.project_memory(memory)
        query = self._placed(self._split_heads(self.query(query)))
        output, weights = self.attention(query, keys, values, attention_mask, training=training)
        return self.output_projection(self._merge_heads(output)), weights


@keras.saving.register_keras_serializable("nmt_zoo")
class MaskedMultiHeadAttention(MultiHeadAttention):
    """Multi-head self-attention in which position t sees positions 0..t only (section 3.2.3).

    `call` takes whole sequences; `step` takes one position and a cache. Both give equal results.
    """

    sees_future = False

    def call(self, x: Tensor, training: bool | None = None) -> tuple[Tensor, Tensor]:
        """`x [B, T, D]` -> `(output [B, T, D], weights [B, H, T, T] float32)`."""
        from_past = causal_mask(ops.shape(x)[1])
        return super().call(x, x, from_past, training=training)

    def empty_state(self, batch_size: int | Tensor) -> dict[str, Tensor]:
        """Makes the caches `keys` and `values` of no position: `[B, H, 0, d]`."""
        shape = (batch_size, self.num_heads, 0, self.width // self.num_heads)
        return {name: ops.zeros(shape, self.compute_dtype) for name in ("keys", "values")}

    joined = None  # `Precomputed` kernel `[D, 3 D]` and bias `[3 D]` of queries, keys and values.

    def precompute(self) -> None:
        """Joins the projections of queries, keys and values; see `Searchable.precompute`."""
        layers = self.query, self.key, self.value
        kernels, biases = zip(*map(dense_weights, layers), strict=True)
        if isinstance(kernels[0], Int8):
            parts = zip(*kernels, strict=True)
            kernel = Int8(*(ops.concatenate(part, axis=-1) for part in parts))
        else:
            kernel = ops.concatenate(kernels, axis=-1)
        self.joined = Precomputed(kernel, ops.concatenate(biases, axis=-1))

    def _project(self, x):
        """`[N, D]` -> queries, keys and values, `[N, D]` each."""
        if self.joined is None:
            return self.query(x), self.key(x), self.value(x)
        kernel, bias = self.joined.values
        return ops.split(product(x, kernel) + bias, 3, axis=-1)

    def step(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        place: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        """Attends from the position t after those of the cache, and adds it to the cache.

        `x [N, D]`, `keys [N, H, t, d]` and `values [N, H, t, d]` of the cache ->
        `(output [N, D], keys [N, H, t + 1, d], values [N, H, t + 1, d])`. With `place`, `(t as
        scalar int32, visible)`, the caches are those of sentences and keep their size: keys
        `[B, H, d, T * K]`, values `[B, H, T * K, d]`, where K hypotheses have a place each at every
        position; `visible [B, 1, K, T * K]` bool says which of them a hypothesis continues.
        """
        by_head = (-1, self.num_heads, 1, self.width // self.num_heads)
        query, new_keys, new_values = (ops.reshape(y, by_head) for y in self._project(x))
        if self.positions == "rotary":
            at = ops.shape(keys)[2] if place is None else place[0]
            query, new_keys = (rotate(y, at) for y in (query, new_keys))
        if place is None:
            keys = ops.concatenate([keys, new_keys], axis=2)
            values = ops.concatenate([values, new_values], axis=2)
            output, _ = self.attention(query, keys, values)
        else:
            position, visible = place
            beam_size = ops.shape(visible)[2]
            query, new_keys, new_values = (
                self._split_heads(ops.reshape(y, (-1, beam_size, self.width)))
                for y in (query, new_keys, new_values)
            )
            at = position * beam_size
            keys = ops.slice_update(keys, (0, 0, 0, at), ops.swapaxes(new_keys, 2, 3))
            values = ops.slice_update(values, (0, 0, at, 0), new_values)
            in_rows = ops.swapaxes(keys, 2, 3)
            places = {"first": position, "shared": beam_size}
            output, _ = self.attention(query, in_rows, values, visible, **places)
            output = self._merge_heads(output)
        return self.output_projection(ops.reshape(output, (-1, self.width))), keys, values
