"""How sure a model is of its translations, of their words and of their tokens.

The probabilities of a network are those of its training loss, and label smoothing, for one, makes
them too small. So one temperature, fitted to validation text at the end of training, divides all
logits (Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scoring import make_scorer, score_in_groups
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.text.tokens import tokens_of
from nmt_zoo.decoding.translator import UNSURE, Translation, untranslated


class Confidence(NamedTuple):
    """How sure a model is of a translation: numbers from 0 to 1, and log-probabilities."""

    sentence: float  # Geometric mean of those of the tokens.
    words: list[float]  # Of each word between spaces: the product of those of its tokens.
    log_probs: list[float]  # Of each token, with `</s>`: not calibrated, they sum to the log_prob.


def temperature_of(model: Any, directories: Sequence[Any], usual: float | None) -> float | None:
    """Returns the temperature that training chose for a model; `usual` if it chose none.

    Several directories have the `usual` one: what suits each does not suit their mean. None, too,
    for models that give no probabilities of single tokens.
    """
    chosen = [directory.chosen().get("temperature", usual) for directory in directories]
    return None if model.decoder_class else chosen[0] if len(chosen) == 1 else usual


class ConfidenceScorer:
    """Scores translations with the model that made them.

    `temperature` is what training chose for the model; lines of more than `max_input_tokens`, which
    were translated in parts, are not scored.
    """

    def __init__(
        self, model: Any, tokenizer: Tokenizer, temperature: float, max_input_tokens: int
    ) -> None:
        self.tokenizer, self._most = tokenizer, max_input_tokens
        self._score = make_scorer(model, temperature=temperature)

    def __call__(
        self, lines: Sequence[str], translations: Sequence[Translation]
    ) -> list[Confidence | None]:
        """Scores the best translation of each line; None for one that is missing or in parts.

        None, too, for one for which there is not enough memory.
        """
        both = [tokens_of(self.tokenizer, *pair) for pair in zip(lines, translations, strict=True)]
        rows = [
            row
            for row, ((source, _), _) in enumerate(both)
            if len(source) in range(2, self._most + 1) and not translations[row].problem
        ]
        scored = score_in_groups(self._scores, [tuple(ids for ids, _ in both[row]) for row in rows])
        found: list[Confidence | None] = [None] * len(both)
        for row, scores in zip(rows, scored, strict=True):
            found[row] = scores and _confidence(*both[row][1], *scores)
        return found

    def _scores(self, sources, targets):
        scores = self._score(padded(sources), padded(targets))
        return [*zip(scores.log_probs.numpy(), scores.confidence.numpy(), strict=True)]


def confidence_of_text(lines: Sequence[Confidence | None]) -> Confidence | None:
    """Joins the confidence of the lines of a text; None if that of a line is missing."""
    known = [line for line in lines if line]
    if len(known) < max(len(lines), 1):
        return None
    words, log_probs = ([x for line in known for x in line[part]] for part in (1, 2))
    logs = np.log([line.sentence + 1e-30 for line in known])
    mean = np.average(logs, weights=[len(line.log_probs) for line in known])
    return Confidence(round(float(np.exp(mean)), 4), words, log_probs)


class Abstaining:
    """Leaves out translations of which a model is less sure than `least`, in [0, 1]."""

    def __init__(self, scorer: ConfidenceScorer, least: float) -> None:
        self._scorer, self._least = scorer, least

    def __call__(
        self, lines: Sequence[str], results: Sequence[list[Translation]]
    ) -> list[list[Translation]]:
        sure = self._scorer(lines, [best for best, *_ in results])
        return [
            [untranslated(UNSURE)] if found and found.sentence < self._least else translations
            for found, translations in zip(sure, results, strict=True)
        ]


def _confidence(ids, numbers, log_probs, sure):
    log_probs, logs = (x[: len(ids)].astype(float) for x in (log_probs, np.log(sure + 1e-30)))
    words = np.zeros(numbers[-1])
    np.add.at(words, numbers[:-1], logs[:-1])
    rounded = (np.round(x, 4).tolist() for x in (np.exp(words), log_probs))
    return Confidence(round(float(np.exp(logs.mean())), 4), *rounded)
