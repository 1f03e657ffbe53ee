"""Parallel text made fit to learn from: characters mended, bad pairs dropped, both counted."""

import collections
import html
import re
import unicodedata
from typing import NamedTuple

from data_pipeline.downloads import languages

# White space beyond the plain one, line separators included, and controls, which show nothing.
_ODD_SPACES = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
# Soft hyphen, zero-width space, word joiner, byte order mark: invisible, and words differ by them.
_INVISIBLE = re.compile("[\xad\u200b\u2060\ufeff]")
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_RATIO_SLACK = 10  # Characters by which even short sentences may differ.


class Rules(NamedTuple):
    """What is mended and what is dropped.

    Attributes:
        max_characters: longest side that is kept, in characters; None: any. It is for what is no
            sentence at all; what is too long for a model, in its tokens, `filter_pairs` drops.
        max_length_ratio: a side may be so many times as long as the other and ten characters, in
            characters; None: any. Raise it where one language writes words as single characters.
        drop_duplicates: of equal pairs only the first is kept.
        drop_identical: pairs whose sides are equal go.
        languages: codes such as ("en", "de"): sides that are, by a cheap guess, in another script
            or language go; () for no guess.
        undo_entities: `&amp;` becomes `&`, `&#39;` becomes `'`; once.
        nfkc: Unicode's compatibility composition: `ﬁ` becomes `fi`, `①` becomes `1`.
    """

    max_characters: int | None = 2000
    max_length_ratio: float | None = 3.0
    drop_duplicates: bool = True
    drop_identical: bool = True
    languages: tuple = ()
    undo_entities: bool = True
    nfkc: bool = False


# For corpora that people wrote or chose sentence by sentence: only what has no text goes.
KEEP_ALL = Rules(None, None, drop_duplicates=False, drop_identical=False)


class Cleaner:
    """Cleans a corpus block by block, and counts.

    Attributes:
        read: pairs seen.
        kept: pairs that were good.
        dropped: Counter, reason -> pairs.
        mended: Counter, what was mended -> how often; in dropped pairs, too.

    Example:
        >>> cleaner = Cleaner(Rules())
        >>> cleaner.clean(["A &amp; B", ""], ["A und B", "C"])
        (['A & B'], ['A und B'])
        >>> dict(cleaner.dropped)
        {'a side is empty': 1}
    """

    def __init__(self, rules):
        self.rules = rules
        self.read = self.kept = 0
        self.dropped = collections.Counter()
        self.mended = collections.Counter()
        self._seen = set()
        self._guesses = [languages.Guess(code) for code in rules.languages]

    def mend(self, lines):
        """Lines with their characters mended; as many as before, none with a line break.

        Args:
            lines: list of str, none of which has a line feed.
        """
        if not lines:
            return []
        text = "\n".join(lines)
        if self.rules.undo_entities and "&" in text:
            text, count = _ENTITY.subn(_undone, text)
            self.mended["entities undone"] += count
        if self.rules.nfkc and not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
            self.mended["blocks of lines composed by NFKC"] += 1
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

    def mend_both(self, source_lines, target_lines):
        """As `clean`, but every pair is kept: for text that a score is measured on."""
        self.read += len(source_lines)
        self.kept += len(source_lines)
        return self.mend(source_lines), self.mend(target_lines)

    def clean(self, source_lines, target_lines):
        """Mends both sides and drops what the rules do not allow.

        Args:
            source_lines: list of str without line feeds.
            target_lines: list of str, as many.

        Returns:
            (list of str, list of str), equally many.
        """
        pairs = list(zip(self.mend(source_lines), self.mend(target_lines), strict=True))
        reasons = [self._fault(source, target) for source, target in pairs]
        kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
        self.read += len(pairs)
        self.kept += len(kept)
        self.dropped.update(filter(None, reasons))
        return [source for source, _ in kept], [target for _, target in kept]

    def _fault(self, source, target):
        """Why a pair goes, or None."""
        rules = self.rules
        if not source or not target:
            return "a side is empty"
        shorter, longer = len(source), len(target)
        if shorter > longer:
            shorter, longer = longer, shorter
        if rules.max_characters and longer > rules.max_characters:
            return f"longer than {rules.max_characters:,} characters"
        if rules.max_length_ratio and longer > rules.max_length_ratio * (shorter + _RATIO_SLACK):
            return f"length ratio above {rules.max_length_ratio:g}"
        if rules.drop_identical and source == target:
            return "both sides are the same"
        for guess, side in zip(self._guesses, (source, target), strict=False):
            if fault := guess.fault(side):
                return fault
        if rules.drop_duplicates:
            # Of 5 million pairs, two differ and share 64 bits with a chance of 1 in a million.
            key = hash((source, target))
            if key in self._seen:
                return "seen before"
            self._seen.add(key)
        return None


def summary(cleaner):
    """What a `Cleaner` did, as a dict for JSON."""
    return {
        "read": cleaner.read,
        "kept": cleaner.kept,
        "dropped": dict(cleaner.dropped.most_common()),
        "mended": {what: count for what, count in cleaner.mended.most_common() if count},
    }


def _undone(match):
    # A line feed or U+2028 by number would cut the line in two.
    return html.unescape(match[0]).replace("\n", " ")
