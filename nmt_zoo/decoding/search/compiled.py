"""The search in programs that XLA compiles, each for one size.

A step of a small model is hundreds of small operations, and TensorFlow needs more time to start
them than to compute them. XLA makes one program of a whole search, but its tensors have fixed
sizes. So sentences and source tokens are padded to one of a few sizes. For larger batches, the
graph is faster. `beam_search` describes the search, and both find the same.
"""

import bisect
import collections
import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nmt_zoo.common.cores import give_way
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.extension import extend, make_setup, ranked, start
from nmt_zoo.decoding.search.largest import compiled_top_k
from nmt_zoo.decoding.search.types import (
    ALWAYS,
    Hypotheses,
    SearchOptions,
    SentenceOptions,
)
from nmt_zoo.models.base import Searchable

# The sizes of programs: sentences, and tokens of a source.
ROWS = (1, 2)
WIDTHS = (16, 32, 64, 128)
# A translation is seldom longer than its source and these tokens. Until it is, caches have no room
# for more, because each step moves them.
_MORE = 16
# Seconds that a graph takes for the searches of a size before its program is compiled, which takes
# 2 to 5 seconds: little is lost if no further sentence comes.
_PAYS = 3.0
# Most weights that are constants of a program. Otherwise each call hands them over, which takes at
# least half a millisecond, an eighth of the time of a sentence by `transformer_tiny`.
_FEW = 1 << 22
_TRIALS = 30  # Searches by the graph and by a program whose times are compared.
OPTIONS = SentenceOptions(
    beam_size=tf.TensorSpec([None], tf.int32),
    length_penalty=tf.TensorSpec([None], tf.float32),
    n_best=tf.TensorSpec([None], tf.int32),
)


class Size(NamedTuple):
    """The size of a program."""

    rows: int
    width: int


def size_for(num_sentences: int, width: int) -> Size | None:
    """Returns the size for a batch and its most source tokens; None: no program is that large."""
    if num_sentences > ROWS[-1] or width > WIDTHS[-1]:
        return None
    return Size(
        ROWS[bisect.bisect_left(ROWS, num_sentences)], WIDTHS[bisect.bisect_left(WIDTHS, width)]
    )


class CompiledSearch:
    """A search like `beam_search.beam_search`, compiled by XLA.

    `model.can_compile`; no option of the search changes the scores of tokens.
    With `each_sentence`, `n_best` are `SentenceOptions`. With `is_fixed`, the weights, unless they
    are many, are constants of the programs; a SavedModel gains nothing by that.
    """

    def __init__(
        self,
        model: Searchable,
        options: SearchOptions,
        *,
        each_sentence: bool = False,
        is_fixed: bool = False,
    ) -> None:
        self.options = options
        self._model = model
        precomputed = [v for tensors in model.precomputed() for v in tensors.variables]
        weights = [*model.variables, *precomputed]
        are_few = sum(math.prod(weight.shape) for weight in weights) <= _FEW
        self._constants = weights if is_fixed and are_few else []
        # Traced once for all sizes; XLA compiles each size when it first occurs.
        n_best = OPTIONS if each_sentence else tf.TensorSpec([], tf.int32)
        signature = [tf.TensorSpec([None, None], tf.int32), n_best]
        self.program = tf.function(
            self._traced, input_signature=signature, jit_compile=True, autograph=False
        )

    def __call__(
        self,
        source_ids: tf.Tensor,
        n_best: tf.Tensor | SentenceOptions,
        otherwise: Callable[..., Hypotheses],
    ) -> Hypotheses:
        """Searches in a graph, as `otherwise`, which gets batches that are larger than programs."""
        count, width = tf.unstack(tf.shape(source_ids))

        def search():
            rows, wanted = _at_least(count, ROWS), n_best
            ids = _grown(_grown(source_ids, 0, rows, PAD_ID), 1, _at_least(width, WIDTHS), PAD_ID)
            if isinstance(n_best, SentenceOptions):
                wanted = SentenceOptions(*(_grown(values, 0, rows, 1) for values in n_best))
            hypotheses = self.program(ids, wanted)
            ids = hypotheses.ids[:count, :, : tf.reduce_max(self._limits(source_ids))]
            return Hypotheses(ids, *(leaf[:count] for leaf in hypotheses[1:]))

        fits = (count <= ROWS[-1]) & (width <= WIDTHS[-1])
        return tf.cond(fits, search, lambda: otherwise(source_ids, n_best))

    def _limits(self, source_ids):
        """Returns `[B]` int32, most tokens of each translation; 0 for padding."""
        lengths = tf.math.count_nonzero(source_ids - PAD_ID, axis=1, dtype=tf.int32)
        return tf.where(lengths > 0, self.options.max_length(lengths), 0)

    def _traced(self, source_ids, n_best):
        with tf.init_scope():
            values = [(weight, weight.numpy()) for weight in self._constants]
        with keras.StatelessScope(values):
            return self._searched(source_ids, n_best)

    def _searched(self, source_ids, n_best):
        """As `beam_search`."""
        model, options = self._model, self.options
        setup = make_setup(model, options, compiled_top_k)
        rows, width = tf.unstack(tf.shape(source_ids))
        limits, longest = self._limits(source_ids), options.max_length(width)
        wanted = SentenceOptions.of(options, n_best, rows)
        sentences, (state, none) = start(setup, model.encode(source_ids), limits, longest, wanted)

        def extended(step, hypotheses, state, done):
            before = sentences._replace(hypotheses=hypotheses)
            new, (state, _), must_leave, certain = extend(setup, before, step, (state, none))
            new = tf.nest.map_structure(
                lambda old, new: tf.where(
                    tf.reshape(done, [-1, *[1] * (new.shape.rank - 1)]), old, new
                ),
                hypotheses,
                new,
            )
            return step + 1, new, state, done | must_leave | certain

        variables = tf.constant(0), sentences.hypotheses, state, limits == 0
        for max_length in tf.minimum(width + _MORE, longest), longest:

            def condition(step, hypotheses, state, done, max_length=max_length):
                return (step < max_length) & ~tf.reduce_all(done)

            step, hypotheses, state, done = variables
            state = model.with_max_length(state, max_length)
            variables = tf.while_loop(condition, extended, (step, hypotheses, state, done))
        return ranked(setup, sentences, variables[1])


