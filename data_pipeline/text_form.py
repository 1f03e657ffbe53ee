"""The one form of a text: its white space, what counts as blank, and its Unicode normal form.

Training, translating, aligning, scoring and serving bring each line into this form first, so that
texts which look alike are alike. `data_pipeline.tokenization.graph_tokenizers` does the same inside
a SavedModel.
"""

import re
import unicodedata
from collections.abc import Sequence

FORMS = ("nfc", "none")

# Characters that show nothing: soft hyphen, zero-width space, word joiner, byte order mark. The
# zero-width joiner and non-joiner stay: Persian, Indian scripts and emoji are written with them.
INVISIBLE = "\u00ad\u200b\u2060\ufeff"
# What str.split takes for white space: all that Unicode calls so, and four separators.
SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# Stands at the edge of a part of a word that touches the next part. No text in the one form has it,
# because its second character, Unicode's word joiner, is invisible.
JOINER = "‿\u2060"
_OPENING = "[-(\\[\"“”„«»‹›'‘‚¿¡*$€£–—…]|[CcDdJjLlMmNnSsTt]['’]|[Qq]u['’]"  # As in l'homme.
_CLOSING = "[-,;:!?)\\]\"“”«»‹›’'…*%°$€£–—،؛؟।]|['’]s"
_BESIDE = f"[^ {JOINER}]"
# Patterns and replacements, in turn, for a line, here and in the graph of an export. Each splits
# one mark from words; three passes split up to three from either end.
MARKS = 3 * (
    (f"({_BESIDE})({_CLOSING})( |$)", rf"\1 {JOINER}\2\3"),
    (rf"([^ .{JOINER}])(\.+)( |$)", rf"\1 {JOINER}\2\3"),
    (f"(^| )({_OPENING})({_BESIDE})", rf"\1\2{JOINER} \3"),
)
FIRST = 1000  # Lines of a text that show whether it is tokenised.
_MANY, _SOME = 100, 10  # Lines that end in " ." and make a text look tokenised.
_VISIBLE = re.compile(f"[^{SPACES}{INVISIBLE}]")


class _Kept(dict):
    """Maps each character to itself, and those of some Unicode categories to None."""

    def __init__(self, dropped):
        super().__init__()
        self._dropped = dropped

    def __missing__(self, code):
        self[code] = None if unicodedata.category(chr(code))[0] in self._dropped else code
        return self[code]


_KEPT = {True: _Kept("CPSZ"), False: _Kept("CNPSZ")}


def normalised(line: str, form: str = "nfc") -> str:
    """Brings a line, any text without a line feed, into the one form.

    Invisible characters are removed, each run of white space becomes one space, and there is none
    at the ends. A blank line becomes "". Form "nfc" composes characters (Unicode normal form C);
    "none" leaves them as they are.
    """
    if not line.isascii():
        for character in INVISIBLE:
            line = line.replace(character, "")
        if form == "nfc":
            line = unicodedata.normalize("NFC", line)
    return " ".join(line.split())


def split_words(line: str, form: str = "nfc") -> list[str]:
    """Splits a line into words at white space, in the form of `normalised`."""
    return normalised(line, form).split()


def split_parts(line: str, form: str = "nfc") -> list[str]:
    """Splits a line as `split_words`, and marks from words: `(dog's).` to `(‿ dog ‿'s ‿) ‿.`."""
    line = normalised(line, form)
    for rule in MARKS:
        line = re.sub(*rule, line)
    return line.split()


def looks_tokenised(lines: Sequence[str]) -> bool:
    """Returns whether many lines, or half of those with a full stop, have a space before it."""
    stops = sum(line.rstrip().endswith(".") for line in lines)
    spaced = sum(bool(re.search(r"\S \.\s*$", line)) for line in lines)
    return spaced >= min(_MANY, max(_SOME, stops / 2))


def is_blank(line: str) -> bool:
    """Returns whether a line has nothing but white space and invisible characters."""
    return not _VISIBLE.search(line)


def script_of(character: str) -> str:
    """Returns the script of a character: the first word of its Unicode name, "" without a name.

    >>> [script_of(c) for c in "a字かカ가ก"]
    ['LATIN', 'CJK', 'HIRAGANA', 'KATAKANA', 'HANGUL', 'THAI']
    """
    name = unicodedata.name(character, "")
    for width in ("FULLWIDTH ", "HALFWIDTH "):
        name = name.removeprefix(width)
    return re.split("[ -]", name, maxsplit=1)[0]


def core(line: str, digits: bool = True) -> str:
    """Returns the letters and digits of a line without case; a line without any of them as it is.

    Lines with equal cores count as one sentence where a text is divided or compared.

    >>> core("On page 3, he said: No!", digits=False) == core("on page 14 he said no", False)
    True
    """
    line = normalised(line)
    return line.casefold().translate(_KEPT[digits]) or line
