"""Splits lines into sentences, and sentences that are too long for a model into parts."""

import itertools
import re
from collections.abc import Callable

# Stops before white space: of European scripts, of Indian, Arabic, Armenian, Ethiopic, Khmer and
# Burmese ones. Chinese and Japanese stops need no white space. The end of the line does not match.
_MARKS, _WIDE = ".!?…।॥؟۔։።፧។။", "。！？｡"
# A run of stops is tried from its first one only: from each of them, long runs would take minutes.
_STOP = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]+[\"'»”’)\]]*(?=\s+(\S))|"
    rf"(?<![{_WIDE}])[{_WIDE}]+[」』”’）]*(?=[^」』”’）])"
)
_WHITE_SPACE = re.compile(r"\s+")
# Words before a full stop that do not end a sentence: initials, "e.g.", "3. Mai", titles, units.
_ABBREVIATIONS = """
    Mr Mrs Ms Messrs Dr Prof St Ste Jr Sr Gen Col Capt Lt Sgt Cpl Maj Adm Sen Rep Gov Pres Rev Hon
    Mt Ft vs cf viz Fig Figs approx est dept Univ
    Nr No Hr Hrn Fr Dipl Ing Mag vgl bzw ca evtl ggf inkl exkl zzgl Abs Art Str str Abb Tab Kap Bd
    Mio Mrd Tsd Tel bes Bsp sog geb gest Hrsg hrsg dt engl frz lat usw
    M MM Mme Mmes Mlle Mgr av env Sra Srta Dña Ud Uds pág págs núm Sig Sigg Dott Avv pag dhr mevr
    bijv blz г ул им рис стр см тыс млн млрд np tzn tj ul godz
"""
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'„“‚‘])(?:[^\W\d_]|[^\W\d_]\.(?:\s?[^\W\d_]\.)*\s?[^\W\d_]|\d{1,2}|"
    rf"(?:\S*-)?(?:{_WHITE_SPACE.sub('|', _ABBREVIATIONS.strip())}))$"
)
# Before a number, also months, parts of books, units, and words without a vowel, as "pp. 7".
_BEFORE_NUMBER = re.compile(
    r"(?:^|[\s(\"'„“‚‘])(?:[b-df-hj-np-tv-xz]+|\w*str|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|okt|nov|dec|dez|déc|janv|févr?|avr|juil|ene|abr|ago|dic|"
    r"gen|mag|giu|lug|ott|no|nos|vol|vols|fig|eqs?|ch|chap|sect?|art|arts|par|ref|refs|app|ex|op|ver|"
    r"ed|éd|cap|pos|anm|aufl|ausg|zif|ziff|taf|hausnr|rdnr|nrn|ab|at)$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]")


def sentences(line: str) -> list[str]:
    """Splits a line into sentences by its punctuation, without white space at their ends.

    A sentence ends at `.`, `!`, `?` or `…` before white space, or at the stops of other scripts. A
    full stop attached to its word does not end a sentence before a lower-case letter, or after an
    initial, a number of one or two digits or a common abbreviation of some languages, or, before a
    number, after a month or a part of a book.
    A sentence has a letter or a digit: what follows without one belongs to it. A line of no more
    than one sentence is returned as it is.

    Example:
        >>> sentences("Dr. Smith came on 3. May. He left!")
        ['Dr. Smith came on 3. May.', 'He left!']
    """
    ends = [stop.end() for stop in _STOP.finditer(line) if _ends(line, stop)]
    bounds, has_word = [0], False
    for start, end in itertools.pairwise([0, *ends, len(line)]):
        has_next = _WORD.search(line, start, end) is not None
        if has_word and has_next:
            bounds.append(start)
        has_word = has_word or has_next
    split = [line[i:j].strip() for i, j in itertools.pairwise([*bounds, len(line)])]
    return split if len(split) > 1 else [line]


def _ends(line, stop):
    """Returns whether a match of `_STOP` ends a sentence."""
    before, mark = line[max(stop.start() - 20, 0) : stop.start()], stop[0][0]
    if mark not in ".…" or not before[-1:].strip():
        return True
    if stop[1].islower() or mark == "…" or stop[0][1:2] == ".":
        return not stop[1].islower()
    before_number = stop[1].isdigit() and _BEFORE_NUMBER.search(before)
    return not (before_number or _ABBREVIATION.search(before))


def split_line(line: str, fits: Callable[[str], bool]) -> list[str]:
    """Splits a line into sentences, and halves a sentence until its parts are short enough.

    Models are trained on single sentences and translate several at once badly. A sentence is cut at
    the white space nearest its middle; if it has no white space, in the middle. Parts have no white
    space at their ends. A single character is a part even if it does not fit.

    Example:
        >>> split_line("A dog. A cat and another cat.", lambda text: len(text) < 15)
        ['A dog.', 'A cat and', 'another cat.']
    """
    return [part for sentence in sentences(line) for part in _halved(sentence.strip(), fits)]


def _halved(text, fits):
    if len(text) < 2 or fits(text):
        return [text]
    middle = len(text) // 2
    spaces = [match.end() for match in _WHITE_SPACE.finditer(text)]
    cut = min(spaces, key=lambda space: abs(space - middle), default=middle)
    return _halved(text[:cut].strip(), fits) + _halved(text[cut:], fits)
