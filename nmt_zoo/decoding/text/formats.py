"""Formats translations as lines of text."""

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nmt_zoo.configuration.options import MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.subword_merging import numbers_in_text
from nmt_zoo.decoding.search.phrases import piece_text
from nmt_zoo.decoding.translator import EMPTY, Translation

if TYPE_CHECKING:
    from nmt_zoo.decoding.alignment.aligner import Aligner

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
    words. Lines of more than `max_input_tokens`, counted with `</s>`, have no links, because the
    memory for a model's attention grows with the square of a line's length.

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
    ) -> None:
        self.tokenizer = tokenizer
        self.n_best = n_best
        self.aligner = aligner
        self.max_input_tokens = max_input_tokens

    def __call__(
        self, window: tuple[int, Sequence[str]], results: Sequence[list[Translation]]
    ) -> list[str]:
        _, lines = window
        return [
            json.dumps(self._record(*line), ensure_ascii=False, allow_nan=False)
            for line in zip(lines, results, self._links(lines, results), strict=True)
        ]

    def _links(self, lines, results):
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
        tokens = zip(*map(self._tokens, lines, aligned), strict=True) if lines else None
        aligned_links = self.aligner.links(lines, texts, tokens=tokens)
        return [
            None if is_long and not best.problem else links
            for is_long, links, (best, *_) in zip(in_parts, aligned_links, results, strict=True)
        ]

    def _tokens(self, line, translation):
        """Returns the ids of a line and of its translation, with `</s>`, and the word of each.

        If the translation is joined from pieces, so is the line: both then count words.
        """
        source, target = self.tokenizer.source, self.tokenizer.target
        text, ids = translation.text, [i for i in translation.ids if i != EOS_ID]
        pieces = [piece_text(piece, target.style) for piece in target.pieces(ids)]
        (source_ids,), (numbers,) = source.encode([line]), source.word_numbers([line])
        if b"".join(pieces).strip(b" ") != text.encode():
            # Given as pieces, with words for UNK, or changed by its form.
            return (source_ids, numbers), (target.encode([text])[0], target.word_numbers([text])[0])
        if self.tokenizer.kind == "pretokenized":
            source_pieces = source.split(line)  # pyright: ignore[reportAttributeAccessIssue]
            numbers = numbers_in_text([piece_text(x, source.style) for x in source_pieces])
        return (source_ids, numbers), ([*ids, EOS_ID], numbers_in_text(pieces))

    def _record(self, source, translations, links):
        record = {"source": source, **self._values(translations[0])}
        if links is not None:
            record["alignment"] = links
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


def _finite(number):
    return number if math.isfinite(number) else None
