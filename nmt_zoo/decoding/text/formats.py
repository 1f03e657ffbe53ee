"""Formats translations as lines of text."""

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nmt_zoo.configuration.options import MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.text.markup import Document
from nmt_zoo.decoding.text.tokens import tokens_of
from nmt_zoo.decoding.translator import EMPTY, Translation

if TYPE_CHECKING:
    from nmt_zoo.decoding.alignment.aligner import Aligner
    from nmt_zoo.decoding.confidence import ConfidenceScorer

BARS, ESCAPED = "|||", "&#124;&#124;&#124;"  # Bars in a translation, and how lists write them.


def best_lines(line_of: Callable[[Translation], str]) -> Callable[..., list[str]]:
    """Returns a function of a window and its results: a line for each best translation.

    A window is (number of the first line, counted from 0; the lines).
    """
    return lambda window, results: [line_of(best) for best, *_ in results]


def n_best_lines(
    window: tuple[int, Sequence[str]], results: Sequence[list[Translation]]
) -> list[str]:
    """Lines `line ||| translation ||| score`, lines counted from 0; several for each line.

    In translations, `|||` is written as `ESCAPED`.
    """
    return [
        f"{number} ||| {translation.text.replace(BARS, ESCAPED)} ||| {translation.score:.4f}"
        for number, translations in enumerate(results, start=window[0])
        for translation in translations
    ]


class JsonLines:
    """One JSON object for each line, with everything that is known about its translations.

    With `n_best`, each object lists all translations of its line; with an `aligner`, links between
    words; with `confidence`, how sure the model is. Lines of more than `max_input_tokens`, counted
    with `</s>`, have neither, because the memory for attention grows with the square of the length.

    Example:
        >>> JsonLines(tokenizer)((0, ["ein Haus"]), results)
        ['{"source": "ein Haus", "translation": "a house", "score": -0.1, ...}']
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        n_best: bool = False,
        aligner: "Aligner | None" = None,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        confidence: "ConfidenceScorer | None" = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.confidence = confidence
        self.n_best = n_best
        self.aligner = aligner
        self.max_input_tokens = max_input_tokens

    def __call__(
        self, window: tuple[int, Sequence[str]], results: Sequence[list[Translation]]
    ) -> list[str]:
        _, lines = window
        best = [translations[0] for translations in results]
        sure = self.confidence(lines, best) if self.confidence else [None] * len(lines)
        return [
            json.dumps(self._record(*line), ensure_ascii=False, allow_nan=False)
            for line in zip(lines, results, self.links(lines, results), sure, strict=True)
        ]

    def links(self, lines: Sequence[str], results: Sequence[list[Translation]]) -> list:
        """Returns the links of each line, or None for those that are not to be aligned."""
        if not self.aligner:
            return [None] * len(lines)
        lengths = map(len, self.tokenizer.source.encode(lines))
        in_parts = [length > self.max_input_tokens for length in lengths]
        aligned = [
            EMPTY if is_long or best.problem else best
            for is_long, (best, *_) in zip(in_parts, results, strict=True)
        ]
        texts = [translation.text for translation in aligned]
        both = [tokens_of(self.tokenizer, *pair) for pair in zip(lines, aligned, strict=True)]
        tokens = zip(*both, strict=True) if lines else None
        aligned_links = self.aligner.links(lines, texts, tokens=tokens)
        return [
            None if is_long and not best.problem else links
            for is_long, links, (best, *_) in zip(in_parts, aligned_links, results, strict=True)
        ]

    def _record(self, source, translations, links, sure):
        record = {"source": source, **self._values(translations[0])}
        if links is not None:
            record["alignment"] = links
        if sure:
            record |= {"confidence": sure.sentence, "word_confidence": sure.words}
            record["token_log_probs"] = sure.log_probs
        if self.n_best:
            record["n_best"] = [self._values(translation) for translation in translations]
        if translations[0].problem:
            record["problem"] = translations[0].problem
        return record

    def _values(self, translation):
        return {
            "translation": translation.text,
            "score": _finite(translation.score),
            "log_prob": _finite(translation.log_prob),
            "finished": translation.finished,
            "tokens": self.tokenizer.target.pieces(translation.ids),
        }


def whole_document(document: Document, aligned: JsonLines) -> Callable[..., list[str]]:
    """Returns a function of a window and its results: the document, after its last window.

    Lines without a translation stay as they are.
    """
    done = []

    def written(window, results):
        _, lines = window
        own = document.lines[len(done) :]  # Without contexts, whose words come first.
        rows = zip(own, lines, aligned.links(lines, results), results, strict=False)
        for line, whole, links, (best, *_) in rows:
            more = len(split_words(whole)) - len(split_words(line))
            links = links and [(s - more, t) for s, t in links if s >= more]
            done.append((line, None) if best.problem else (best.text, links))
        return [document.written(done)] if len(done) == len(document.lines) else []

    return written


def _finite(number):
    return number if math.isfinite(number) else None
