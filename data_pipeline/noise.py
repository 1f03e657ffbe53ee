"""Text as people write it, made of clean pairs: capitals, typing errors, strings to copy.

Each kind of noise is a function of a pair of lines and of a `random.Random`, and returns the pair
with it, or as it is where the kind does not apply. Both sides get what a translation keeps, such as
capitals; the source alone gets what a translation is to mend, such as typing errors.
"""

import collections
import difflib
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import PLACEHOLDERS, UNK_ID

Pair = Sequence[str]

# Of the strings to copy. Few texts teach to copy placeholders, more teach to copy bytes.
_PLACEHOLDERS_SHARE = 0.7
# First and last characters of blocks of Unicode.
_SYMBOLS = (*("¡¿", "‐‧", "‰⁞", "₠₿", "←⇿", "∀⋿", "■◿", "☀➿", "😀🙏", "🌀🗿", "🚀🛼", "🤀🧿"),)
_LETTERS = ("À\u024f", "Ͱ\u03ff", "Ѐ\u045f", "את", "ءي", "अह", "กฮ", "ぁヾ", "一鿿", "가힣")
# Marks around a text, and templates of strings: W is a word, N a number, C a capital.
_MARKS = ("“”", "„“", "”“", "‘’", "«»", "»«", "‹›", "「」", "()", "[]", '""', "''", "——", "**")
_TEMPLATES = (
    *("W.W@W.W", "W@W.W", "https://www.W.W/W", "http://W.W/W?W=N", "www.W.W", "{N}", "{W}", "%W"),
    *("<W>", "</W>", "&W;", "$W", "#W", "@W", "W_W", "__N__", "[W]", "CCC-N/N", "CC N", "N.N", "N"),
    *("N,N %", "N:N", "CW", "CW-CW", "CCC"),
)
_WORD = re.compile(r"\w+")
_FIRST = re.compile(r"(?<![\w'’])\w")
_EQUAL = re.compile(r"\d+|\w{3,}")  # If both sides have it once, it is its own translation.
_STOP = re.compile(r"\s*[.!?…。！？।؟]+$")
_LONG = re.compile(r"[^\W\d_]{4,}")  # A word in which people mistype letters.
_NUMBER = re.compile(r"\d+")
_TYPO_SHARE = 0.15  # Of the long words of a line, at least one.


def capitals(pair: Pair, _: random.Random) -> Pair:
    """Writes both lines in capitals."""
    return [line.upper() for line in pair]


def titles(pair: Pair, _: random.Random) -> Pair:
    """Begins every word of both lines with a capital."""
    return [_FIRST.sub(lambda match: match[0].upper(), line) for line in pair]


def lowercase(pair: Pair, draw: random.Random) -> Pair:
    """Writes the source in small letters, in half of the lines but for the first one."""
    source, target = pair
    kept = draw.randrange(2)
    return [source[:kept] + source[kept:].lower(), target]


def typos(pair: Pair, draw: random.Random) -> Pair:
    """Exchanges, drops or doubles an inner letter in some long words of the source."""
    source, target = pair
    places = [match.start() for match in _LONG.finditer(source)]
    chosen = {place for place in places if draw.random() < _TYPO_SHARE}
    chosen |= {draw.choice(places)} if places and not chosen else set()

    def mistyped(match):
        if match.start() not in chosen:
            return match[0]
        i = draw.randrange(1, len(match[0]) - 2)
        before, two, after = match[0][:i], match[0][i : i + 2], match[0][i + 2 :]
        return before + draw.choice((two[::-1], two[1], two[0] + two)) + after

    return [_LONG.sub(mistyped, source), target]


def stop(pair: Pair, _: random.Random) -> Pair:
    """Leaves out the final stop, if both lines have one."""
    found = [_STOP.search(line) for line in pair]
    if not all(found):
        return pair
    return [line[: match.start()] for line, match in zip(pair, found, strict=True)]


def spaces(pair: Pair, draw: random.Random) -> Pair:
    """Drops a space of the source, or adds one in a long word or before a mark."""
    source, target = pair
    inside = [draw.randrange(m.start() + 1, m.end()) for m in _LONG.finditer(source)]
    marks = [match.start(1) for match in re.finditer(r"\w([^\w\s])", source)]
    ways = [(" ", places, 0) for places in (inside, marks) if places]
    if places := [match.start() for match in re.finditer(r"(?<=\w) (?=\w)", source)]:
        ways.append(("", places, 1))
    if not ways:
        return pair
    new, places, dropped = draw.choice(ways)
    place = draw.choice(places)
    return [source[:place] + new + source[place + dropped :], target]


def numbers(pair: Pair, draw: random.Random) -> Pair:
    """Exchanges each number that both lines have for another one with as many digits."""
    shared = set.intersection(*(set(_NUMBER.findall(line)) for line in pair))

    def another(number):
        return "".join([draw.choice("123456789"), *draw.choices("0123456789", k=len(number) - 1)])

    new = {number: another(number) for number in sorted(shared)}
    return [_NUMBER.sub(lambda match: new.get(match[0], match[0]), line) for line in pair]


KINDS: dict[str, Callable[[Pair, random.Random], Pair]] = {
    kind.__name__: kind for kind in (capitals, titles, lowercase, typos, stop, spaces, numbers)
}
COPIES, NONE = "copies", "none"
NAMES = (COPIES, *KINDS)


