"""Products with weights in 8-bit whole numbers, which programs of XLA compute sooner."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

Tensor = Any
_LARGEST = 127.0


class Int8(NamedTuple):
    """A matrix: `values [D, V]` int8, and a scale for each of its columns, `[V]` float32."""

    values: Tensor
    scale: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> Int8:
        """Rounds `[D, V]` numbers; each is then off by half the scale of its column."""
        scale = _scale(matrix, axis=0)
        return cls(_rounded(matrix, scale), scale[0])

    def taken(self, ids: Tensor) -> Tensor:
        """Looks up columns: `[...]` int32 -> `[..., D]` float32."""
        values = ops.moveaxis(ops.take(self.values, ids, axis=1), 0, -1)
        return ops.cast(values, "float32") * ops.take(self.scale, ids, axis=0)[..., None]


def _scale(x, axis):
    """Returns float32 of `x`'s rank, with which the largest number of an axis is 127."""
    return ops.maximum(ops.max(ops.abs(x), axis=axis, keepdims=True), 1e-9) / _LARGEST


def _rounded(x, scale):
    return ops.cast(ops.round(x / scale), "int8")


def product(x: Tensor, kernel: Tensor | Int8) -> Tensor:
    """`x [..., D]` times a matrix `[D, V]` -> `[..., V]`.

    With an `Int8`, `x` is rounded to 8 bits, too, by a scale for each of its rows, so a row does
    not depend on the others; sums are exact. Only XLA has fast kernels for this.
    """
    if not isinstance(kernel, Int8):
        return ops.matmul(x, kernel)
    rows = ops.reshape(ops.cast(x, "float32"), (-1, x.shape[-1]))
    scale = _scale(rows, axis=1)
    sums = ops.matmul(_rounded(rows, scale), kernel.values)
    y = ops.cast(sums, "float32") * scale * kernel.scale
    return ops.cast(ops.reshape(y, (*ops.shape(x)[:-1], kernel.values.shape[1])), x.dtype)
