"""Lexicons of word translations, counted in word alignments.

`decoding.unknowns.read_lexicon` reads the files of `write_lexicon`.
"""

import collections
import sys
from collections.abc import Iterable, Sequence

from nmt_zoo.common.files import write_lines
from nmt_zoo.decoding.alignment.links import Link


def lexicon_entries(
    alignments: Iterable[Iterable[Link]],
    source_words: Iterable[Sequence[str]],
    target_words: Iterable[Sequence[str]],
) -> list[tuple[str, str, float]]:
    """Returns (source word, target word, probability) of all linked words of a text.

    The probability is the target word's share of all links of the source word. Entries are sorted
    by source word, then by falling probability.

    Example:
        >>> lexicon_entries([[(0, 1)]], [["Haus"]], [["the", "house"]])
        [('Haus', 'house', 1.0)]
    """
    counts = collections.Counter(
        (source[i], target[j])
        for links, source, target in zip(alignments, source_words, target_words, strict=True)
        for i, j in links
    )
    totals = collections.Counter()
    for (source, _), count in counts.items():
        totals[source] += count
    entries = [(source, target, n / totals[source]) for (source, target), n in counts.items()]
    return sorted(entries, key=lambda entry: (entry[0], -entry[2], entry[1]))


def write_lexicon(path: str, entries: Sequence[tuple[str, str, float]]) -> int:
    """Writes lines `source_word target_word probability`, atomically; returns their number.

    White space separates the three, so a word with white space inside, such as a number with
    no-break spaces, cannot be written. Its pairs are left out, and counted on standard error.
    Raises UserError: the file cannot be written.
    """
    lines = [
        f"{source} {target} {probability:.6g}"
        for source, target, probability in entries
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    left_out = len(entries) - len(lines)
    if left_out:
        print(
            f"word pairs left out: {left_out:,} (a lexicon cannot hold words with white space "
            "inside, such as no-break spaces)",
            file=sys.stderr,
        )
    return len(lines)
