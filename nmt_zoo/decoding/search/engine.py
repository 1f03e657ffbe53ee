"""The search as a graph, and the engine that runs it, as programs of XLA where that pays."""

import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context  # Nothing public does the same.

from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID, Vocabulary
from nmt_zoo.decoding.search.beam_search import beam_search
from nmt_zoo.decoding.search.compiled import OPTIONS, CompiledSearch, Programs, size_for
from nmt_zoo.decoding.search.decoder_engine import DecoderEngine
from nmt_zoo.decoding.search.groups import in_halves, search_in_groups
from nmt_zoo.decoding.search.phrases import word_joints
from nmt_zoo.decoding.search.processors import (
    Coverage,
    Processor,
    at_least,
    bar_repeated_ngrams,
    begin_with,
    drawn,
)
from nmt_zoo.decoding.search.required import RequiredPhrases
from nmt_zoo.decoding.search.shortlist import Shortlisted, check_shortlist
from nmt_zoo.decoding.search.types import (
    NEVER,
    Engine,
    Hypotheses,
    SearchOptions,
    Sentence,
    padded,
)
from nmt_zoo.models.base import Searchable

# Inputs of a graph that belong to its sentences, besides their ids.
_INPUTS = {
    "prefix": tf.TensorSpec([None, None], tf.int32),  # [B, P], how a translation begins; padded.
    "required": tf.TensorSpec([None, None, None], tf.int32),  # [B, R, L], phrases; padded.
    "noise": tf.TensorSpec([None, None], tf.int32),  # [B, T], random 32 bits for each draw.
}
# Options of searches with processors.
_PROCESSED = ("min_length_factor", "no_repeat_ngram", "coverage_penalty", "sample", "rules")
_PROCESSED += ("word_reward", "banned")
# Most tokens of a source for which a search without a graph, step by step, takes less time than
# making the graph. This is for a single sentence: the second one makes the graph.
_SHORT = 32


def make_engine(model: Searchable, options: SearchOptions, vocabulary: Vocabulary) -> Engine:
    """Returns what searches with a model, whose target vocabulary is given.

    Raises UserError: the model cannot be searched with an option.
    """
    if model.decoder_class:
        return DecoderEngine(model, options)
    return GraphEngine(model, options, vocabulary)


def make_search(
    model: Searchable,
    options: SearchOptions,
    inputs: Sequence[str] = (),
    joints: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    each_sentence: bool = False,
) -> Callable[..., Hypotheses]:
    """Returns the search as a graph: `([B, S] int32 source ids, n_best) -> Hypotheses`.

    A batch may mix sentences of very different lengths. `n_best`, int32 scalar, is as in
    `beam_search`; with `each_sentence`, `SentenceOptions` take its place. `inputs` names further
    inputs, of `_INPUTS`; a dict of them is then the graph's third argument. `joints` are
    `phrases.word_joints`, needed if phrases are required.
    """
    signature: list[Any] = [
        tf.TensorSpec([None, None], tf.int32, name="source_ids"),
        OPTIONS if each_sentence else tf.TensorSpec([], tf.int32, name="n_best"),
    ]
    if inputs:
        signature.append({name: _INPUTS[name] for name in inputs})

    # AutoGraph has nothing to convert here, and would take a second to find that out.
    @tf.function(input_signature=signature, autograph=False)
    def search(source_ids, n_best, inputs=None):
        lengths = tf.reduce_sum(tf.cast(source_ids != PAD_ID, tf.int32), axis=1)
        limits, inputs, wanted_ids = options.max_length(lengths), inputs or {}, None
        wanted = [inputs[name] for name in ("prefix", "required") if name in inputs]
        if wanted:
            wanted = [tf.reshape(ids, [tf.shape(lengths)[0], -1]) for ids in wanted]
            wanted_ids = tf.concat(wanted, axis=1)
            limits += tf.math.count_nonzero(wanted_ids - PAD_ID, axis=1, dtype=tf.int32)

        def search_group(source_ids, limits, rows):
            def of_group(values):
                return tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), values)

            searched, columns = model, None
            if options.shortlist is not None:
                width = 2 * options.beam_size + len(options.never)
                searched = Shortlisted(model, options.shortlist, source_ids, width)
                columns = searched.tokens
            return beam_search(
                searched,
                source_ids,
                limits=limits,
                options=options,
                n_best=of_group(n_best) if each_sentence else n_best,
                **_rules(options, source_ids, limits, of_group(inputs), joints),
                wanted_ids=None if wanted_ids is None else of_group(wanted_ids),
                columns=columns,
            )

        return search_in_groups(search_group, source_ids, limits, options.beam_size)

    return search


def _rules(options, source_ids, limits, inputs, joints) -> dict[str, Any]:
    """Returns the processors and followers of a batch, the strictest last: none undoes a prefix."""
    is_token = source_ids != PAD_ID
    processors: list[Processor] = []
    followers: dict[str, Any] = {}
    if options.min_length_factor:
        lengths = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
        least = tf.cast(options.min_length_factor * tf.cast(lengths, tf.float32), tf.int32)
        processors.append(at_least(tf.minimum(least, limits)))
    if size := options.no_repeat_ngram:
        processors.append(lambda scores, p: bar_repeated_ngrams(scores, p.ids, size))
    if "required" in inputs:
        followers["required"] = RequiredPhrases(inputs["required"], limits, joints)
        processors.append(followers["required"])
    if options.banned is not None:
        followers["banned"] = options.banned
        processors.append(options.banned)
    processors += [rule.process for rule in options.rules]
    if "prefix" in inputs:
        processors.append(begin_with(inputs["prefix"]))
    if options.coverage_penalty:
        is_word = is_token & (source_ids != EOS_ID)
        followers["coverage"] = Coverage(is_word, options.coverage_penalty)
    if options.sample:
        how = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
        processors.append(drawn(inputs["noise"], **how))
    return {"processors": processors, "followers": followers}


