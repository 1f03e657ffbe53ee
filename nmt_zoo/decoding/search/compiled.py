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
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from nmt_zoo.common.parallel import give_way
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.extension import Setup, extend, ranked, start
from nmt_zoo.decoding.search.largest import compiled_top_k
from nmt_zoo.decoding.search.types import ALWAYS, Hypotheses, SearchOptions, SentenceOptions
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
# Options of searches that change the scores of tokens.
_PROCESSED = ("min_length_factor", "no_repeat_ngram", "coverage_penalty", "sample", "rules")
_PROCESSED += ("word_reward", "banned")


def can_compile(model: Searchable, options: SearchOptions) -> bool:
    """Returns whether XLA can compile a search."""
    is_plain = options.shortlist is None and not any(getattr(options, n) for n in _PROCESSED)
    return model.can_compile and is_plain


def size_for(num_sentences: int, width: int) -> tuple[int, int] | None:
    """Returns the program size for a batch and its most source tokens; None: it is too large."""
    if num_sentences > ROWS[-1] or width > WIDTHS[-1]:
        return None
    return (
        ROWS[bisect.bisect_left(ROWS, num_sentences)],
        WIDTHS[bisect.bisect_left(WIDTHS, width)],
    )


class Programs:
    """A search like `beam_search`, in programs of which some are compiled so far.

    `options.compile` says when. With `AUTO`, a program that is slower than the graph, as happens if
    large models have one thread for an operation, is given up. Several threads may call it.
    """

    def __init__(self, model: Searchable, options: SearchOptions) -> None:
        self._model, self._options = model, options
        precomputed = [v for tensors in model.precomputed() for v in tensors.variables]
        weights = [*model.variables, *precomputed]
        are_few = sum(math.prod(weight.shape) for weight in weights) <= _FEW
        self._constants = weights if are_few else []
        # Traced once for all sizes; XLA compiles each size when it first occurs.
        signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32)]
        self._program = tf.function(
            self._traced, input_signature=signature, jit_compile=True, autograph=False
        )
        self._ready = set()
        self._spent = collections.Counter()  # Seconds of all searches by the graph, by size.
        # Seconds of the last searches, by size and whether a program made them.
        self._times = collections.defaultdict(lambda: collections.deque(maxlen=_TRIALS))
        self._lock = threading.Lock()

    def are_ready(self, size: tuple[int, int]) -> bool:
        return self._options.compile == ALWAYS or size in self._ready

    def run(
        self, size: tuple[int, int], sources: Sequence[Sequence[int]], n_best: int
    ) -> Hypotheses:
        """Searches sentences, given as ids; returns tensors, of which rows and T are padded."""
        source_ids = np.full(size, PAD_ID, np.int32)
        for row, source in zip(source_ids, sources, strict=False):
            row[: len(source)] = source
        began = time.monotonic()
        hypotheses = self._program(tf.constant(source_ids), tf.constant(n_best))
        if sources:
            with self._lock:
                of_graph, of_program = (self._times[size, compiled] for compiled in (False, True))
                of_program.append(time.monotonic() - began)
                is_known = len(of_program) == _TRIALS and of_graph
                if is_known and statistics.median(of_program) > statistics.median(of_graph):
                    self._ready.discard(size)
        return hypotheses

    def spend(self, size: tuple[int, int], seconds: float) -> None:
        """Counts the time of a graph for a search of this size; compiles behind it if that pays."""
        with self._lock:
            before, self._spent[size] = self._spent[size], self._spent[size] + seconds
            self._times[size, False].append(seconds)
            pays = before < _PAYS <= self._spent[size]
        if pays:
            threading.Thread(target=self._compile, args=(size,), name="compile").start()

    def _compile(self, size):
        give_way()
        self.run(size, [], 1)
        self._ready.add(size)

    def _traced(self, source_ids, n_best):
        with tf.init_scope():
            values = [(weight, weight.numpy()) for weight in self._constants]
        with keras.StatelessScope(values):
            return self._searched(source_ids, n_best)

    def _searched(self, source_ids, n_best):
        model, options = self._model, self._options
        setup = Setup(model, options, compiled_top_k)
        rows, width = tf.unstack(tf.shape(source_ids))
        lengths = tf.math.count_nonzero(source_ids - PAD_ID, axis=1, dtype=tf.int32)
        limits = tf.where(lengths > 0, options.max_length(lengths), 0)  # 0 for rows of padding.
        longest = options.max_length(width)
        wanted = SentenceOptions.of(options, n_best, rows)
        sentences, (state, none) = start(setup, model.encode(source_ids), limits, longest, wanted)

        def extended(step, hypotheses, state, done):
            step, new, (state, _), must_leave, certain = extend(
                setup, sentences, step, hypotheses, (state, none)
            )
            new = tf.nest.map_structure(
                lambda old, new: tf.where(
                    tf.reshape(done, [-1, *[1] * (new.shape.rank - 1)]), old, new
                ),
                hypotheses,
                new,
            )
            return step, new, state, done | must_leave | certain

        variables = tf.constant(0), sentences.hypotheses, state, limits == 0
        for max_length in tf.minimum(width + _MORE, longest), longest:

            def condition(step, hypotheses, state, done, max_length=max_length):
                return (step < max_length) & ~tf.reduce_all(done)

            step, hypotheses, state, done = variables
            state = model.with_max_length(state, max_length, options.beam_size)
            variables = tf.while_loop(condition, extended, (step, hypotheses, state, done))
        return ranked(setup, sentences, variables[1])
