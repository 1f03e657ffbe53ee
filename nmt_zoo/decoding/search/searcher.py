"""The search as a graph, and around it what each sentence asks for."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from nmt_zoo.common.tensorflow_private import context
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Vocabulary,
)
from nmt_zoo.decoding.search.beam_search import beam_search
from nmt_zoo.decoding.search.compiled import EACH, CompiledSearch, Programs, size_for
from nmt_zoo.decoding.search.constrained import GIVEN, Constrained, is_constrained
from nmt_zoo.decoding.search.groups import in_halves, search_in_groups
from nmt_zoo.decoding.search.phrases import word_joints
from nmt_zoo.decoding.search.shortlist import Shortlisted
from nmt_zoo.decoding.search.terms import (
    NEVER,
    EachSentence,
    Guests,
    Hypotheses,
    SearchOptions,
    Sentence,
    SpecialIds,
    padded,
)
from nmt_zoo.models.base import Searchable

# Most tokens of a source for which a search without a graph, step by step, takes less time than
# making the graph. This is for a single sentence: the second one makes the graph.
_SHORT = 32


def make_search(
    model: Searchable,
    options: SearchOptions,
    given: Sequence[str] = (),
    joints: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    each_sentence: bool = False,
) -> Callable[..., Hypotheses]:
    """Returns the search as a graph: `([B, S] int32 source ids, n_best) -> Hypotheses`.

    A batch may mix sentences of very different lengths. `n_best`, int32 scalar, is as in
    `beam_search`; with `each_sentence`, an `EachSentence` takes its place. `given` names further
    inputs, of `decoding.search.constrained.GIVEN`; a dict of them is then the graph's third
    argument. `joints` are `phrases.word_joints`, needed if phrases are required.
    """
    special_ids = _special_ids(options)
    signature = [
        tf.TensorSpec([None, None], tf.int32, name="source_ids"),
        EACH if each_sentence else tf.TensorSpec([], tf.int32, name="n_best"),
    ]
    if given:
        signature.append({name: GIVEN[name] for name in given})

    # AutoGraph has nothing to convert here, and would take a second to find that out.
    @tf.function(input_signature=signature, autograph=False)
    def search(source_ids, n_best, inputs=None):
        inputs = inputs or {}

        def search_group(source_ids, limits, rows):
            searched, guests = model, Guests()
            if options.shortlist is not None:
                width = 2 * options.beam_size + len(special_ids.never)
                searched = Shortlisted(model, options.shortlist, source_ids, width)
                guests = Guests(tokens=searched.tokens)
            elif is_constrained(options, given):
                here = {name: tf.gather(value, rows) for name, value in inputs.items()}
                searched = Constrained(model, options, special_ids, limits, here, joints)
                guests = searched.guests()
            asked = n_best
            if each_sentence:
                asked = EachSentence(*(tf.gather(values, rows) for values in n_best))
            return beam_search(
                searched,
                source_ids,
                limits=limits,
                options=options,
                special_ids=special_ids,
                n_best=asked,
                guests=guests,
            )

        lengths = tf.reduce_sum(tf.cast(source_ids != PAD_ID, tf.int32), axis=1)
        limits = options.room(lengths)
        for name in ("prefix", "required"):
            if name in inputs:
                tokens = tf.reshape(inputs[name], [tf.shape(lengths)[0], -1])
                limits += tf.math.count_nonzero(tokens - PAD_ID, axis=1, dtype=tf.int32)
        return search_in_groups(search_group, source_ids, limits, options.beam_size, PAD_ID)

    return search


def compiled_search(
    model: Searchable, options: SearchOptions, **how: bool
) -> CompiledSearch | None:
    """Returns the search in programs; None if the model or an option cannot be compiled.

    `how` are further arguments of `CompiledSearch`.
    """
    is_plain = options.shortlist is None and not is_constrained(options, ())
    if not (model.can_compile and is_plain):
        return None
    return CompiledSearch(model, options, _special_ids(options), **how)


def _special_ids(options):
    return SpecialIds(PAD_ID, BOS_ID, EOS_ID, () if options.emit_unknowns else (UNK_ID,))


class Searcher:
    """Searches batches of sentences; `compiles` is one of `terms.COMPILE`."""

    def __init__(
        self,
        model: Searchable,
        options: SearchOptions,
        vocabulary: Vocabulary,
        seed: int = 0,
        compiles: str = NEVER,
    ) -> None:
        self.model = model
        self.options = options
        self.vocabulary = vocabulary
        self.seed = seed
        self._graphs = {}  # By the names of their inputs, and whether for one sentence alone.
        self._lock = threading.Lock()
        self._is_first = True
        search = None
        if compiles != NEVER:
            search = compiled_search(model, options, is_fixed=True)
        self._programs = Programs(search, compiles) if search else None

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """Returns the `Hypotheses` of each sentence of a batch, arrays without the axis B.

        A batch that does not fit into memory is halved, again and again if need be; None stands for
        a sentence that does not fit even alone. Draws are in the order in which they were drawn,
        and the first ones do not depend on how many there are.
        """
        if not self.options.sample:
            return self._search(sentences, [0] * len(sentences), n_best)
        draws = [(sentence, k) for sentence in sentences for k in range(n_best)]
        found = self._search(*zip(*draws, strict=True), 1)
        each = [found[start : start + n_best] for start in range(0, len(found), n_best)]
        return [None if any(one is None for one in some) else _together(some) for some in each]

    def _search(self, sentences, places, n_best):
        """As `search`; `places` are the numbers of draws, counted from 0."""

        def search(sentences, places):
            arrays = [tensor.numpy() for tensor in self._run(sentences, places, n_best)]
            rows = zip(*arrays, strict=True)  # A compiled search returns rows of padding, too.
            found = [Hypotheses(*row) for row in itertools.islice(rows, len(sentences))]
            return [self._without_rewards(one) for one in found]

        return in_halves(search, sentences, places)

    def _without_rewards(self, found):
        """Returns `Hypotheses` whose log-probabilities are the model's alone."""
        if not self.options.word_reward:
            return found
        num_words = np.sum((found.ids != PAD_ID) & (found.ids != EOS_ID), axis=-1)
        return found._replace(log_probs=found.log_probs - self.options.word_reward * num_words)

    def _run(self, sentences, places, n_best):
        given = {}
        if any(sentence.prefix for sentence in sentences):
            given["prefix"] = padded([sentence.prefix for sentence in sentences])
        if any(sentence.required for sentence in sentences):
            given["required"] = _padded_phrases([sentence.required for sentence in sentences])
        if self.options.sample:
            most = max(self.options.room(len(s.source_ids)) + len(s.prefix) for s in sentences)
            given["noise"] = np.stack(
                [
                    np.random.default_rng(
                        [self.seed, s.number, place, *([s.part] if s.part else [])]
                    ).integers(-(2**31), 2**31, most, np.int32)
                    for s, place in zip(sentences, places, strict=True)
                ]
            )
        sources = [sentence.source_ids for sentence in sentences]
        if given or not self._programs:
            return self._run_graph(sources, n_best, given)
        if not (size := size_for(len(sources), max(map(len, sources)))):
            return self._run_graph(sources, n_best, given)
        if self._programs.are_ready(size):
            return self._programs.run(size, sources, n_best)
        start = time.monotonic()
        found = self._run_graph(sources, n_best, given)
        self._programs.spend(size, time.monotonic() - start)
        return found

    def _run_graph(self, sources, n_best, given):
        is_alone = len(sources) == 1
        search = self._graph(tuple(given), is_alone)
        inputs = [padded(sources), n_best, *([given] if given else [])]
        if not is_alone:
            return search(*inputs)
        if self._is_first and inputs[0].shape[1] <= _SHORT:
            self._is_first = False
            return search.python_function(*inputs)
        # Without TensorFlow's queue of operations, which costs more than the small operations of
        # one sentence: 1.3 to 1.5 times as fast.
        with context.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return search(*inputs)

    def _graph(self, names, is_alone):
        """Returns the graph with further inputs of these names, made at its first use."""
        with self._lock:
            if (names, is_alone) not in self._graphs:
                joints = word_joints(self.vocabulary) if "required" in names else None
                graph = make_search(self.model, self.options, names, joints)
                self._graphs[names, is_alone] = graph
            return self._graphs[names, is_alone]


def _together(draws):
    """Joins draws of a sentence, `Hypotheses` of one each."""
    most = max(draw.ids.shape[1] for draw in draws)
    ids = [np.pad(d.ids, [(0, 0), (0, most - d.ids.shape[1])]) for d in draws]
    others = [np.concatenate(leaves) for leaves in zip(*(draw[1:] for draw in draws), strict=True)]
    return Hypotheses(np.concatenate(ids), *others)


def _padded_phrases(sentences):
    """Pads lists of lists of ids to one `[B, R, L]` int32 array."""
    most = max(map(len, sentences))
    every = [phrase for some in sentences for phrase in [*some, *[()] * (most - len(some))]]
    return padded(every).reshape(len(sentences), most, -1)
