"""Looks into a model as it translates a sentence, and writes a page of it.

A page shows attention, and the choices of the search.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_text
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.explorer.page import explorer_page, model_data
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.translator import Translator, not_numbers
from nmt_zoo.models.base import TranslationModel

MAX_TOKENS = 256  # Of a side; a page of more is large, slow, and not to be read.
NUM_BEST = 5  # Most probable tokens shown at each step.
_LEAST = -999.0  # JSON has no infinity.
_MOST_IN_TITLE = 80  # characters


class SentenceExplorer:
    """Makes the data with which `explorer.js` shows how a model translates sentences.

    `search` has fields of `SearchOptions`; the page lists `beam_size` translations. Without a
    `temperature`, see `make_scorer`, it does not say how sure the model is of words.

    Example:
        data = SentenceExplorer(model, tokenizer, "my model").explore("A dog runs.")
        page = explorer_page({"models": [data]}, "A dog runs.")
    """

    def __init__(
        self,
        model: TranslationModel,
        tokenizer: Tokenizer,
        name: str,
        *,
        temperature: float | None = None,
        **search: Any,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.translator = Translator.of(
            model, tokenizer, max_input_tokens=MAX_TOKENS, name=name, **search
        )
        self._temperature = temperature
        self._score = make_scorer(model, NUM_BEST, temperature or 1.0)
        self._is_first = True

    def explore(self, source: str, target: str = "", *, name: str = "--source") -> dict[str, Any]:
        """Returns the attention between a sentence and its translation, a MODEL of `explorer.js`.

        Without a `target`, it is the best translation that the search finds.
        Raises UserError: the sentence is empty, too long, or cannot be translated; or the model's
        scores are not numbers.
        """
        source_ids, given_ids = (
            vocabulary.encode([text])[0]
            for vocabulary, text in zip(self.tokenizer[1:], (source, target), strict=True)
        )
        if len(source_ids) < 2:
            raise UserError(f"{name} is empty; there is nothing to draw")
        longest = max(len(source_ids), len(given_ids))
        if longest > MAX_TOKENS:
            raise UserError(
                f"{name}: {longest:,} tokens; a page shows at most {MAX_TOKENS}; split the sentence"
            )
        beam_size = self.translator.engine.options.beam_size
        (found,) = self.translator.translate([source], beam_size)
        hypotheses = [h for h in found if not h.problem and len(h.ids) <= MAX_TOKENS]
        if not target and not hypotheses:
            raise UserError(f"{name}: cannot be translated; give its translation")
        shown_ids = given_ids if target else hypotheses[0].ids
        translations, sure = self._translations(source_ids, (target, given_ids), hypotheses)
        texts = source, target or hypotheses[0].text
        tokens = [
            vocabulary.pieces(ids)
            for vocabulary, ids in zip(self.tokenizer[1:], (source_ids, shown_ids), strict=True)
        ]
        maps = with_alignment(self.model, source_ids, shown_ids)
        more = {"translations": translations, "alignment": self.model.alignment}
        if self._temperature:
            more["confidence"] = [round(float(x), 4) for x in sure[0, : len(shown_ids)]]
        return model_data(self.name, texts, tokens, maps, **more)

    def _translations(self, source_ids, given, hypotheses):
        """Returns TRANSLATIONs, the given one first, and the probabilities of their tokens."""
        text, given_ids = given
        rows = [
            {"text": x.text, "score": x.score, "finished": x.finished, "ids": x.ids, "given": False}
            for x in hypotheses
            if not text or x.ids != given_ids
        ]
        if text:
            score = next((x.score for x in hypotheses if x.ids == given_ids), None)
            facts = {"text": text, "score": score, "finished": True, "ids": given_ids}
            rows.insert(0, {**facts, "given": True})
        log_probs, best_ids, best, sure = self._scored(source_ids, [row["ids"] for row in rows])
        for row_number, row in enumerate(rows):
            row["shown"] = row_number == 0
            row["logProb"] = _number(log_probs[row_number, : len(row["ids"])].sum())
            row["score"] = None if row["score"] is None else _number(row["score"])
            tokens = self.tokenizer.target.pieces(row.pop("ids"))
            row["steps"] = [
                {
                    "token": token,
                    "logProb": _number(log_probs[row_number, step]),
                    "best": [
                        [piece, _number(value)]
                        for piece, value in zip(
                            self.tokenizer.target.pieces(best_ids[row_number, step]),
                            best[row_number, step],
                            strict=True,
                        )
                    ],
                }
                for step, token in enumerate(tokens)
            ]
        return rows, sure

    def _scored(self, source_ids, rows):
        # A graph pays only from the second sentence on.
        score = self._score
        if self._is_first:
            score = getattr(score, "python_function", score)
        self._is_first = False
        ids = [tf.constant(padded(side)) for side in ([source_ids] * len(rows), rows)]
        arrays = [tensor.numpy() for tensor in score(*ids)]
        if any(np.isnan(arrays[0][i, : len(row)]).any() for i, row in enumerate(rows)):
            raise not_numbers(self.name, 1)
        return arrays


def maps_of(model: TranslationModel, *ids: Sequence[int]) -> dict[str, np.ndarray]:
    """Returns every attention map of one pair of source and target ids: name -> `[H, T, S]`.

    Of a model without attention, the maps have the model's `head_names` and one head each.
    """
    maps = model.attention_maps(*(tf.constant([row], tf.int32) for row in ids))
    maps = {name: np.asarray(weights)[0] for name, weights in maps.items()}
    if model.head_names:
        (heads,) = maps.values()
        return dict(zip(model.head_names, heads[:, None], strict=True))
    return maps


def with_alignment(model: TranslationModel, *ids: Sequence[int]) -> dict[str, np.ndarray]:
    """Returns `maps_of` a pair, and "alignment" `[1, T, S]` if it is none of them."""
    maps = maps_of(model, *ids)
    if model.has_alignment:
        alignment = np.asarray(model.align(*(tf.constant([row], tf.int32) for row in ids)))
        shape = alignment.shape
        if not any(x.shape == shape and np.allclose(x, alignment) for x in maps.values()):
            maps["alignment"] = alignment
    return maps


def _number(value):
    """Returns a log-probability as JSON has it."""
    value = float(value)
    return _LEAST if math.isnan(value) else round(max(value, _LEAST), 3)


def write_page(path: str | Path, models: Sequence[dict[str, Any]], choice: dict[str, Any]) -> None:
    """Writes a page of MODELs, of one sentence, and the "choice" of `explorer.js`, shown first."""
    title = models[0]["source"]["text"]
    if len(title) > _MOST_IN_TITLE:
        title = title[: _MOST_IN_TITLE - 1] + "…"
    write_text(path, explorer_page({"models": models, "choice": choice}, title))