def compiled_search(
    model: Searchable, options: SearchOptions, **how: bool
) -> CompiledSearch | None:
    """Returns the search in programs; None if the model or an option cannot be compiled.

    `how` are further arguments of `CompiledSearch`.
    """
    is_plain = options.shortlist is None and not any(getattr(options, n) for n in _PROCESSED)
    if not (model.can_compile and is_plain):
        return None
    return CompiledSearch(model, options, **how)


class GraphEngine:
    """Searches with a model that extends hypotheses token by token; a `types.Engine`."""

    def __init__(self, model: Searchable, options: SearchOptions, vocabulary: Vocabulary) -> None:
        self.refusal = ""
        if options.shortlist is not None:
            self.refusal = check_shortlist(model, options)
        self.model = model
        self.options = options
        self.vocabulary = vocabulary
        self._graphs = {}  # By the names of their inputs, and whether for one sentence alone.
        self._lock = threading.Lock()
        self._is_first = True
        search = None
        if options.compile != NEVER:
            search = compiled_search(model, options, is_fixed=True)
        self._programs = Programs(search, options.compile) if search else None

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """As `Engine`; a batch that does not fit into memory is halved, again and again if need be.

        Draws are in the order in which they were drawn, and the first ones do not depend on how
        many there are.
        """
        if not self.options.sample:
            run = functools.partial(self._run, n_best=n_best)
            return in_halves(run, sentences, [0] * len(sentences))
        draws = [(sentence, k) for sentence in sentences for k in range(n_best)]
        drawn = in_halves(self._run, *zip(*draws, strict=True))
        by_sentence = [drawn[start : start + n_best] for start in range(0, len(drawn), n_best)]
        return [None if any(d is None for d in some) else _together(some) for some in by_sentence]

    def _run(self, sentences, draws, n_best=1):
        """Searches a batch; `draws` are the numbers of draws, counted from 0."""
        inputs = self._inputs(sentences, draws)
        sources = [sentence.source_ids for sentence in sentences]
        size = None
        if self._programs and not inputs:
            size = size_for(len(sources), max(map(len, sources)))
        if size and self._programs.are_ready(size):
            hypotheses = self._programs.run(size, sources, n_best)
        else:
            start = time.monotonic()
            hypotheses = self._run_graph(sources, n_best, inputs)
            if size:
                self._programs.spend(size, time.monotonic() - start)
        ids, log_probs, *others = (tensor.numpy() for tensor in hypotheses)
        if self.options.word_reward:  # Log-probabilities are the model's alone.
            num_words = np.sum((ids != PAD_ID) & (ids != EOS_ID), axis=-1)
            log_probs = log_probs - self.options.word_reward * num_words
        rows = zip(ids, log_probs, *others, strict=True)
        # A program returns rows of padding, too.
        return [Hypotheses(*row) for row in itertools.islice(rows, len(sentences))]

    def _inputs(self, sentences, draws):
        """Returns the further inputs of a graph, see `_INPUTS`."""
        inputs = {}
        if any(sentence.prefix for sentence in sentences):
            inputs["prefix"] = padded([sentence.prefix for sentence in sentences])
        if any(sentence.required for sentence in sentences):
            inputs["required"] = _padded_phrases([sentence.required for sentence in sentences])
        if self.options.sample:
            lengths = [
                self.options.max_length(len(s.source_ids)) + len(s.prefix) for s in sentences
            ]
            seeds = (
                [self.options.seed, s.number, draw, *([s.part] if s.part else [])]
                for s, draw in zip(sentences, draws, strict=True)
            )
            generators = map(np.random.default_rng, seeds)
            noise = [g.integers(-(2**31), 2**31, max(lengths), np.int32) for g in generators]
            inputs["noise"] = np.stack(noise)
        return inputs

    def _run_graph(self, sources, n_best, inputs):
        is_alone = len(sources) == 1
        search = self._graph(tuple(inputs), is_alone)
        arguments = [padded(sources), n_best, *([inputs] if inputs else [])]
        if not is_alone:
            return search(*arguments)
        if self._is_first and arguments[0].shape[1] <= _SHORT:
            self._is_first = False
            return search.python_function(*arguments)
        # Without TensorFlow's queue of operations, which costs more than the small operations of
        # one sentence: 1.3 to 1.5 times as fast.
        with context.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return search(*arguments)

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
    longest = max(draw.ids.shape[1] for draw in draws)
    ids = [np.pad(d.ids, [(0, 0), (0, longest - d.ids.shape[1])]) for d in draws]
    others = [np.concatenate(leaves) for leaves in zip(*(draw[1:] for draw in draws), strict=True)]
    return Hypotheses(np.concatenate(ids), *others)


def _padded_phrases(sentences):
    """Pads lists of lists of ids to one `[B, R, L]` int32 array."""
    most = max(map(len, sentences))
    phrases = [phrase for own in sentences for phrase in [*own, *[()] * (most - len(own))]]
    return padded(phrases).reshape(len(sentences), most, -1)
