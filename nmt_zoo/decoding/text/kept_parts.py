"""Hides from a model what it cannot translate: web addresses and new characters.

A placeholder stands for each hidden part.
"""

import functools
import re
import unicodedata
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import PLACEHOLDERS, UNK_ID
from nmt_zoo.decoding.search.phrases import phrase_ids

# E-mail and web addresses, placeholders, tags and entities; bounded, so that endless words take no
# time that grows with the square of their length.
TECHNICAL = "|".join(
    (
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
        r"(?:(?:https?|ftp)://|www\.)\S*[\w/]",
        r"\$?\{[^{}\s]*\}|%(?:\(\w+\)|\d+\$)?[-+#0]{0,5}\d{0,9}(?:\.\d{1,9})?[sdifgxu]\b",
        r"</?[A-Za-z][^<>]*>|&(?:\w+|#\d+);",
    )
)
_UNITS = re.compile(rf"{TECHNICAL}|[0-9#*]\ufe0f?\u20e3|\w+|[^\w\s]")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*?(?<!/)>")
# A bullet or number in front of a line, as in a list.
_BULLET = re.compile(r"\s*(?:[-–—*•◦‣▪·]|\(?(?:\d{1,3}|[A-Za-z])\)|\d{1,3}\.)\s+(?=\w)")
_STOP = re.compile(r"\s*[.!?…。！？।؟]*\s*$")
_MARKS = {"Mn", "Me", "Cf"}  # Unicode's categories of combining and invisible characters.
_PAIRED = {"Pi", "Pf", "Ps", "Pe"}  # Unicode's categories of quotes and brackets.
_APOSTROPHE = re.compile(r"(?<=\w)’(?=\w)")
_BYTE = re.compile("<0x..>")


class Part(NamedTuple):
    text: str
    before: str  # The character that touches the part in its line, or "".
    after: str  # The same, after it.


class Hidden(NamedTuple):
    """A line without the parts that are not translated."""

    # The line, in which placeholders stand for parts, and symbols at its ends are left out.
    text: str
    parts: dict  # Sign -> `Part`.
    front: str = ""  # What stood before the text, with its spaces.
    before_stop: str = ""  # What stood before the final stop.
    end: str = ""  # What stood after the text.


