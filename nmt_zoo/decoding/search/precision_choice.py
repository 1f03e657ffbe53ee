"""Chooses between a model in float32 and its copy in 8 bits by the speed of both."""

import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from nmt_zoo.decoding.search.types import Engine, Hypotheses, Sentence
from nmt_zoo.models.base import Searchable
from nmt_zoo.models.layers.products import Int8, product

# Largest mean difference of the scores of the first sentences with which 8 bits are good enough.
MOST_DIFFERENCE = 0.1
_ROWS, _WIDTH, _COLUMNS = 32, 256, 2048  # Of the product that shows whether kernels are fast.


class FasterEngine:
    """Searches with a model, or with its copy in 8 bits if the first batch says so; an `Engine`.

    `make` returns the engine of a model. The model's other engines follow the choice, about which
    a line is printed.
    """

    def __init__(self, model: Searchable, make: Callable[[Searchable], Engine]) -> None:
        self._model, self._exact = model, make(model)
        self.options, self.refusal = self._exact.options, self._exact.refusal
        self._rounded = functools.cache(lambda: make(model.rounded()))
        self._lock = threading.Lock()

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        if any(sentence.prefix or sentence.required for sentence in sentences):
            return self._exact.search(sentences, n_best)  # XLA compiles no such searches.
        with self._lock:
            if self._model.takes_rounded is None:
                self._model.takes_rounded, why = self._compared(sentences)
                name = "int8" if self._model.takes_rounded else "float32"
                print(f"precision: {name}, {why}", file=sys.stderr)
                if not self._model.takes_rounded:
                    self._rounded = self._model.rounded = None  # Frees the copy.
            engine = self._rounded() if self._model.takes_rounded else self._exact
        return engine.search(sentences, n_best)

    def _compared(self, sentences):
        """Returns whether to take 8 bits, and why."""
        if (gain := kernels_gain()) < 1:
            return False, f"as products in int8 take {1 / gain:.1f} times as long here"
        engines = self._exact, self._rounded()
        found, seconds = zip(
            *(_timed(lambda e=e: e.search(sentences, 1), 3) for e in engines), strict=True
        )
        scores = [[best.scores[0] for best in each if best is not None] for each in found]
        if len(scores[0]) != len(scores[1]):
            return False, "as the first batch does not fit into memory"
        difference = float(np.mean(np.abs(np.subtract(*scores))))
        if not difference <= MOST_DIFFERENCE:
            return False, f"as scores in int8 differ by {difference:.3f}, above {MOST_DIFFERENCE}"
        gain = seconds[0] / seconds[1]
        why = f"as int8 is {gain:.2f} times as fast here; scores differ by {difference:.4f}"
        return gain > 1, why


def _timed(work, times):
    """Calls a function, which may compile at first; returns its result and its shortest time."""
    result, seconds = work(), []
    for _ in range(times):
        began = time.monotonic()
        work()
        seconds.append(time.monotonic() - began)
    return result, min(seconds)


def kernels_gain() -> float:
    """Returns how many times as fast a compiled product is in 8 bits, in about a second."""
    generator = np.random.default_rng(0)
    x, kernel = (
        tf.constant(generator.standard_normal(shape, np.float32))
        for shape in ((_ROWS, _WIDTH), (_WIDTH, _COLUMNS))
    )
    seconds = []
    for each in (kernel, Int8.of(kernel)):
        compiled = tf.function(lambda x, each=each: product(x, each), jit_compile=True)
        seconds.append(_timed(lambda compiled=compiled: compiled(x).numpy(), 20)[1])
    return seconds[0] / seconds[1]
