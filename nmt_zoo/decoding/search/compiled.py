"""The search in programs that XLA compiles, each for one size.

A step of a small model is hundreds of small operations, and TensorFlow needs more time to start
them than to compute them. XLA makes one program of a whole search, but its tensors have fixed
sizes. So sentences and source tokens are padded to one of a few sizes, and half of a large batch
leaves once, when it is done. `beam_search` describes the search, and both find the same.
"""

import bisect
import collections
import functools
import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_zoo.common.memory import give_back
from nmt_zoo.common.parallel import give_way
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.extension import Setup, extend, ranked, start
from nmt_zoo.decoding.search.groups import MAX_TARGET_POSITIONS
from nmt_zoo.decoding.search.largest import compiled_top_k
from nmt_zoo.decoding.search.types import ALWAYS, Hypotheses, SearchOptions, SentenceOptions
from nmt_zoo.models.base import Searchable

# The sizes of programs: sentences, and tokens of a source.
ROWS = (1, 2, 8, 32)
WIDTHS = tuple(16 << n for n in range(20))  # More than any source has.
WIDEST = 128  # For several sentences.
_FEWEST_TO_LEAVE = 8  # Sentences of the smallest program that half of them leave.
# A translation is seldom longer than its source and these tokens. Until it is, caches have no room
# for more, because each step reads them.
_MORE = 16
# Seconds of searches of a size by a graph before its program is compiled, which takes 2 to 5. The
# programs of more sentences need threads that graphs are better without: only on request.
_PAYS = 3.0
# Most weights that are constants of a program. Otherwise each call hands them over, which takes at
# least half a millisecond, an eighth of the time of a sentence by `transformer_tiny`.
_FEW = 1 << 22
_TRIALS = 30  # Searches by the graph and by a program whose times are compared.
# Options of searches that change the scores of tokens, and are not compiled.
_PROCESSED = ("min_length_factor", "no_repeat_ngram", "sample", "rules", "banned", "shortlist")


def not_compiled(options: SearchOptions) -> str:
    """Returns the name of an option with which XLA cannot compile a search; "" if it has none."""
    return next((name for name in _PROCESSED if getattr(options, name)), "")


def can_compile(model: Searchable, options: SearchOptions) -> bool:
    """Returns whether XLA can compile a search."""
    return model.can_compile and not not_compiled(options)


class Programs:
    """A search like `beam_search`, in programs of which some are compiled so far.

    `options.compile` says when. With `AUTO`, a program that is slower than the graph, as happens if
    large models have one thread for an operation, is given up. Several threads may call it.
    """

    def __init__(self, model: Searchable, options: SearchOptions) -> None:
        self._model, self._options = model, options
        self._is_quantised, self._least = model.is_quantised, _least(model, options)
        precomputed = [v for tensors in model.precomputed() for v in tensors.variables]
        weights = [*model.variables, *precomputed]
        are_few = sum(math.prod(weight.shape) for weight in weights) <= _FEW
        self._constants = weights if are_few else []
        # Traced once for all small sizes, and once for the others, which sentences leave; XLA
        # compiles each size when it first occurs.
        self._few, self._many = _few_and_many(
            self._traced,
            input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32)],
        )
        self._ready = set()
        self._spent = collections.Counter()  # Seconds of all searches by the graph, by size.
        # Seconds of the last searches, by size and whether a program made them.
        self._times = collections.defaultdict(lambda: collections.deque(maxlen=_TRIALS))
        self._lock = threading.Lock()

    def size_for(self, num_sentences: int, width: int) -> tuple[int, int] | None:
        """Returns the program size for a batch and its most source tokens; None: it is too large.

        A program has room for the longest translations from the start. In 8 bits, sources that are
        alone may have any length.
        """
        is_alone = self._is_quantised and num_sentences == 1
        rows = bisect.bisect_left(ROWS, max(num_sentences, self._least))
        if rows == len(ROWS) or (width > WIDEST and not is_alone):
            return None
        size = ROWS[rows], WIDTHS[bisect.bisect_left(WIDTHS, width)]
        positions = size[0] * self._options.beam_size * self._options.max_length(size[1])
        return size if is_alone or positions <= MAX_TARGET_POSITIONS else None

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
        program = self._many if size[0] >= _FEWEST_TO_LEAVE else self._few
        hypotheses = program(tf.constant(source_ids), tf.constant(n_best))
        if sources:
            with self._lock:
                of_graph, of_program = (self._times[size, compiled] for compiled in (False, True))
                of_program.append(time.monotonic() - began)
                if len(of_program) == 1:
                    give_back()  # What compiling it took.
                is_known = len(of_program) == _TRIALS and of_graph
                if is_known and statistics.median(of_program) > statistics.median(of_graph):
                    self._ready.discard(size)
        return hypotheses

    def spend(self, size: tuple[int, int], seconds: float) -> None:
        """Counts the time of a graph for a search of this size; compiles behind it if that pays."""
        with self._lock:
            before, self._spent[size] = self._spent[size], self._spent[size] + seconds
            self._times[size, False].append(seconds)
            pays = before < _PAYS <= self._spent[size] and size[0] < _FEWEST_TO_LEAVE
        if pays:
            threading.Thread(target=self._compile, args=(size,), name="compile").start()

    def _compile(self, size):
        give_way()
        self.run(size, [], 1)
        self._ready.add(size)

    def _traced(self, leave, source_ids, n_best):
        with tf.init_scope():
            values = [(weight, weight.numpy()) for weight in self._constants]
        wanted = SentenceOptions.of(self._options, n_best, tf.shape(source_ids)[0])
        with keras.StatelessScope(values):
            return _searched(self._model, self._options, leave, source_ids, wanted)


