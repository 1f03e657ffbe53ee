"""Products with weights in 8-bit whole numbers, which programs of XLA compute sooner."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

Tensor = Any
_LARGEST = 127.0


class Int8(NamedTuple):
    """A matrix `[D, V]`: `values [V, D]` int8, and a scale for each of its columns, `[V]` float32.

    Columns are rows of `values`, because processors read them faster so.
    """

    values: Tensor
    scale: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Int8:
        """Rounds a matrix, given as its columns `[V, D]`; each number is off by half a scale."""
        scale = _scale(rows)
        return cls(_rounded(rows, scale), scale[:, 0])

    def taken(self, ids: Tensor) -> Tensor:
        """Looks up columns: `[...]` int32 -> `[..., D]` float32."""
        values = ops.cast(ops.take(self.values, ids, axis=0), "float32")
        return values * ops.take(self.scale, ids, axis=0)[..., None]


def _scale(rows):
    """Returns `[N, 1]` float32: that of each row, which makes its largest number 127."""
    return ops.maximum(ops.max(ops.abs(rows), axis=-1, keepdims=True), 1e-9) / _LARGEST


def _rounded(rows, scale):
    return ops.cast(ops.round(rows / scale), "int8")


def product(x: Tensor, kernel: Tensor | Int8) -> Tensor:
    """`x [..., D]` times a matrix `[D, V]` -> `[..., V]`.

    With an `Int8`, `x` is rounded to 8 bits, too, by a scale for each of its rows, so a row does
    not depend on the others; sums are exact. Only XLA has fast kernels for this.
    """
    if not isinstance(kernel, Int8):
        return ops.matmul(x, kernel)
    rows = ops.reshape(ops.cast(x, "float32"), (-1, x.shape[-1]))
    scale = _scale(rows)
    sums = ops.matmul(_rounded(rows, scale), ops.transpose(kernel.values))
    y = ops.cast(sums, "float32") * scale * kernel.scale
    return ops.cast(ops.reshape(y, (*ops.shape(x)[:-1], kernel.values.shape[0])), x.dtype)
