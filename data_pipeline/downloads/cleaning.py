"""Cleans parallel text for training: mends characters and drops bad pairs, and counts both."""

import collections
import html.entities
import re
from typing import Any, NamedTuple

# White space other than the plain space, including line separators, and control characters.
_ODD_SPACES = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
# Soft hyphen, zero-width space, word joiner, byte order mark: invisible, yet they make words differ
# that look equal.
_INVISIBLE = re.compile("[\xad\u200b\u2060\ufeff]")
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_RATIO_SLACK = 10  # Characters added to the shorter side, because short sentences vary more.


class CleaningOptions(NamedTuple):
    """Options of mending text and for dropping pairs. Lengths are in characters; None: no limit.

    `max_characters` is meant for text that is no sentence: sentences of too many tokens for a model
    are dropped by `data_pipeline.encoded.PairFilter`. `max_length_ratio` limits the ratio of the
    longer side to the shorter side plus 10; raise it if one language writes words as single
    characters.
    """

    max_characters: int | None = 2000
    max_length_ratio: float | None = 3.0
    drop_duplicates: bool = True  # keeps only the first of several equal pairs
    drop_identical: bool = True  # drops pairs whose two sides are equal
    undo_entities: bool = True  # replaces `&amp;` by `&`, `&#39;` by `'`; once


# For corpora that people wrote or chose sentence by sentence: drops only pairs with an empty side.
KEEP_ALL = CleaningOptions(None, None, drop_duplicates=False, drop_identical=False)


class Cleaner:
    """Cleans a corpus block by block, and counts.

    It counts the pairs `read`, `kept` and `dropped` (for each reason), and how often each fault was
    `mended`, including in pairs dropped later.

    Example:
        >>> cleaner = Cleaner(CleaningOptions())
        >>> cleaner.clean(["A &amp; B", ""], ["A und B", "C"])
        (['A & B'], ['A und B'])
        >>> dict(cleaner.dropped)
        {'a side is empty': 1}
    """

    def __init__(self, options: CleaningOptions):
        self.options = options
        self.read = self.kept = 0
        self.dropped = collections.Counter()
        self.mended = collections.Counter()
        self._seen = set()

    def mend(self, lines: list[str]) -> list[str]:
        """Mends the characters of lines; returns equally many lines, none with a line break."""
        if not lines:
            return []
        text = "\n".join(lines)
        if self.options.undo_entities and "&" in text:
            text = _ENTITY.sub(self._undone, text)
        text, count = _ODD_SPACES.subn(" ", text)
        self.mended["odd spaces, controls and line separators"] += count
        if not text.isascii():
            text, count = _INVISIBLE.subn("", text)
            self.mended["invisible characters"] += count
        length = len(text)
        if "  " in text:
            text = re.sub("  +", " ", text)
        text = text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")
        self.mended["needless spaces"] += length - len(text)
        return text.split("\n")

    def _undone(self, match):
        """Returns the character that an entity stands for; a name that stands for none stays."""
        if match[0][1] != "#" and match[0][1:] not in html.entities.html5:
            return match[0]
        self.mended["entities undone"] += 1
        # An entity such as &#10; would cut the line in two.
        return html.unescape(match[0]).replace("\n", " ")

    def mend_both(
        self, source_lines: list[str], target_lines: list[str]
    ) -> tuple[list[str], list[str]]:
        """Mends both sides and keeps every pair: for validation and test text."""
        self.read += len(source_lines)
        self.kept += len(source_lines)
        return self.mend(source_lines), self.mend(target_lines)

    def clean(
        self, source_lines: list[str], target_lines: list[str]
    ) -> tuple[list[str], list[str]]:
        """Mends both sides and drops the pairs that the options do not allow."""
        pairs = list(zip(self.mend(source_lines), self.mend(target_lines), strict=True))
        reasons = [self._fault(source, target) for source, target in pairs]
        clean_pairs = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
        self.read += len(pairs)
        self.kept += len(clean_pairs)
        self.dropped.update(filter(None, reasons))
        return [source for source, _ in clean_pairs], [target for _, target in clean_pairs]

    def _fault(self, source, target):
        """Returns the reason for dropping a pair, or None."""
        options = self.options
        if not source or not target:
            return "a side is empty"
        shorter, longer = len(source), len(target)
        if shorter > longer:
            shorter, longer = longer, shorter
        if options.max_characters and longer > options.max_characters:
            return f"longer than {options.max_characters:,} characters"
        if options.max_length_ratio and longer > options.max_length_ratio * (
            shorter + _RATIO_SLACK
        ):
            return f"length ratio above {options.max_length_ratio:g}"
        if options.drop_identical and source == target:
            return "both sides are the same"
        if options.drop_duplicates:
            # Among 5 million pairs, the chance of a collision of 64-bit hashes is 1 in a million.
            key = hash((source, target))
            if key in self._seen:
                return "seen before"
            self._seen.add(key)
        return None


def summary(cleaner: Cleaner) -> dict[str, Any]:
    """Returns the counts of a `Cleaner` as a dict for JSON."""
    return {
        "read": cleaner.read,
        "kept": cleaner.kept,
        "dropped": dict(cleaner.dropped.most_common()),
        "mended": {what: count for what, count in cleaner.mended.most_common() if count},
    }
