"""Cleans parallel text for training: mends characters and drops bad pairs, and counts both."""

import collections
import html.entities
import re
from typing import Any

from nmt_zoo.data_pipeline.text_form import INVISIBLE

# White space other than the plain space, including line separators, and control characters.
_ODD_SPACES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|[^\S\n ]")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")  # They make words differ that look equal.
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_MAX_CHARACTERS = 2000  # Longer texts are no sentences.
_MAX_LENGTH_RATIO = 3.0  # Of the longer side to the shorter side plus `_RATIO_SLACK`.
_RATIO_SLACK = 10  # Characters, because short sentences vary more.


class Cleaner:
    """Cleans a corpus block by block, and counts.

    It counts the pairs `read`, `kept` and `dropped` (for each reason), and how often each fault was
    `mended`, including in pairs dropped later. Pairs with an empty side are dropped; if `filters`,
    also pairs that are too long, of too unequal lengths, with equal sides, or equal to earlier
    ones. Sentences of too many tokens are dropped by `data_pipeline.encoded.PairFilter`.

    Example:
        >>> cleaner = Cleaner()
        >>> cleaner.clean(["A &amp; B", ""], ["A und B", "C"])
        (['A & B'], ['A und B'])
        >>> dict(cleaner.dropped)
        {'a side is empty': 1}
    """

    def __init__(self, filters: bool = True):
        self.filters = filters
        self.read = self.kept = 0
        self.dropped = collections.Counter()
        self.mended = collections.Counter()
        self._seen = set()

    def mend(self, lines: list[str]) -> list[str]:
        """Mends the characters of lines; returns equally many lines, none with a line break."""
        if not lines:
            return []
        text = "\n".join(lines)
        if "&" in text:
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

    def clean(
        self, source_lines: list[str], target_lines: list[str], *, drops: bool = True
    ) -> tuple[list[str], list[str]]:
        """Mends both sides and, if `drops`, drops bad pairs."""
        pairs = list(zip(self.mend(source_lines), self.mend(target_lines), strict=True))
        reasons = [self._fault(*pair) if drops else None for pair in pairs]
        clean_pairs = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
        self.read += len(pairs)
        self.kept += len(clean_pairs)
        self.dropped.update(filter(None, reasons))
        return [source for source, _ in clean_pairs], [target for _, target in clean_pairs]

    def _fault(self, source, target):
        """Returns the reason for dropping a pair, or None."""
        if not source or not target:
            return "a side is empty"
        if not self.filters:
            return None
        shorter, longer = sorted((len(source), len(target)))
        if longer > _MAX_CHARACTERS:
            return f"longer than {_MAX_CHARACTERS:,} characters"
        if longer > _MAX_LENGTH_RATIO * (shorter + _RATIO_SLACK):
            return f"length ratio above {_MAX_LENGTH_RATIO:g}"
        if source == target:
            return "both sides are the same"
        # Among 5 million pairs, the chance of a collision of 64-bit hashes is 1 in a million.
        key = hash((source, target))
        if key in self._seen:
            return "seen before"
        self._seen.add(key)
        return None

    def summary(self) -> dict[str, Any]:
        """Returns the counts as a dict for JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped.most_common()),
            "mended": {what: count for what, count in self.mended.most_common() if count},
        }
