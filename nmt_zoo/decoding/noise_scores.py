"""Scores the translations of a test set with noise, a kind at a time."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline import noise
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.decoding.translator import Translator

ALL, CLEAN = "all", "clean"


class Row(NamedTuple):
    """The scores of a test set, for a table."""

    kind: str  # Of the noise; `CLEAN`: none.
    altered: int  # Lines of which the source or the reference differs from the clean text.
    bleu: float
    chrf: float


def kinds_of(text: str) -> list[str]:
    """Parses --noise of a test set: names with commas, or "all"; raises UserError if unknown."""
    names = list(noise.NAMES) if text == ALL else [name.strip() for name in text.split(",")]
    for name in names:
        noise.check_kind(name)
    return names


def noise_scores(
    translator: Translator,
    kinds: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    outputs: Sequence[str],
    tokenize: str,
) -> Iterator[Row]:
    """Yields a `Row` of the clean test set, then one for each kind.

    `pairs` are lines and their references, `outputs` the translations of the clean lines. Draws
    depend on the kind and the number of the line alone.
    """
    vocabularies = translator.tokenizer.source, translator.tokenizer.target

    def row(name, new, outputs):
        references = translator.tokenizer.target_words([reference for _, reference in new])
        scores = corpus_scores(outputs, [references], ("bleu", "chrf"), tokenize=tokenize)
        altered = sum(tuple(a) != tuple(b) for a, b in zip(new, pairs, strict=True))
        return Row(name, altered, *(round(scores[metric].score, 2) for metric in ("bleu", "chrf")))

    yield row(CLEAN, pairs, outputs)
    for name in kinds:
        try:
            kind = noise.Copies(vocabularies) if name == noise.COPIES else noise.KINDS[name]
        except UserError:  # No byte pieces: nothing can be copied.
            continue
        new = [kind(pair, random.Random(f"{name} {i}")) for i, pair in enumerate(pairs)]
        yield row(name, new, [best.text for best, *_ in translator.translate([s for s, _ in new])])
