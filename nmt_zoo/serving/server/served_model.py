"""Signatures of an exported model, answered by a `Translator` as translate.py does.

docs/serving.md describes them; `attention_maps` is left out.
"""

import collections
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from nmt_zoo.configuration.options import MAX_LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.confidence import ConfidenceScorer, confidence_of_text
from nmt_zoo.decoding.explorer.sentence import SentenceExplorer
from nmt_zoo.decoding.scoring import make_scorer, score_in_groups
from nmt_zoo.decoding.search.types import NEVER, length_normaliser, padded
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import EMPTY, NO_MEMORY, TOO_LONG, Translator
from nmt_zoo.serving.export.requests_in_graph import DEFAULT
from nmt_zoo.serving.server.json_tensors import FLOAT, INTEGER, STRING

_PAIR = {"source": STRING, "target": STRING}
_CONFIDENCE = dict.fromkeys(("confidence", "word_confidence", "token_log_probs"), FLOAT)
_MOST_TRANSLATORS = 8  # With options of requests; each has graphs of its own.
_MOST_OPTIONS = 2  # Of a request: a new graph takes seconds.
_LONG = 64  # Tokens of a long line: one with more counts as several.


class Signature(NamedTuple):
    """What clients can ask a model for."""

    inputs: dict  # Name -> type, see `json_tensors`; each input has a value for each row.
    outputs: dict  # Name -> type.
    rows: Callable  # (inputs, name -> list) -> rows; raises `HTTPException` to refuse them.
    # (rows, perhaps of several requests) -> for each, name -> value, or an `HTTPException`.
    answers: Callable
    # row -> how many lines take about as long; infinity: no request joins its own.
    cost: Callable = lambda row: 1
    warnings: Callable = lambda inputs, answers: []  # -> list of str.


class _Text(NamedTuple):
    """A text to translate, and how."""

    text: str
    beam_size: int
    length_penalty: float
    n_best: int
    cost: float  # As of `Signature`.


