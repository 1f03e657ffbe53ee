"""The signatures of an exported model, answered by a `Translator` as translate.py does.

`serving.export.saved_model` describes them.
"""

import collections
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from nmt_zoo.configuration.options import MAX_LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.explorer.page import model_data
from nmt_zoo.decoding.explorer.sentence import maps_of, with_alignment
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.types import length_normaliser, padded
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import NO_MEMORY, TOO_LONG, Translator
from nmt_zoo.serving.export.request_checks import DEFAULT
from nmt_zoo.serving.export.saved_model import MAX_WEIGHTS
from nmt_zoo.serving.server.json_tensors import FLOAT, INTEGER, STRING


class Signature(NamedTuple):
    """What clients can ask a model for.

    The functions of a request are called in their order; those that raise `HTTPException` refuse
    it.
    """

    inputs: dict  # Name -> type, see `json_tensors`; each input has a value for each row.
    outputs: dict  # Name -> (type, sizes of its axes, -1 for any size).
    rows: Callable  # (inputs, name -> list) -> rows; may raise `HTTPException`.
    answers: Callable  # (rows, perhaps of several requests) -> an answer for each.
    values: Callable  # (number of a row, answer) -> name -> value; may raise `HTTPException`.
    warnings: Callable = lambda inputs, answers: []  # -> list of str.


class _Text(NamedTuple):
    """A text to translate, and how."""

    text: str
    beam_size: int
    length_penalty: float
    n_best: int


class _Pair(NamedTuple):
    """A text and its translation, as text and as ids with `</s>`."""

    texts: tuple
    ids: tuple