class KeptParts:
    """Hides parts of a line, and puts them into its translation.

    Besides the parts that match a pattern, these are words, symbols and `TECHNICAL` texts with
    characters that the vocabulary has only in bytes. `pattern` is a regular expression; "technical"
    for `TECHNICAL`; "" for none. The attribute `lost` has the numbers of the lines whose best
    translation lacks a part.
    Raises UserError: not a regular expression, or the model has no way to write the placeholders.
    """

    def __init__(self, pattern: str, tokenizer: Tokenizer) -> None:
        try:
            self._pattern = re.compile(TECHNICAL if pattern == "technical" else pattern)
        except re.error as error:
            raise UserError(
                f"--keep={pattern}: not a regular expression ({error}); expected a pattern of the "
                "parts to keep, technical or none"
            ) from None
        if not can_keep(tokenizer):
            raise UserError(
                "--keep puts placeholders into lines, which the vocabulary of this model cannot "
                "write: it has no byte pieces; leave the flag out, or train with --tokenizer=bpe"
            )
        self._source, self._target = tokenizer.source, tokenizer.target
        self._is_new = functools.cache(self._is_in_bytes)
        self.lost = set()

    def _is_in_bytes(self, character):
        ids = self._source.encode([character])[0]
        return any(map(_BYTE.fullmatch, self._source.pieces(ids)))

    def hide(self, line: str) -> Hidden:
        if self._is_new("’") and not self._is_new("'"):
            line = _APOSTROPHE.sub("'", line)
        line = self._without_marks(line)
        line, *ends = self._without_ends(line)
        parts, hidden, end = {}, [], 0
        placeholders = (placeholder for placeholder in PLACEHOLDERS if placeholder not in line)
        # Where no placeholder is left, parts stay in the line.
        for (first, last), placeholder in zip(self._spans(line), placeholders, strict=False):
            before, after = line[:first][-1:].strip(), line[last:][:1].strip()
            parts[placeholder] = Part(line[first:last], before, after)
            # A word beside a placeholder is to have its usual pieces, which begin with a space.
            hidden += [line[end:first], " " * bool(before), placeholder, " " * bool(after)]
            end = last
        return Hidden("".join([*hidden, line[end:]]), parts, *ends)

    def _without_marks(self, line):
        """Drops marks and invisible characters on known letters that the vocabulary lacks.

        In emoji, and in words of another script, they stay with the rest.
        """
        kept = line if line.isascii() else ""
        for character in line[len(kept) :]:
            is_mark = unicodedata.category(character) in _MARKS and self._is_new(character)
            is_keycap = character in "\ufe0f\u20e3" and kept[-1:] in "0123456789#*\ufe0f"
            if is_mark and not is_keycap and not (kept and self._is_new(kept[-1])):
                continue
            kept += character
        return kept

    def _without_ends(self, line):
        """Cuts symbols off both ends of a line, where no model is needed to place them.

        Returns (the rest, what stood before it, before its final stop, and after it).
        """
        if bullet := _BULLET.match(line):
            rest, *ends = self._without_ends(line[bullet.end() :])
            return rest, bullet[0] + ends[0], *ends[1:]
        spans = [(i, j) for i, j in self._spans(line) if not any(map(str.isalnum, line[i:j]))]
        first, rest, before_stop, after = 0, line, "", ""
        if spans and not line[: spans[0][0]].strip():
            first = spans.pop(0)[1]
            first += len(line[first:]) - len(line[first:].lstrip())
        if spans and _STOP.fullmatch(line[spans[-1][1] :]):
            begin, end = spans[-1]
            begin = len(line[:begin].rstrip())
            rest, before_stop, after = line[:begin], line[begin:end], line[end:]
            if after.strip():
                rest, after = rest + after, ""
            else:
                before_stop, after = "", before_stop + after
        ends = line[:first], before_stop + after
        # Of quotes and brackets, the other one may stand elsewhere.
        front, end = (any(unicodedata.category(c) in _PAIRED for c in text) for text in ends)
        if front != end or not any(map(str.isalnum, rest[first:])):
            return line, "", "", ""
        return rest[first:], line[:first], before_stop, after

    def _spans(self, line):
        """Yields (first, last) of each part, in order."""
        end = 0
        for match in self._pattern.finditer(line):
            if match[0]:
                yield from self._new_spans(line, end, match.start())
                yield match.span()
                end = match.end()
        yield from self._new_spans(line, end, len(line))

    def _new_spans(self, line, begin, end):
        """Yields the spans with new characters between two places; those that touch are one."""
        span = None
        for match in _UNITS.finditer(line, begin, end):
            if not any(map(self._is_new, match[0])) or self._joins_words(line, match):
                continue
            if span and span[1] == match.start():
                span = span[0], match.end()
            else:
                if span:
                    yield span
                span = match.span()
        if span:
            yield span

    def _joins_words(self, line, match):
        """Returns whether a match is a mark inside a known word, such as an apostrophe."""
        around = line[: match.start()][-1:], line[match.end() :][:1]
        is_mark = len(match[0]) == 1 and unicodedata.category(match[0])[0] == "P"
        return is_mark and all(c.isalnum() and not self._is_new(c) for c in around)

    def placeholder_ids(self, placeholder: str) -> list[int]:
        """Returns the target ids of a placeholder, as they are inside a line."""
        ids = phrase_ids(placeholder, self._target)
        return ids[self._target.pieces(ids[:1]) == ["▁"] :]

    @staticmethod
    def restore(text: str, hidden: Hidden) -> str:
        """Puts the parts into a translation, each once, at the first of its placeholders."""
        text = _in_pairs(text, hidden.parts)
        for placeholder, part in hidden.parts.items():
            before, *after = text.split(placeholder)
            if not after:
                continue
            after = " ".join(filter(None, (text.strip(" ") for text in after)))
            text = f"{before.rstrip(' ')} {part.text} {after}"
            if _touches(part.before, before.rstrip(" ")[-1:]):
                text = f"{before.rstrip(' ')}{part.text} {after}"
            if _touches(part.after, after[:1]):
                text = text.removesuffix(f" {after}") + after
            text = text.strip(" ")
        stop = len(text) - len(_STOP.search(text)[0])
        text = text[:stop] + hidden.before_stop + text[stop:]
        return hidden.front + text + hidden.end

    def check(self, number: int, hidden: Hidden, text: str) -> None:
        """Notes the number of a line whose best translation lacks a part."""
        if any(part.text not in text for part in hidden.parts.values()):
            self.lost.add(number)

    def summary(self) -> str:
        """Reports the lines that lost a part, in one line; "" if there are none."""
        if not self.lost:
            return ""
        numbers = ", ".join(f"{number:,}" for number in sorted(self.lost)[:10])
        numbers += ", ..." * (len(self.lost) > 10)
        return f"lines that lost a part to be copied (see --keep): {len(self.lost):,} ({numbers})"


def can_keep(tokenizer: Tokenizer) -> bool:
    """Returns whether both vocabularies of a tokenizer can write the placeholders."""
    return not any(
        UNK_ID in v.encode(PLACEHOLDERS[:1])[0] for v in (tokenizer.source, tokenizer.target)
    )


def _in_pairs(text, parts):
    """Exchanges the placeholders of a tag and its end tag where a translation has the end first.

    `parts` are sign -> `Part`, in the order of the source.
    """
    open_tags = []
    for placeholder, part in parts.items():
        tag = _TAG.fullmatch(part.text)
        if tag and not tag[1]:
            open_tags.append((tag[2], placeholder))
        elif tag and open_tags and open_tags[-1][0] == tag[2]:
            _, begin = open_tags.pop()
            if -1 < text.find(placeholder) < text.find(begin):
                halves = (half.replace(begin, placeholder) for half in text.split(placeholder))
                text = begin.join(halves)
    return text


def _touches(in_source, in_text):
    """Returns whether a part touches a character, as it touches one of its kind in the source."""
    return bool(in_source and in_text) and in_source.isalnum() == in_text.isalnum()
