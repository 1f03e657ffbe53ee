"""Counts the words of a text: how many there are, how many different ones, and how many once."""

import collections
from collections.abc import Iterator, Sequence

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.streams import Lines
from nmt_zoo.data_pipeline.text_form import split_words

_SIDES = ("source", "target")


def word_counts(sides: Sequence[Lines]) -> Iterator[str]:
    """Yields lines of text about the words of a text, which white space separates.

    `sides` are (source lines, target lines), or (target lines,) for a language model.
    """
    counts = []
    for name, lines in zip(_SIDES[-len(sides) :], sides, strict=True):
        counts.append(collections.Counter())
        with Progress(f"counting {name} words", len(lines), "lines") as progress:
            for line in lines:
                counts[-1].update(split_words(line))
                progress.update(1)
        found = counts[-1]
        once = sum(count == 1 for count in found.values())
        yield (
            f"{name} words: {found.total():,}, {len(found):,} different, {once:,} of them once "
            f"({once / max(found.total(), 1):.2%} of the text)"
        )
    if len(counts) > 1:
        both = counts[0].keys() & counts[1].keys()
        often = sum(min(found[word] for found in counts) > 1 for word in both)
        yield (
            f"different words on both sides: {len(both):,}, {often:,} of them twice or more on each"
        )