class ServedModel:
    """A model that answers requests; several threads may call it.

    `options` are those of `Translator.of`; their `beam_size` and `length_penalty` are the defaults
    of requests, and no request has a wider beam. `training_text` may be None. `about` says what the
    model is, for people. Without a `temperature`, see `ConfidenceScorer`, answers do not say how
    sure the model is. Translates a line at once, because the first one takes long.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Tokenizer,
        options: dict[str, Any],
        *,
        training_text: TrainingText | None,
        about: str = "",
        temperature: float | None = None,
    ) -> None:
        self.name, self.about = name, about
        self.example = training_text.example if training_text else ""
        self._model, self._tokenizer, self._options = model, tokenizer, options
        self._defaults = _Text("", options["beam_size"], options["length_penalty"], 1, 1)
        self._training_text = training_text
        self._usual = self._make_translator()
        self._translator = functools.lru_cache(_MOST_TRANSLATORS)(self._make_translator)
        self._score = make_scorer(model)
        limit = options["max_input_tokens"]
        scorer = ConfidenceScorer(model, tokenizer, temperature, limit) if temperature else None
        self._confidence: Callable = scorer or (lambda lines, best: [None] * len(lines))
        self._explorer = SentenceExplorer(model, tokenizer, name, temperature=temperature)
        self._explorer.translator = self._usual  # So that its best translation is that of requests.
        self._usual.translate(["A dog runs."])

    def _make_translator(self, **changed):
        return Translator.of(self._model, self._tokenizer, **{**self._options, **changed})

    @property
    def signatures(self) -> dict[str, Signature]:
        """The signatures by name."""
        text = {"text": STRING}
        options = {"beam_size": INTEGER, "length_penalty": FLOAT, "n_best": INTEGER}
        best = {"translation": STRING, "score": FLOAT}
        scores = {"log_prob": FLOAT, "score": FLOAT}
        scores |= {"target_tokens": STRING, "token_log_probs": FLOAT}
        more = (lambda row: row.cost), self._warnings
        of_pairs = self._pairs, self._scores, lambda pair: max(_LONG, *map(len, pair)) / _LONG
        several = text | options, best | {"count": INTEGER}
        return {
            "serving_default": Signature(text, best, self._texts, self._best, *more),
            "translate": Signature(*several, self._texts, self._translations, *more),
            "confidence": Signature(text, {**best, **_CONFIDENCE}, self._texts, self._sure, *more),
            "score": Signature(_PAIR, scores, *of_pairs),
        }

    @property
    def page(self) -> Signature:
        """Answers a line of a text, counted from 0, with a MODEL of `explorer.js`."""
        inputs = {"text": STRING, "line": INTEGER}
        return Signature(inputs, {}, self._line, self._explored, lambda row: math.inf)

    # Translations

    def _texts(self, inputs):
        """Returns a `_Text` for each row; refuses options out of range, and too many of them."""
        rows = []
        for number, values in enumerate(zip(*inputs.values(), strict=True)):
            options = {k: v for k, v in zip(inputs, values, strict=True) if v != DEFAULT}
            row = self._defaults._replace(**options, cost=self._cost(inputs["text"][number]))
            for name, least, most in (
                ("beam_size", 1, self._defaults.beam_size),
                ("length_penalty", 0, MAX_LENGTH_PENALTY),
                ("n_best", 1, row.beam_size),
            ):
                if not least <= (value := getattr(row, name)) <= most:
                    reason = (
                        f"is {value}, not from {least} to {most:g}, or {DEFAULT} for the default"
                    )
                    raise HTTPException(400, f"{name}[{number}] {reason}")
            rows.append(row)
        if len({(row.beam_size, row.length_penalty) for row in rows}) > _MOST_OPTIONS:
            reason = f"more than {_MOST_OPTIONS} pairs of beam_size and length_penalty"
            raise HTTPException(400, f"{reason}; send several requests")
        return rows

    def _cost(self, text):
        """Returns the cost of a text: its lines, or parts that are translated each by itself."""
        lines = _lines(text)
        tokens = map(len, self._tokenizer.source.encode(lines))
        parts = (len(self._usual.in_sentences(line, 1)) for line in lines)
        return sum(max(n, length / _LONG) for n, length in zip(parts, tokens, strict=True))

    def _translations(self, rows):
        """Returns the translations of each `_Text`, the best first."""
        groups = collections.defaultdict(list)
        for number, row in enumerate(rows):
            groups[row.beam_size, row.length_penalty, row.n_best > 1].append(number)
        answers = [{}] * len(rows)
        for (beam_size, length_penalty, _), numbers in groups.items():
            search = {"beam_size": beam_size, "length_penalty": length_penalty}
            is_usual = search.items() <= self._options.items()
            translator = self._usual if is_usual else self._translator(**search, compile=NEVER)
            n_best = max(rows[number].n_best for number in numbers)
            if n_best > 1:  # As translate.py: of a line in parts there is one translation.
                options = translator.options._replace(split_sentences=0)
                translator = Translator(translator.engine, self._tokenizer, options)
            translations = translator.translate([rows[number].text for number in numbers], n_best)
            for number, of_text in zip(numbers, translations, strict=True):
                answers[number] = self._answer(of_text[: rows[number].n_best])
        return answers

    def _answer(self, translations):
        if problem := translations[0].problem:
            limit = self._options["max_input_tokens"]
            reason = f"{problem} of {limit:,} tokens; split it" if problem == TOO_LONG else problem
            return HTTPException(429 if problem == NO_MEMORY else 400, reason)
        return {
            "translation": [translation.text for translation in translations],
            "score": [translation.score for translation in translations],
            "count": len(translations),
        }

    def _best(self, rows):
        """Returns the best translation of each `_Text`."""
        return [
            answer
            if isinstance(answer, HTTPException)
            else {name: answer[name][0] for name in ("translation", "score")}
            for answer in self._translations(rows)
        ]

    def _sure(self, rows):
        """Returns the best translation of each `_Text`, and how sure the model is of it."""
        texts = [self._usual.lines_of(row.text) for row in rows]
        lines, answers = [*itertools.chain(*texts)], []
        results = self._usual.translate(lines)
        pairs = zip(results, self._confidence(lines, [x for x, *_ in results]), strict=True)
        for of_lines in (list(itertools.islice(pairs, len(text))) for text in texts):
            best, *_ = self._usual.of_text([found for found, _ in of_lines])
            sure = confidence_of_text([sure for (line, *_), sure in of_lines if line != EMPTY])
            answer = {"translation": best.text, "score": best.score}
            answer |= zip(_CONFIDENCE, sure or itertools.repeat(None), strict=False)
            answers.append(self._answer([best]) if best.problem else answer)
        return answers

    def _warnings(self, inputs, answers):
        """Returns what is unusual about lines and their best translations, a str for each kind."""
        is_whole = max(inputs.get("n_best", [1])) > 1
        split = () if is_whole else (self._usual.in_sentences,)
        warnings = LineWarnings(self._training_text, *split)
        for text, answer in zip(inputs["text"], answers, strict=True):
            best = answer["translation"]
            best = best if isinstance(best, str) else best[0]
            for line, translation in zip(_lines(text), best.split("\n"), strict=False):
                warnings.add_text(line, translation)
        return list(warnings)

    # The page

    def _line(self, inputs):
        """Returns a line of a text, with its context, as the only row."""
        (text,), (number,) = inputs["text"], inputs["line"]
        lines = self._usual.lines_of(text)
        if not 0 <= number < len(lines):
            raise HTTPException(400, f"line is {number}, not from 0 to {len(lines) - 1}")
        return lines[number : number + 1]

    def _explored(self, rows):
        """Returns `{"model": MODEL of explorer.js}` for each line."""
        return [{"model": self._explorer.explore(line, name="the line")} for line in rows]

    # Pairs of a text and its translation

    def _pairs(self, inputs):
        """Returns `(source ids, target ids)` for each row; refuses long texts."""
        ids, limit = [], self._options["max_input_tokens"]
        for name, side in zip(("source", "target"), self._tokenizer[1:], strict=True):
            ids.append(side.encode(inputs[name]))
            for number, length in enumerate(map(len, ids[-1])):
                if length > limit:
                    reason = f"has {length} tokens and at most {limit} are allowed"
                    raise HTTPException(400, f"{name}[{number}] {reason}; split it")
        return [*zip(*ids, strict=True)]

    def _scores(self, pairs):
        """Returns the values of the signature `score` for each pair of ids."""
        return [*map(self._scored, pairs, score_in_groups(self._log_probs, pairs))]

    def _log_probs(self, *ids):
        return [*self._score(*map(padded, ids)).log_probs.numpy()]

    def _scored(self, pair, log_probs):
        if log_probs is None:
            return HTTPException(429, NO_MEMORY)
        length = len(pair[1])
        log_probs = log_probs[:length]
        if len(pair[0]) == length == 1:
            log_probs = np.zeros(1, np.float32)  # Nothing for nothing is certain.
        log_prob = float(log_probs.sum())
        if math.isnan(log_prob):
            return HTTPException(400, "the model's score is nan: its training diverged")
        return {
            "log_prob": log_prob,
            "score": log_prob / length_normaliser(length, self._defaults.length_penalty),
            "target_tokens": self._tokenizer.target.pieces(pair[1]),
            "token_log_probs": log_probs,
        }


def _lines(text):
    return text.strip().split("\n")
