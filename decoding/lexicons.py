"""Lexicons: which words translate which, counted in word alignments and written to a file.

`decoding.unknowns.read_lexicon` reads what `write_lexicon` writes.
"""

import collections
from collections.abc import Iterable, Sequence

from data_pipeline.files import write_lines
from decoding.word_alignments import Link


def lexicon_entries(
    alignments: Iterable[Iterable[Link]],
    source_words: Iterable[Sequence[str]],
    target_words: Iterable[Sequence[str]],
) -> list[tuple[str, str, float]]:
    """Counts how words of a text are translated.

    Args:
        alignments: links of every sentence pair.
        source_words: the words of every source sentence.
        target_words: likewise.

    Returns:
        (source word, target word, probability) of all words that are linked, the probability being
        that target word's share of all links of the source word; by source word, the most probable
        first.

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


def write_lexicon(path: str, entries: Iterable[tuple[str, str, float]]) -> int:
    """Writes a lexicon file of lines `source_word target_word probability`, atomically.

    White space separates the three, so a word that has some inside, such as a number with no-break
    spaces, cannot be written and is left out.

    Args:
        path: the file.
        entries: (source word, target word, probability from 0 to 1), in the order to write.

    Returns:
        How many entries were written.

    Raises:
        UserError: cannot be written.
    """
    lines = [
        f"{source} {target} {probability:.6g}"
        for source, target, probability in entries
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    return len(lines)
