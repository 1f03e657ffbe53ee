"""The engines that search with a model: in graphs, in programs of XLA, or by its own decoder."""

import contextlib
import functools
import itertools
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow.python.eager import context  # Nothing public does the same.

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    EOS_ID,
    UNK_ID,
    BpeVocabulary,
    Vocabulary,
)
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.compiled import Programs, can_compile, not_compiled
from nmt_zoo.decoding.search.groups import in_halves
from nmt_zoo.decoding.search.phrases import word_joints
from nmt_zoo.decoding.search.precision_choice import FasterEngine
from nmt_zoo.decoding.search.shortlist import check_shortlist
from nmt_zoo.decoding.search.types import (
    ALWAYS,
    NEVER,
    Engine,
    Hypotheses,
    SearchOptions,
    Sentence,
    padded,
)
from nmt_zoo.models.base import Searchable

# Most tokens of a source for which a search without a graph, step by step, takes less time than
# making the graph. This is for a single sentence: the second one makes the graph.
_SHORT = 32
_NOT_INT8 = "--precision=int8: only a plain search is compiled, so leave out {}"
STACK = 25  # Hypotheses of a stack of a decoder, for each hypothesis of the beam.
# Options that change nothing in a decoder, or are followed.
_TAKEN = ("beam_size", "emit_unknowns", "compile")
_REFUSED = (
    "--{}: this model does not translate token by token, and its own search cannot use it; leave "
    "it out"
)


def make_engine(model: Searchable, options: SearchOptions, vocabulary: Vocabulary) -> Engine:
    """Returns what searches with a model, whose target vocabulary is given.

    Raises UserError: the model cannot be searched with an option.
    """
    if model.decoder_class:
        # Vocabularies of pieces are shared by both sides, so unknown pieces can be copied.
        return DecoderEngine(model, options, copies=isinstance(vocabulary, BpeVocabulary))
    make = functools.partial(GraphEngine, options=options, vocabulary=vocabulary)
    if model.rounded and can_compile(model, options):
        return FasterEngine(model, make)
    if model.rounded:
        what = f"--{name}" if (name := not_compiled(options)) else "this model"
        print(f"precision: float32, as XLA compiles no searches with {what}", file=sys.stderr)
    return make(model)


class DecoderEngine:
    """Searches with the decoder that a model gives, as phrase-based models do; an `Engine`.

    With `copies`, the ids of source tokens stand for unknown ones that are linked with them.
    Raises UserError: the decoder cannot follow an option.
    """

    refusal = _REFUSED.format("prefix, --required and --glossary")

    def __init__(self, model: Any, options: SearchOptions, copies: bool = False) -> None:
        self._copies = copies
        for name, usual in SearchOptions._field_defaults.items():
            value = getattr(options, name)
            is_penalty = name == "length_penalty" and value == 0  # As the model's configuration.
            if name not in _TAKEN and value != usual and not is_penalty:
                raise UserError(_REFUSED.format(name))
        self.model, self.options = model, options

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """As `Engine`; scores are those of the model, and log-probabilities only in name."""
        results, sources = [], [sentence.source_ids for sentence in sentences]
        searched = self.model.decoder().search(
            sources, n_best=n_best, beam_size=STACK * self.options.beam_size
        )
        for source, translations in zip(sources, searched, strict=True):
            ids = [
                [*translation.words(source, UNK_ID), EOS_ID] if self._copies else translation.ids
                for translation in translations
            ]
            ids = padded(ids or [[EOS_ID]])
            scores = [translation.score for translation in translations] or [-1e9]
            scores = np.array(scores, np.float32)
            results.append(Hypotheses(ids, scores, scores, np.ones(scores.size, bool)))
        return results


class GraphEngine:
    """Searches with a model that extends hypotheses token by token; an `Engine`."""

    def __init__(self, model: Searchable, options: SearchOptions, vocabulary: Vocabulary) -> None:
        self.refusal = ""
        if options.shortlist is not None:
            self.refusal = check_shortlist(model, options)
        self._is_quantised = model.is_quantised
        if self._is_quantised:
            if name := not_compiled(options):
                raise UserError(_NOT_INT8.format(f"--{name}"))
            self.refusal = _NOT_INT8.format("--prefix, --required and --glossary")
            options = options._replace(compile=ALWAYS)
        self.model = model
        self.options = options
        self.vocabulary = vocabulary
        self._graphs = {}  # By the names of their inputs, and whether for one sentence alone.
        self._lock = threading.Lock()
        self._is_first = True
        self._programs = None
        if options.compile != NEVER and can_compile(model, options):
            self._programs = Programs(model, options)

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """As `Engine`; a batch that does not fit into memory is halved, again and again if need be.

        Draws are in the order in which they were drawn, and the first ones do not depend on how
        many there are.
        """
        if not self.options.sample:
            run = functools.partial(self._run, n_best=n_best)
            return in_halves(run, sentences, [0] * len(sentences))
        numbered = [(sentence, k) for sentence in sentences for k in range(n_best)]
        draws = in_halves(self._run, *zip(*numbered, strict=True))
        by_sentence = [draws[start : start + n_best] for start in range(0, len(draws), n_best)]
        return [None if any(d is None for d in own) else _together(own) for own in by_sentence]

    def _run(self, sentences, draws, n_best=1):
        """Searches a batch; `draws` are the numbers of draws, counted from 0."""
        inputs = self._inputs(sentences, draws)
        sources = [sentence.source_ids for sentence in sentences]
        width, is_alone = max(map(len, sources)), len(sources) == 1
        size = (
            self._programs.size_for(len(sources), width) if self._programs and not inputs else None
        )
        if self._is_quantised and not size:
            half = len(sources) // 2
            parts = (sentences[:half], draws[:half]), (sentences[half:], draws[half:])
            return [found for part in parts for found in self._run(*part, n_best)]
        if size and self._programs.are_ready(size):
            hypotheses = self._programs.run(size, sources, n_best)
        else:
            start, search = time.monotonic(), self._graph(tuple(inputs), is_alone)
            executor = contextlib.nullcontext()
            if is_alone and self._is_first and width <= _SHORT:
                self._is_first, search = False, search.python_function
            elif is_alone:
                # Without TensorFlow's queue of operations, which costs more than the small
                # operations of one sentence: 1.3 to 1.5 times as fast.
                executor = context.function_executor_type("SINGLE_THREADED_EXECUTOR")
            with executor:
                hypotheses = search(padded(sources), n_best, *([inputs] if inputs else []))
            if size:
                self._programs.spend(size, time.monotonic() - start)
        rows = zip(*(tensor.numpy() for tensor in hypotheses), strict=True)
        # A program returns rows of padding, too.
        return [Hypotheses(*row) for row in itertools.islice(rows, len(sentences))]

    def _inputs(self, sentences, draws):
        """Returns the further inputs of a graph, see `beam_search.make_search`."""
        inputs = {}
        if any(sentence.prefix for sentence in sentences):
            inputs["prefix"] = padded([sentence.prefix for sentence in sentences])
        if any(sentence.required for sentence in sentences):
            most = max(len(sentence.required) for sentence in sentences)
            lists = [[*s.required, *[()] * (most - len(s.required))] for s in sentences]
            phrases = padded([*itertools.chain(*lists)])
            inputs["required"] = phrases.reshape(len(sentences), most, -1)  # [B, R, L]
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
