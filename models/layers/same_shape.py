"""Arithmetic of tensors of equal shapes, for loops over time.

The gradients of `+`, `*`, `where` and batched matrix products have to undo broadcasting. If the
batch size is unknown, TensorFlow checks at every step whether operands were broadcast, and its
loops store the shapes of all operands for this check. With small states, that is more work than the
recurrence itself. The functions here assume that no operand was broadcast, so their gradients need
no check.
"""

from keras import ops

from nmt_zoo.models.base import Tensor


@ops.custom_gradient
def add(a: Tensor, b: Tensor) -> Tensor:
    def gradient(upstream):
        return upstream, upstream

    return ops.add(a, b), gradient


@ops.custom_gradient
def multiply(a: Tensor, b: Tensor) -> Tensor:
    def gradient(upstream):
        return ops.multiply(upstream, b), ops.multiply(upstream, a)

    return ops.multiply(a, b), gradient


@ops.custom_gradient
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`[..., n, k]` times `[..., k, m]` -> `[..., n, m]`; the leading axes must be equal."""

    def gradient(upstream):
        of_a = ops.matmul(upstream, ops.swapaxes(b, -1, -2))
        return of_a, ops.matmul(ops.swapaxes(a, -1, -2), upstream)

    return ops.matmul(a, b), gradient


@ops.custom_gradient
def times(a: Tensor, kernel: Tensor) -> Tensor:
    """`[..., k]` times one matrix `[k, m]` -> `[..., m]`."""

    def gradient(upstream):
        of_a = ops.matmul(upstream, ops.transpose(kernel))
        rows = ops.reshape(a, (-1, kernel.shape[0])), ops.reshape(upstream, (-1, kernel.shape[1]))
        return of_a, ops.matmul(ops.transpose(rows[0]), rows[1])

    return ops.matmul(a, kernel), gradient


def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`where(condition, a, b)`; only the bool condition may be broadcast."""

    @ops.custom_gradient
    def choose(a, b):
        def gradient(upstream):
            zeros = ops.zeros_like(upstream)
            return ops.where(condition, upstream, zeros), ops.where(condition, zeros, upstream)

        return ops.where(condition, a, b), gradient

    return choose(a, b)
