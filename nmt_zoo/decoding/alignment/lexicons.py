"""Lexicons of word translations, counted in word alignments.

`decoding.unknowns.read_lexicon` reads the files of `write_lexicon`.
"""

import collections
import sys
from collections.abc import Iterable, Sequence

from nmt_zoo.common.files import write_lines
from nmt_zoo.decoding.alignment.links import Link


def write_lexicon(
    path: str,
    alignments: Iterable[Iterable[Link]],
    source_words: Iterable[Sequence[str]],
    target_words: Iterable[Sequence[str]],
) -> int:
    """Writes lines `source_word target_word probability`, atomically; returns their number.

    The probability is the target word's share of all links of the source word in a text. Lines are
    sorted by source word, then by falling probability. White space separates the three, so a word
    with white space inside, such as a number with no-break spaces, cannot be written. Its pairs are
    left out, and counted on standard error.
    Raises UserError: the file cannot be written.
    """
    counts = collections.Counter(
        (source[i], target[j])
        for links, source, target in zip(alignments, source_words, target_words, strict=True)
        for i, j in links
    )
    totals = collections.Counter()
    for (source, _), count in counts.items():
        totals[source] += count
    lines = [
        f"{source} {target} {count / totals[source]:.6g}"
        for (source, target), count in sorted(
            counts.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0][1])
        )
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    left_out = len(counts) - len(lines)
    if left_out:
        print(
            f"word pairs left out: {left_out:,} (a lexicon cannot hold words with white space "
            "inside, such as no-break spaces)",
            file=sys.stderr,
        )
    return len(lines)
