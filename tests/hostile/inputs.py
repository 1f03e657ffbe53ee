"""Hostile texts and numbers, and functions that write them to files."""

import functools
import os
import random
from pathlib import Path

# Text that is odd but valid: one line in, one line out.
ODDITIES = {
    "empty line": "",
    "blanks": " \t  ",
    "white space of Unicode": "\u00a0\u2003\u3000\u200b\ufeff",
    "NUL": "one\0dog",
    "control characters": "".join(map(chr, [*range(1, 10), *range(11, 32), 127])),
    "escape sequences": "\x1b]0;title\x07\x1b[31mred",
    "line separators": "one\u2028dog\u2029cat",
    "next line and form feed": "one\x85dog\x0ccat\x0b",
    "lone carriage return": "one\rdog",
    "carriage return at the end": "one dog\r",
    "byte order mark inside": "one \ufeffdog",
    "right to left": "שלום עולם مرحبا بالعالم",
    "changes of direction": "\u202eone\u202c \u2067dog\u2069",
    "emoji with joiners": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "combining marks": "o" + "\u0301" * 40 + "ne",
    "decomposed letters": "gro\u0308ß",
    "Chinese and Japanese": "我喜欢狗。犬が走る。",
    "Devanagari and Thai": "कुत्ता दौड़ता है หมาวิ่ง",
    "other planes": "\U0001f600\U00020000\U000e0001\U00100000",
    "private use": "\ue000\uf8ff",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "replacement character": "\ufffd\ufffd",
    "end of sentence": "one </s> dog",
    "special tokens": "<s> <unk> <pad> </s>",
    "byte piece": "<0x0A> <0x00>",
    "word boundary": "▁one ▁▁ dog",
    "continued pieces": "o@@ ne @@",
    "bars": "one ||| dog ||| 0.5",
    "tab": "one\tdog",
    "markup": '<seg id="1">one</seg> &amp; &#0;',
    "code": "__import__('os').system('true') ${HOME} `id` $(id)",
    "format": "%s %n {0} {x!r} \\N{DIGIT ONE}",
    "quotation marks": "\"'`´‘’“”„«»",
    "only punctuation": ". , ! ? - –",
    "numbers": "1e999 nan inf -0 ٣ Ⅷ ²",
    "one character": "x",
    "200 words": "one dog " * 100,
    "500 characters without a space": "x" * 500,
    "unpaired brackets": "((((([[[[{{{{<<<<",
    "mathematics": "$x_1^2$ \\frac{1}{2} $",
}

# Bytes that are not UTF-8, for the second line of a text.
BROKEN = {
    "Latin-1": "läuft".encode("latin-1"),
    "a lone byte": b"one \xff dog",
    "a surrogate": b"one \xed\xa0\x80 dog",
    "overlong": b"one \xc0\xaf dog",
    "beyond Unicode": b"one \xf4\x90\x80\x80 dog",
    "cut character": "läuft".encode()[:2],
    "Shift JIS": "犬が走る".encode("shift_jis"),
}
UTF16 = "one dog\none cat\n".encode("utf-16")

PLAIN = "one dog"
# First characters of ranges of valid characters: ASCII controls, ASCII, and every Unicode plane.
_BLOCKS = [0, 0x20, 0x80, 0x300, 0x2000, 0x3000, 0x4E00, 0xE000, 0xFE00]
_BLOCKS += [plane << 16 for plane in range(1, 17)]


def hostile_lines(count, seed=1):
    """Draws lines that are odd but valid; the first are `ODDITIES` and lines of 10,000 characters.

    Args:
        count: number of lines.
        seed: of the drawing.

    Returns:
        list of str without `\\n`, and without `\\r` at their ends.
    """
    rng = random.Random(seed)
    lines = [*ODDITIES.values(), "x" * 10_000, "語" * 10_000, "." * 10_000, "\U0010abcd" * 10_000]
    while len(lines) < count:
        first = rng.choice(_BLOCKS)
        kind = rng.randrange(8)
        size = rng.randint(1, 12)
        if kind == 0:
            line = ""
        elif kind == 1:
            line = "".join(rng.choices(" \t\u00a0\u1680\u2003\u2028\u3000\u200b\ufeff", k=size))
        elif kind == 2:
            line = "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~…。、«»", k=size))
        else:
            line = "".join(chr(first + rng.randrange(256)) for _ in range(size))
            if kind == 3:
                line = f"one {line} dog"
        lines.append(line.replace("\n", "\x0b"))
    return [line.rstrip("\r") for line in lines[:count]]


def sandwich(text):
    """Returns the bytes of three lines: the odd line between two plain lines."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return PLAIN.encode() + b"\n" + data + b"\n" + PLAIN.encode() + b"\n"


def same_ends(outcome, num_lines=3):
    """Describes what is wrong with the output for a `sandwich`, or returns ""."""
    text = outcome.out
    if (outcome.folder / "out").exists():
        text = (outcome.folder / "out").read_bytes().decode("utf-8")
    lines = text.split("\n")[:-1]
    if len(lines) != num_lines or not text.endswith("\n"):
        return f"{len(lines)} lines of output, expected {num_lines}"
    if lines[0] != lines[-1] or not lines[0]:
        return f"the plain lines became {lines[0]!r} and {lines[-1]!r}"
    return ""


def files(contents):
    """Returns a function that writes files; contents: name -> str or bytes."""

    def write():
        for name, content in contents.items():
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            Path(name).write_bytes(data)

    return write


def both(*functions):
    """Returns a function that calls all the functions in turn."""

    def call():
        for function in functions:
            function()

    return call


def fifo(name):
    """Returns a function that makes a named pipe to which nothing is written."""
    return functools.partial(os.mkfifo, name)


def wrong_numbers(kind, minimum=None):
    """Lists values that a numeric flag must refuse.

    Args:
        kind: int or float.
        minimum: the least value that is allowed, or None.
    """
    values = {"empty": "", "a word": "many", "not a number": "nan", "infinite": "inf"}
    if kind is float:
        values["too large for a float"] = "1e400"
    else:
        values["a fraction"] = "1.5"
        values["20 digits"] = "9" * 20
    if minimum is not None:
        values["below the least"] = str(minimum - 1)
    return values