class Programs:
    """The programs of a search that are compiled so far; `when` is one of `types.COMPILE`.

    With `AUTO`, a program that is slower than the graph, as happens if large models have one thread
    for an operation, is given up. Several threads may call it.
    """

    def __init__(self, search: CompiledSearch, when: str) -> None:
        self._search = search
        self._is_always_ready = when == ALWAYS
        self._ready = set()
        self._times = collections.defaultdict(_Times)  # By size.
        self._lock = threading.Lock()

    def are_ready(self, size: Size) -> bool:
        return self._is_always_ready or size in self._ready

    def run(self, size: Size, sources: Sequence[Sequence[int]], n_best: int) -> Hypotheses:
        """Searches sentences, given as ids; returns tensors, of which rows and T are padded."""
        source_ids = np.full(size, PAD_ID, np.int32)
        for row, source in zip(source_ids, sources, strict=False):
            row[: len(source)] = source
        began = time.monotonic()
        hypotheses = self._search.program(tf.constant(source_ids), tf.constant(n_best))
        if sources:
            self._compare(size, time.monotonic() - began)
        return hypotheses

    def spend(self, size: Size, seconds: float) -> None:
        """Counts the time of a graph for a search of this size; compiles behind it if that pays."""
        with self._lock:
            times = self._times[size]
            before, times.spent = times.spent, times.spent + seconds
            times.of_graph.append(seconds)
        if before < _PAYS <= times.spent:
            threading.Thread(target=self._compile, args=(size,), name="compile").start()

    def _compile(self, size):
        give_way()
        self.run(size, [], 1)
        self._ready.add(size)

    def _compare(self, size, seconds):
        with self._lock:
            times = self._times[size]
            times.of_program.append(seconds)
            if len(times.of_program) < _TRIALS or not times.of_graph:
                return
            if statistics.median(times.of_program) > statistics.median(times.of_graph):
                self._ready.discard(size)


class _Times:
    """Seconds of the last searches of a size, and of all by the graph."""

    def __init__(self):
        self.of_graph, self.of_program = (collections.deque(maxlen=_TRIALS) for _ in range(2))
        self.spent = 0.0


def _at_least(number, sizes):
    """Returns the smallest of the sizes that is at least a number."""
    return tf.gather(tf.constant(sizes), tf.searchsorted(tf.constant(sizes), [number])[0])


def _grown(values, axis, size, value=0):
    """Appends equal values, so that an axis has `size` entries."""
    sizes = [[0, 0] for _ in values.shape]
    sizes[axis][1] = size - tf.shape(values)[axis]
    return tf.pad(values, sizes, constant_values=tf.cast(value, values.dtype))
