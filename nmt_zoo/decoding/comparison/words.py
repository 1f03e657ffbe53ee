"""Figures about the words of several translations: matches by frequency, repetitions, losses."""

import bisect
import collections
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# Most occurrences of a word in each class of frequencies but the last.
_EDGES = (0, 1, 5, 20, 100)
FREQUENCIES = ("0", "1", "2-5", "6-20", "21-100", "more than 100")


class Texts(NamedTuple):
    """A text, its reference translation and translations by systems, with equally many lines.

    A line is a str, or the list of its words.
    """

    source: list
    reference: list
    outputs: dict[str, list]  # name of a system -> its lines

    def map(self, source: Callable[[Any], Any], target: Callable[[Any], Any]) -> "Texts":
        """Returns the same lines after functions of those of the source, and of all others."""
        outputs = {name: [*map(target, text)] for name, text in self.outputs.items()}
        return Texts([*map(source, self.source)], [*map(target, self.reference)], outputs)

    def of(self, numbers: Sequence[int]) -> "Texts":
        """Returns the lines with some numbers, counted from 0."""
        source, reference, *outputs = (
            [text[number] for number in numbers]
            for text in (self.source, self.reference, *self.outputs.values())
        )
        return Texts(source, reference, dict(zip(self.outputs, outputs, strict=True)))


class Links(NamedTuple):
    """Positions of the source words that are linked to a word of the translation, for each line.

    The item of a line is None if the line was too long to be aligned.
    """

    reference: list[set[int] | None]
    outputs: dict[str, list[set[int] | None]]


def word_matches(words: Texts, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Counts words that a system shares with the reference, by their frequency in a text.

    A word of a line matches at most as often as it occurs in the reference of this line. `counts`
    has the frequency of each word, 0 for words that are missing. Returns a record for each class of
    `FREQUENCIES`: its name, the number of its words in the reference, and for each system
    `matches`, `words`, `precision`, `recall` and `f1`; ratios are from 0 to 1, or None for 0 / 0.
    """
    expected = _by_frequency(map(collections.Counter, words.reference), counts)
    records = [
        {"frequency": name, "reference_words": number, "systems": {}}
        for name, number in zip(FREQUENCIES, expected, strict=True)
    ]
    for system, lines in words.outputs.items():
        bags = [collections.Counter(line) for line in lines]
        pairs = zip(bags, words.reference, strict=True)
        matches = _by_frequency((bag & collections.Counter(line) for bag, line in pairs), counts)
        sizes = _by_frequency(bags, counts)
        for record, match, number in zip(records, matches, sizes, strict=True):
            reference_words = record["reference_words"]
            record["systems"][system] = {
                "matches": match,
                "words": number,
                "precision": ratio(match, number),
                "recall": ratio(match, reference_words),
                "f1": ratio(2 * match, number + reference_words),
            }
    return records


def _by_frequency(bags, counts):
    """Counts the words of all lines in each class of `FREQUENCIES`."""
    totals = [0] * len(FREQUENCIES)
    for bag in bags:
        for word, count in bag.items():
            totals[bisect.bisect_left(_EDGES, counts.get(word, 0))] += count
    return totals


def ratio(part: float, whole: float) -> float | None:
    """Returns part / whole, or None if the whole is 0."""
    return part / whole if whole else None


def faults(words: Texts, links: Links) -> dict[str, dict[str, Any]]:
    """Counts faults of each system that scores do not name.

    Returns system -> record:
        length_ratio: words of the system for each word of the reference.
        empty: lines without a word.
        dropped, dropped_share: source words with a link to the reference, but none to the
            translation; and their share of the source words with a link to the reference.
        unaligned: lines too long to be aligned, where dropped words are not counted.
        doubled: words that follow themselves, as in "a a", unlike in source and reference.
        repeated: runs of three words that occur again in a line, unlike in source and reference.
        copied: source words in the translation that the reference text has in no line.
    """
    expected = set(itertools.chain.from_iterable(words.reference))
    size = sum(map(len, words.reference))
    records = {}
    for system, lines in words.outputs.items():
        aligned = _dropped(links.reference, links.outputs[system])
        doubled = repeated = copied = 0
        for source, reference, line in zip(words.source, words.reference, lines, strict=True):
            doubled += _repeated(2, line, source, reference)
            repeated += _repeated(3, line, source, reference)
            both = collections.Counter(line) & collections.Counter(source)
            copied += sum(
                count
                for word, count in both.items()
                if any(map(str.isalpha, word)) and word not in expected
            )
        records[system] = {
            "length_ratio": ratio(sum(map(len, lines)), size),
            "empty": sum(not line for line in lines),
            **aligned,
            **{"doubled": doubled, "repeated": repeated, "copied": copied},
        }
    return records


def _dropped(reference_links, links):
    dropped = linked = unaligned = 0
    for expected, linked_words in zip(reference_links, links, strict=True):
        if expected is None or linked_words is None:
            unaligned += 1
            continue
        linked += len(expected)
        dropped += len(expected - linked_words)
    share = ratio(dropped, linked)
    return {"dropped": dropped, "dropped_share": share, "unaligned": unaligned}


def _repeated(length, line, *others):
    """Counts the runs of `length` words that occur too often in a line, compared with others.

    A run of two words counts only if both words are the same, and then even once.
    """
    usual = [_runs(length, other) for other in others]
    return sum(
        max(0, count - max(length - 2, *(counts[run] for counts in usual)))
        for run, count in _runs(length, line).items()
    )


def _runs(length: int, words: Iterable[str]) -> collections.Counter:
    runs = zip(*(itertools.islice(words, start, None) for start in range(length)), strict=False)
    return collections.Counter(
        run for run in runs if length > 2 or (run[0] == run[1] and run[0].isalnum())
    )
