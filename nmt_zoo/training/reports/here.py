"""How fast this processor is, measured with plain operations of the sizes of a model."""

import itertools
import math
import time

import numpy as np
import tensorflow as tf

from nmt_zoo.training.reports.work import Operation

_AT_A_TIME = 4  # Products that do not wait for each other, as in the backward pass.
_LARGEST = 2048  # Longer axes are cut: the rate of a product hardly grows with them.
_ARRAYS = 6  # Of which each pass takes two, that the last pass did not leave in a cache.
_SECONDS = 0.05  # Least seconds of a measurement.


class Here:
    """This processor: rates are measured when they are first asked for, and kept.

    A product has the rate of products of its sizes. All else is bound by memory: it moves as many
    bytes a second as multiplying the numbers of two arrays that are about as large.
    """

    def __init__(self) -> None:
        self._rates = {}

    def seconds(self, operation: Operation) -> tuple[float, float, float]:
        """Returns seconds as `Accelerator.seconds`; nothing is fused here."""
        if operation.product:
            sizes = tuple(min(size, _LARGEST) for size in operation.product)
            turned = operation.turned or (False, False)
            rate = self._rate(_products, sizes, turned, operation.precision)
            return operation.floats / rate, 0.0, 0.0
        numbers = 2 ** max(10, min(22, round(math.log2(operation.largest / 4))))
        return 0.0, operation.moved / self._rate(_passes, numbers), 0.0

    def _rate(self, make, *sizes):
        if (make, sizes) not in self._rates:
            self._rates[make, sizes] = _per_second(*make(*sizes))
        return self._rates[make, sizes]


def _products(sizes, turned, precision):
    """Returns (function of arrays, arrays, floating-point operations) of products."""
    batch, rows, inner, columns = sizes
    shapes = (rows, inner), (inner, columns)
    shapes = [shape[::-1] if flip else shape for shape, flip in zip(shapes, turned, strict=True)]
    shapes = [(batch, *shape) if batch > 1 else shape for shape in shapes] * _AT_A_TIME
    arrays = [tf.cast(array, precision) for array in _random(shapes)]

    def multiply(*arrays):
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        flip = dict(zip(("transpose_a", "transpose_b"), turned, strict=True))
        return [tf.reshape(tf.matmul(a, b, **flip), [-1])[0] for a, b in pairs]

    return multiply, arrays, 2 * math.prod(sizes) * _AT_A_TIME


def _passes(numbers):
    """Returns (function of arrays, arrays, bytes moved) of products of numbers, pair by pair."""
    arrays = _random([(numbers,)] * _ARRAYS)
    pairs = [*itertools.combinations(range(_ARRAYS), 2)]

    def multiply(*arrays):
        return [(arrays[a] * arrays[b])[0] for a, b in pairs]

    return multiply, arrays, len(pairs) * 3 * 4 * numbers


def _random(shapes):
    rng = np.random.default_rng(1)
    return [tf.constant(rng.random(shape, np.float32)) for shape in shapes]


def _per_second(function, arrays, amount):
    """Returns an amount divided by the median time of a function that does so much."""
    function = tf.function(function, autograph=False).get_concrete_function(*arrays)
    function(*arrays)
    seconds, began = [], time.perf_counter()
    while not seconds or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        function(*arrays)
        seconds.append(time.perf_counter() - start)
    return amount / float(np.median(seconds))
