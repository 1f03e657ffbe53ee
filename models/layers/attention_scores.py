"""Attention with one head and a choice of score functions, as used in recurrent models.

Luong et al. 2015, section 3.1, and Bahdanau et al. 2015, section 3.1 and appendix A.1.2.
"""

from functools import partial
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor, dense_weights
from nmt_zoo.models.layers.basic import Composite, Dense
from nmt_zoo.models.layers.masks import masked_softmax
from nmt_zoo.models.layers.same_shape import matmul, times

SCORES = ("dot", "multiplicative", "reduced_rank", "additive")


@ops.custom_gradient
def _additive(query, keys, vector):
    """`v^T tanh(q_t + m_s)`: `[B, T, k]`, `[B, S, k]`, `[k, 1]` -> `[B, T, S]`.

    The gradient is written out for the reasons given in `same_shape`, and because XLA cannot
    compile TensorFlow's gradient of this function inside a loop.
    """
    hidden = ops.tanh(query[:, :, None, :] + keys[:, None, :, :])  # [B, T, S, k]

    def gradient(upstream):
        upstream = upstream[..., None]
        of_sum = upstream * vector[:, 0] * (1 - hidden * hidden)
        of_vector = ops.sum(upstream * hidden, axis=(0, 1, 2))[:, None]
        return ops.sum(of_sum, axis=2), ops.sum(of_sum, axis=1), of_vector

    return ops.squeeze(ops.matmul(hidden, vector), -1), gradient


@keras.saving.register_keras_serializable("nmt_zoo")
class SourceAttention(Composite):
    """Weights `softmax_s score(h, m_s)` of the memory's vectors m_s for a query h, and their mean.

    Scores, none of them scaled, as in the papers:

    * dot: `h^T m_s`, `ValueError` unless h and m_s have one size
    * multiplicative: `h^T W m_s`
    * reduced_rank: `(U h)^T (V m_s)` with k rows in U and V, which is the multiplicative score with
      W of rank k; if k is the width of the vectors, this is attention with query and key matrices
    * additive: `v^T tanh(W h + U m_s)`, W and U with k rows

    `rank` is k; 0 stands for `query_width`. `value_width` is the size of a matrix product of m_s
    that is averaged instead of m_s; 0 averages m_s itself.
    Example:
        >>> layer = SourceAttention("additive", query_width=4, memory_width=6)
        >>> layer.build()
        >>> keys, values = layer.project_memory(ops.ones((2, 5, 6)))
        >>> mean, weights = layer(ops.ones((2, 3, 4)), keys, values, ops.ones((2, 1, 5), "bool"))
        >>> mean.shape, weights.shape
        (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(
        self,
        score: str,
        query_width: int,
        memory_width: int,
        rank: int = 0,
        value_width: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}, found {score!r}")
        if score == "dot" and query_width != memory_width:
            raise ValueError(
                "score=dot needs queries and memory of one size, found "
                f"query_width={query_width}, memory_width={memory_width}"
            )
        self.score = score
        rank = rank or query_width
        matrix = partial(Dense, use_bias=False, dtype=self.dtype_policy)
        # Makes the initial scores, sums of k terms, so small that the softmax is not saturated at
        # first, and neither matrix so small that an update changes all of it. The other scores
        # start small without help. Each layer draws its own values.
        spread = {"scale": rank**-0.5, "mode": "fan_avg", "distribution": "uniform"}
        spread = {"class_name": "VarianceScaling", "config": spread}
        self.query = {
            "reduced_rank": matrix(query_width, rank, name="query", kernel_initializer=spread),
            "additive": matrix(query_width, rank, name="query"),
        }.get(score)
        self.memory = {
            "multiplicative": matrix(memory_width, query_width, name="memory"),
            "reduced_rank": matrix(memory_width, rank, name="memory", kernel_initializer=spread),
            "additive": matrix(memory_width, rank, name="memory"),
        }.get(score)
        self.vector = matrix(rank, 1, name="vector") if score == "additive" else None
        self.value = matrix(memory_width, value_width, name="value") if value_width else None

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Computes all that depends on `memory [B, S, memory_width]` alone: keys and values.

        Keys are `[B, S, k]` for "additive", `[B, k, S]` for the other scores, so that no step has
        to transpose them. Values are `[B, S, memory_width or value_width]`.
        """
        keys = memory if self.memory is None else self.memory(memory)
        values = memory if self.value is None else self.value(memory)
        return (keys if self.score == "additive" else ops.transpose(keys, (0, 2, 1))), values

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """`query [B, T, query_width]`, keys from `project_memory` -> `[B, T, S]`."""
        if self.query is not None:
            query = times(ops.cast(query, self.compute_dtype), dense_weights(self.query)[0])
        if self.score != "additive":
            return matmul(query, keys)
        return _additive(query, keys, dense_weights(self.vector)[0])

    def call(
        self, query: Tensor, keys: Tensor, values: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`query [B, T, query_width]` -> means `[B, T, size of the values]` and weights.

        The weights are `[B, T, S]` float32. `keys` and `values` are from `project_memory`;
        `attention_mask` is bool, broadcastable to `[B, T, S]`, True where attention is allowed.
        """
        weights = masked_softmax(self.scores(query, keys), attention_mask)
        return matmul(ops.cast(weights, self.compute_dtype), values), weights
