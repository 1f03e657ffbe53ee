"""Arithmetic of tensors of one shape, for loops over time.

The gradients of `+`, `*`, `where` and batches of products have to undo broadcasting. Where the
batch size is unknown, TensorFlow looks up at every step whether there was any, and its loops keep
the shapes of all operands for that: with small states, more work than the recurrence itself. The
functions here say that there was none.
"""

from keras import ops


@ops.custom_gradient
def add(a, b):
    """`a + b`."""

    def gradient(upstream):
        return upstream, upstream

    return ops.add(a, b), gradient


@ops.custom_gradient
def multiply(a, b):
    """`a * b`."""

    def gradient(upstream):
        return ops.multiply(upstream, b), ops.multiply(upstream, a)

    return ops.multiply(a, b), gradient


@ops.custom_gradient
def matmul(a, b):
    """`[..., n, k]` and `[..., k, m]`, the axes in front being the same -> `[..., n, m]`."""

    def gradient(upstream):
        of_a = ops.matmul(upstream, ops.swapaxes(b, -1, -2))
        return of_a, ops.matmul(ops.swapaxes(a, -1, -2), upstream)

    return ops.matmul(a, b), gradient


@ops.custom_gradient
def times(a, kernel):
    """`[..., k]` times one matrix `[k, m]`."""

    def gradient(upstream):
        of_a = ops.matmul(upstream, ops.transpose(kernel))
        rows = ops.reshape(a, (-1, kernel.shape[0])), ops.reshape(upstream, (-1, kernel.shape[1]))
        return of_a, ops.matmul(ops.transpose(rows[0]), rows[1])

    return ops.matmul(a, kernel), gradient


def where(condition, a, b):
    """`where(condition, a, b)`; the condition alone, bool, may be broadcast."""

    @ops.custom_gradient
    def choose(a, b):
        def gradient(upstream):
            zeros = ops.zeros_like(upstream)
            return ops.where(condition, upstream, zeros), ops.where(condition, zeros, upstream)

        return ops.where(condition, a, b), gradient

    return choose(a, b)
