"""How fast this processor is, measured with plain operations of the sizes of a model."""

import math
import time

import numpy as np
import tensorflow as tf

from nmt_zoo.training.reports.work import Operation

_AT_A_TIME = 4  # Products that do not wait for each other, as in the backward pass.
_LARGEST = 2048  # Longer axes are cut: the rate of a product hardly grows with them.
_PASSES = 8  # Passes over an array, one after the other, on each of two arrays.
_SECONDS = 0.05  # Least seconds of a measurement.


class Here:
    """This processor: rates are measured when they are first asked for, and kept.

    A product has the rate of products of its sizes. All else is bound by memory: it moves as many
    bytes a second as sums and products of two arrays that are about as large.
    """

    def __init__(self) -> None:
        self._rates = {}

    def seconds(self, operation: Operation) -> tuple[float, float]:
        """Returns (seconds of a product, 0), or (0, seconds of another operation)."""
        if operation.product:
            sizes = tuple(min(size, _LARGEST) for size in operation.product)
            rate = self._rate(_products, sizes, operation.precision)
            return operation.floats / rate, 0.0
        numbers = 2 ** max(10, min(24, round(math.log2(operation.largest / 4))))
        return 0.0, operation.moved / self._rate(_passes, numbers)

    def _rate(self, make, *sizes):
        if (make, sizes) not in self._rates:
            self._rates[make, sizes] = _per_second(*make(*sizes))
        return self._rates[make, sizes]


def _products(sizes, precision):
    """Returns (function of arrays, arrays, floating-point operations) of products."""
    batch, rows, inner, columns = sizes
    shapes = [(batch, rows, inner), (batch, inner, columns)] * _AT_A_TIME
    arrays = [tf.cast(each, precision) for each in _random(shapes if batch > 1 else _flat(shapes))]

    def multiply(*arrays):
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        return [tf.reshape(tf.matmul(a, b), [-1])[0] for a, b in pairs]

    return multiply, arrays, 2 * math.prod(sizes) * _AT_A_TIME


def _passes(numbers):
    """Returns (function of arrays, arrays, bytes moved) of sums and products of two arrays."""

    def passes(*arrays):
        found = []
        for x, y in (arrays[:2], arrays[2:]):
            for i in range(_PASSES):
                x = x * y if i % 2 else x + y
            found.append(x[0])
        return found

    return passes, _random([(numbers,)] * 4), 2 * _PASSES * 3 * 4 * numbers


def _flat(shapes):
    return [shape[1:] for shape in shapes]


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