class ProgramsInGraph:
    """Programs that a graph calls, such as a SavedModel: all are compiled at their first use.

    A call searches a group of sentences, as `search_in_groups` asks for.
    """

    def __init__(self, model: Searchable, options: SearchOptions) -> None:
        self._least, self._options = _least(model, options), options
        self._few, self._many = _few_and_many(functools.partial(_searched, model, options))

    def most_sentences(self, longest: tf.Tensor) -> tf.Tensor:
        """Returns how many sentences of at most `longest` tokens a program takes, as `size_for`."""
        rows, length = tf.constant(ROWS), self._options.max_length(_at_least(longest, WIDTHS))
        fit = rows * self._options.beam_size * length <= MAX_TARGET_POSITIONS
        return tf.reduce_max(tf.where(fit & (longest <= WIDEST), rows, 1))

    def __call__(
        self, wanted: SentenceOptions, source_ids: tf.Tensor, limits: tf.Tensor, rows: tf.Tensor
    ) -> Hypotheses:
        """Searches `[A, S]` ids in places `rows [A]` of a batch, whose options are `wanted`."""
        count, width = tf.unstack(tf.shape(source_ids))
        more = _at_least(tf.maximum(count, self._least), ROWS) - count
        wider = [[0, more], [0, _at_least(width, WIDTHS) - width]]
        given = (
            tf.pad(source_ids, wider, constant_values=PAD_ID),
            tf.nest.map_structure(
                lambda leaf: tf.pad(tf.gather(leaf, rows), [[0, more]], constant_values=1), wanted
            ),
        )
        hypotheses = tf.cond(
            count + more >= _FEWEST_TO_LEAVE, lambda: self._many(*given), lambda: self._few(*given)
        )
        found = Hypotheses(*(values[:count] for values in hypotheses))
        most = tf.reduce_max(limits)
        ids, log_probs = found.ids[:, :, :most], found.token_log_probs[:, :, :most]
        return found._replace(ids=ids, token_log_probs=log_probs)


def _at_least(size, sizes):
    """Returns the first of ascending sizes that is not less, int32 scalar."""
    return tf.gather(sizes, tf.searchsorted(tf.constant(sizes), size[None])[0])


def _least(model, options):
    """Returns the fewest sentences of a program: kernels in 8 bits need two rows of numbers."""
    return 2 if model.is_quantised and options.beam_size == 1 else 1


def _few_and_many(searched: Callable, **how: Any) -> list[Callable]:
    """Makes programs of `searched`, whose first argument is whether half of the sentences leave."""
    return [
        tf.function(functools.partial(searched, leave), jit_compile=True, autograph=False, **how)
        for leave in (False, True)
    ]


def _searched(model, options, leave, source_ids, wanted):
    """Searches `[B, S]` ids, of which whole rows may be padding; the body of a program."""
    setup = Setup(model, options, compiled_top_k)
    rows, width = tf.unstack(tf.shape(source_ids))
    lengths = tf.math.count_nonzero(source_ids - PAD_ID, axis=1, dtype=tf.int32)
    limits = tf.where(lengths > 0, options.max_length(lengths), 0)  # 0 for rows of padding.
    longest = options.max_length(width)
    sentences, (state, none) = start(setup, model.encode(source_ids), limits, longest, wanted)
    variables = tf.constant(0), sentences.hypotheses, state, limits == 0

    def run(sentences, variables, max_length, most_left=0):
        """Extends the hypotheses until so many sentences are left, or to a length."""

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

        def goes_on(step, hypotheses, state, done):
            left = tf.math.count_nonzero(~done, dtype=tf.int32)
            return (step < max_length) & (left > most_left)

        step, hypotheses, state, done = variables
        state = model.with_max_length(state, max_length, options.beam_size)
        return tf.while_loop(goes_on, extended, (step, hypotheses, state, done))

    for max_length in (tf.minimum(width + _MORE, longest), longest):
        variables = run(sentences, variables, max_length, rows // 2 if leave else 0)
    step, hypotheses, state, done = variables
    if not leave:
        return ranked(setup, sentences, hypotheses)
    order = tf.argsort(tf.cast(done, tf.int32), stable=True)
    left, gone = order[: rows // 2], order[rows // 2 :]

    def taken(leaves, places):
        def take(leaf):  # Some have a row for each sentence, others for each hypothesis.
            sentences = tf.reshape(leaf, [rows, -1, *tf.unstack(tf.shape(leaf))[1:]])
            chosen = tf.gather(sentences, places)
            return tf.reshape(chosen, [-1, *tf.unstack(tf.shape(leaf))[1:]])

        return tf.nest.map_structure(take, leaves)

    of_left = taken(sentences, left)
    variables = step, taken(hypotheses, left), taken(state, left), tf.gather(done, left)
    others = taken(hypotheses, gone)
    found = run(of_left, variables, longest)[1]
    back = tf.argsort(order)
    both = tf.nest.map_structure(
        lambda *parts: tf.gather(tf.concat(parts, axis=0), back), found, others
    )
    return ranked(setup, sentences, both)
