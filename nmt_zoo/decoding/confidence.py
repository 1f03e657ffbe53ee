"""How sure a model is of its translations, of their words and of their tokens.

The probabilities of a network are those of its training loss, and label smoothing, for one, makes
them too small. So one temperature, fitted to validation text at the end of training, divides all
logits (Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.text.tokens import tokens_of
from nmt_zoo.decoding.translator import UNSURE, Translation, untranslated


class Confidence(NamedTuple):
    """How sure a model is of a translation: numbers from 0 to 1, and log-probabilities."""

    sentence: float  # Geometric mean of those of the tokens.
    words: list[float]  # Of each word between spaces: the product of those of its tokens.
    log_probs: list[float]  # Of each token, with `</s>`: not calibrated, they sum to the log_prob.


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
        """Scores the best translation of each line; None for one that is missing, or in parts."""
        both = [tokens_of(self.tokenizer, *pair) for pair in zip(lines, translations, strict=True)]
        rows = [
            row
            for row, ((source, _), _) in enumerate(both)
            if len(source) in range(2, self._most + 1) and not translations[row].problem
        ]
        found: list[Confidence | None] = [None] * len(both)
        if rows:
            ids = (padded([both[row][side][0] for row in rows]) for side in (0, 1))
            scores = self._score(*ids)
            columns = zip(scores.log_probs.numpy(), scores.confidence.numpy(), strict=True)
            for row, (log_probs, sure) in zip(rows, columns, strict=True):
                found[row] = _confidence(*both[row][1], log_probs, sure)
        return found


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