class ServedModel:
    """A model that answers requests; several threads may call it.

    `translator_for`, of a beam size and a length penalty, returns a `Translator` of the model;
    `defaults` are those of requests, and no request has a wider beam. A request has at most
    `max_sentences`, counted in parts that are translated each by itself. `training_text` may be
    None.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        translator_for: Callable[[int, float], Translator],
        *,
        defaults: tuple[int, float],
        max_sentences: int,
        training_text: TrainingText | None,
    ) -> None:
        self.name = name
        self.n_best = min(defaults[0], 4)  # Translations that the page shows.
        self._model = model
        self._translator_for = translator_for
        self._defaults = _Text("", *defaults, n_best=1)
        self._max_sentences = max_sentences
        self._training_text = training_text
        self._usual = translator_for(*defaults)
        self._tokenizer = self._usual.tokenizer
        self._max_tokens = self._usual.options.max_input_tokens
        self._score = make_scorer(model)

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """The signatures by name."""
        text = {"text": STRING}
        options = {"beam_size": INTEGER, "length_penalty": FLOAT, "n_best": INTEGER}
        best = {"translation": (STRING, [-1]), "score": (FLOAT, [-1])}
        several = {"translation": (STRING, [-1, -1]), "score": (FLOAT, [-1, -1])}
        several["count"] = (INTEGER, [-1])
        translating = {"rows": self._texts, "answers": self._translations}
        translating["warnings"] = self._warnings
        pair = {"source": STRING, "target": STRING}
        scores = {"log_prob": (FLOAT, [-1]), "score": (FLOAT, [-1])}
        scores |= {"target_tokens": (STRING, [-1, -1]), "token_log_probs": (FLOAT, [-1, -1])}
        signatures = {
            "serving_default": Signature(text, best, values=self._best, **translating),
            "translate": Signature(text | options, several, values=self._several, **translating),
            "score": Signature(pair, scores, self._pairs, self._scores, self._scored),
        }
        if self._heads:
            maps = {name: (FLOAT, [-1, heads, -1, -1]) for name, heads in self._heads.items()}
            tokens = dict.fromkeys(("source_tokens", "target_tokens"), (STRING, [-1, -1]))
            steps = self._pairs_to_draw, self._maps, lambda _, values: values
            signatures["attention_maps"] = Signature(pair, tokens | maps, *steps)
        return signatures

    @property
    def explorer(self) -> Signature:
        """The attention between a pair as data of `explorer.js`, for the page."""
        pair = {"source": STRING, "target": STRING}
        return Signature(pair, {}, self._pairs_to_draw, self._explored, lambda _, data: data)

    @functools.cached_property
    def _heads(self):
        """The number of heads of each attention map by its name."""
        nothing = np.array([[EOS_ID]], np.int32)
        maps = self._model.attention_maps(nothing, nothing)
        return {name: weights.shape[1] for name, weights in maps.items()}

    # Translations

    def _texts(self, inputs):
        """Returns a `_Text` for each row; refuses options out of range, and too many sentences."""
        texts = inputs["text"]
        lines = [line for text in texts for line in _lines(text)]
        num_sentences = sum(len(self._usual.in_sentences(line, 1)) for line in lines)
        if num_sentences > self._max_sentences:
            raise HTTPException(
                400,
                f"{num_sentences} lines or sentences, at most {self._max_sentences} are possible; "
                "send several requests",
            )
        names, rows = [*inputs], []
        for number, values in enumerate(zip(*inputs.values(), strict=True)):
            options = {k: v for k, v in zip(names, values, strict=True) if v != DEFAULT}
            row = self._defaults._replace(**options)
            _check_range(number, "beam_size", row.beam_size, 1, self._defaults.beam_size)
            _check_range(number, "length_penalty", row.length_penalty, 0, MAX_LENGTH_PENALTY)
            _check_range(number, "n_best", row.n_best, 1, row.beam_size)
            rows.append(row)
        return rows

    def _translations(self, rows):
        """Returns the translations of each `_Text`, the best first."""
        groups = collections.defaultdict(list)
        for number, row in enumerate(rows):
            groups[row.beam_size, row.length_penalty, row.n_best > 1].append(number)
        answers = [[]] * len(rows)
        for (beam_size, length_penalty, _), numbers in groups.items():
            n_best = max(rows[number].n_best for number in numbers)
            translator = self._translator_for(beam_size, length_penalty)
            translations = translator.translate([rows[number].text for number in numbers], n_best)
            for number, of_text in zip(numbers, translations, strict=True):
                answers[number] = of_text[: rows[number].n_best]
        return answers

    def _best(self, number, translations):
        best = translations[0]
        if best.problem:
            limit = f" of {self._max_tokens:,} tokens; split it" if best.problem == TOO_LONG else ""
            status = 429 if best.problem == NO_MEMORY else 400
            raise HTTPException(status, f"text[{number}]: {best.problem}{limit}")
        return {"translation": best.text, "score": best.score}

    def _several(self, number, translations):
        self._best(number, translations)
        return {
            "translation": [translation.text for translation in translations],
            "score": [translation.score for translation in translations],
            "count": len(translations),
        }

    def _warnings(self, inputs, answers):
        """Returns what is unusual about lines and their best translations, a str for each kind."""
        warnings = LineWarnings(self._training_text, self._usual.in_sentences)
        for text, (best, *_) in zip(inputs["text"], answers, strict=True):
            for line, translation in zip(_lines(text), best.text.split("\n"), strict=False):
                warnings.add_text(line, translation)
        return list(warnings)

    # Pairs of a text and its translation

    def _pairs(self, inputs, num_heads=1):
        """Returns a `_Pair` for each row; refuses long texts, and too much attention."""
        names = "source", "target"
        texts = [inputs[name] for name in names]
        ids = [side.encode(lines) for side, lines in zip(self._tokenizer[1:], texts, strict=True)]
        rows = zip(zip(*texts, strict=True), zip(*ids, strict=True), strict=True)
        pairs = [_Pair(*row) for row in rows]
        for number, pair in enumerate(pairs):
            for name, length in zip(names, map(len, pair.ids), strict=True):
                if length > self._max_tokens:
                    reason = f"has {length} tokens and at most {self._max_tokens} are allowed"
                    raise HTTPException(400, f"{name}[{number}] {reason}; split it")
        longest = _longest(pairs)
        num_weights = num_heads * len(pairs) * longest**2
        if num_weights > MAX_WEIGHTS:
            raise HTTPException(
                400,
                f"rows: {len(pairs)}, their tokens: up to {longest}; their attention has "
                f"{num_weights} weights and at most {MAX_WEIGHTS} are allowed; send fewer or "
                "shorter pairs",
            )
        return pairs

    def _scores(self, pairs):
        """Returns the values of the signature `score` for each `_Pair`."""
        at_once = max(1, MAX_WEIGHTS // _longest(pairs) ** 2)
        answers = []
        for start in range(0, len(pairs), at_once):
            batch = pairs[start : start + at_once]
            sides = zip(*(pair.ids for pair in batch), strict=True)
            log_probs = self._score(*map(padded, sides)).log_probs.numpy()
            answers += map(self._score_of, batch, log_probs)
        return answers

    def _score_of(self, pair, log_probs):
        target_ids = pair.ids[1]
        log_probs = log_probs[: len(target_ids)]
        if max(map(len, pair.ids)) == 1:  # Nothing for nothing is certain, as in a search.
            log_probs = np.zeros(1, np.float32)
        log_prob = float(log_probs.sum())
        return {
            "log_prob": log_prob,
            "score": log_prob / length_normaliser(len(target_ids), self._defaults.length_penalty),
            "target_tokens": self._tokenizer.target.pieces(target_ids),
            "token_log_probs": log_probs,
        }

    def _scored(self, number, answer):
        if math.isnan(answer["log_prob"]):
            reason = "the model's score is nan: its training diverged"
            raise HTTPException(400, f"for source[{number}] {reason}")
        return answer

    def _pairs_to_draw(self, inputs):
        return self._pairs(inputs, sum(self._heads.values()))

    def _maps(self, pairs):
        """Returns the values of the signature `attention_maps` for each `_Pair`."""
        return [self._tokens(pair) | maps_of(self._model, *pair.ids) for pair in pairs]

    def _tokens(self, pair):
        sides = zip(("source_tokens", "target_tokens"), self._tokenizer[1:], pair.ids, strict=True)
        return {name: side.pieces(ids) for name, side, ids in sides}

    def _explored(self, pairs):
        """Returns the attention of each `_Pair` as a MODEL of `explorer.js`."""
        return [
            model_data(
                self.name,
                pair.texts,
                tuple(self._tokens(pair).values()),
                with_alignment(self._model, *pair.ids),
            )
            for pair in pairs
        ]


def _lines(text):
    return text.strip().split("\n")


def _longest(pairs):
    return max((len(ids) for pair in pairs for ids in pair.ids), default=1)


def _check_range(number, name, value, least, most):
    if not least <= value <= most:
        reason = f"is {value}, not from {least} to {most:g}, or {DEFAULT} for the default"
        raise HTTPException(400, f"{name}[{number}] {reason}")