def shares_of(text: str) -> dict[str, float]:
    """Parses --noise of training, such as `copies=0.05,typos=0.1`; "none" is no noise.

    Raises UserError: a kind that does not exist, or shares that are no numbers from 0 to 1 in all.
    """
    shares = {}
    for part in text.split(",") if text not in ("", NONE) else ():
        name, _, share = part.strip().partition("=")
        check_kind(name)
        try:
            shares[name] = float(share)
        except ValueError:
            shares[name] = -1.0
    if not (all(share >= 0 for share in shares.values()) and sum(shares.values()) <= 1):
        raise UserError(
            f"--noise={text}: expected a share of the pairs for each kind, numbers from 0 to 1 "
            "that sum to at most 1, such as copies=0.05,typos=0.1"
        )
    return {name: share for name, share in shares.items() if share}


def check_kind(name: str) -> None:
    """Raises `UserError` if there is no kind of this name."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"--noise: no kind {name!r}; kinds: {', '.join(NAMES)}{meant}")


class Copies:
    """Puts the same string, or the same marks, at the same kind of place on both sides.

    A vocabulary of byte pieces can write any character, but training hardly ever shows it those
    pieces. So one emoji or curly quote spoils the translation of its line. From such strings a
    model learns to copy what it has never seen, and soonest the placeholders that stand for other
    text. `vocabularies` are those of source and target.
    Raises UserError: a vocabulary has no byte pieces.
    """

    def __init__(self, vocabularies: tuple[Any, Any]) -> None:
        self.vocabularies = vocabularies
        if any(UNK_ID in v.encode(["\ue000"])[0] for v in vocabularies):
            raise UserError(
                f"--noise={COPIES} needs a SentencePiece model with byte pieces "
                "(spm_train --byte_fallback), to spell any character; leave it out"
            )
        # A character that the vocabulary knows is translated as the text translates it.
        self.symbols = [chars for chars in map(self._unknown, map(_block, _SYMBOLS)) if chars]
        self.marks = [marks for marks in _MARKS if self._unknown(marks) == list(marks)]

    def __call__(self, pair: Pair, draw: random.Random) -> Pair:
        for _ in range(draw.choice((1, 1, 1, 2))):
            pair = self._with_copy(pair, draw)
        return pair

    def _unknown(self, characters):
        return [
            character
            for character in characters
            if all(v.processor.piece_to_id(character) == UNK_ID for v in self.vocabularies)
        ]

    def _with_copy(self, pair, draw):
        """Puts a string, or marks, at the same kind of place on both sides."""
        shared, placeholders = _shared_words(pair), draw.random() < _PLACEHOLDERS_SHARE
        if self.marks and draw.random() < 0.4:
            opening, closing = (
                draw.sample(PLACEHOLDERS, 2) if placeholders else draw.choice(self.marks)
            )
            spans = [(0, len(line)) for line in pair]
            if shared and draw.random() < 0.3:
                spans = draw.choice(shared)
            # Marks mostly as in running text.
            space = " " if placeholders else draw.choice(("", "", "", "", "", " "))
            before, after = opening + space, space + closing
            return [
                line[:start] + before + line[start:end] + after + line[end:]
                for line, (start, end) in zip(pair, spans, strict=True)
            ]
        string = draw.choice(PLACEHOLDERS) if placeholders else self._string(pair, draw)
        if shared and draw.random() < 0.4:
            spans = draw.choice(shared)
        else:
            string, spans = self._beside(pair, string, placeholders, draw)
        return [
            line[:start] + string + line[end:]
            for line, (start, end) in zip(pair, spans, strict=True)
        ]

    @staticmethod
    def _beside(pair, string, placeholders, draw):
        """Chooses the front, the end, or the place before the final stop; returns string, spans."""
        may_touch = not (placeholders or string.isalnum() or len(string) > 2)
        space = draw.choice((" ", " ", "")) if may_touch else " "
        position = draw.randrange(3)
        if position == 0:
            return string + space, [(0, 0)] * 2
        stops = [_STOP.search(line) for line in pair]
        if position == 1 or not all(stops):
            return space + string, [(len(line),) * 2 for line in pair]
        return space + string, [(stop.start(),) * 2 for stop in stops]

    def _string(self, pair, draw):
        """Makes a string: symbols, letters of one alphabet, or an address, a code or a name."""
        kind = draw.randrange(5)
        if kind < 2 and self.symbols:
            return "".join(draw.choices(draw.choice(self.symbols), k=draw.choice((1, 1, 1, 2))))
        if kind == 2:
            return "".join(draw.choices(_block(draw.choice(_LETTERS)), k=draw.randint(1, 4)))
        words = _WORD.findall(" ".join(pair)) or ["w"]

        def fill(place):
            if place[0] == "C":
                return draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            if place[0] == "N":
                return str(draw.randrange(10 ** draw.randint(1, 4)))
            syllables = (draw.choice("bcdfghjklmnprstvwz") + draw.choice("aeiou") for _ in range(3))
            return draw.choice((draw.choice(words), "".join(syllables)[: draw.randint(2, 6)]))

        return re.sub("[WNC]", fill, draw.choice(_TEMPLATES))


def _block(bounds):
    return [chr(code) for code in range(ord(bounds[0]), ord(bounds[1]) + 1)]


def _shared_words(pair):
    """Returns the (source span, target span) of every word that each side has once."""
    spans = []
    for line in pair:
        spans_of = collections.defaultdict(list)
        for match in _EQUAL.finditer(line):
            spans_of[match[0]].append(match.span())
        spans.append({word: at[0] for word, at in spans_of.items() if len(at) == 1})
    return [(span, spans[1][word]) for word, span in spans[0].items() if word in spans[1]]
