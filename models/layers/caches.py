"""Caches of a decoding step: tensors with an entry for each target position so far."""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor


def appended(cache: Tensor, new: Tensor, axis: int, position: Tensor | None = None) -> Tensor:
    """Returns a cache with a new entry on an axis, at which `new` has the size 1.

    `position`, scalar int32, is its place in a cache of fixed size; None: the cache grows.
    """
    if position is None:
        return ops.concatenate([cache, new], axis=axis)
    sizes = [1] * len(cache.shape)
    sizes[axis] = ops.shape(cache)[axis]
    return ops.where(ops.reshape(ops.arange(sizes[axis]) == position, sizes), new, cache)


def seen(cache: Tensor, axis: int, position: Tensor | None = None) -> Tensor | None:
    """Returns `[T]` bool, True for the T places of an axis up to `position`; None if it is None."""
    return None if position is None else ops.arange(ops.shape(cache)[axis]) <= position


def padded(caches: Any, axis: int, size: int | Tensor, value: int = 0) -> Any:
    """Returns caches, nested in any way, filled with a value up to a size of an axis."""

    def pad(x):
        sizes = [[0, 0] for _ in x.shape]
        sizes[axis][1] = size - ops.shape(x)[axis]
        return ops.pad(x, sizes, constant_values=value)

    return keras.tree.map_structure(pad, caches)
