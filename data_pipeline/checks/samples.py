"""A sample of a parallel text, in blocks of consecutive lines, and what its lines consist of."""

import collections
import itertools
import re
from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.text_form import normalised

BLOCK = 100  # Lines.
HEAD = 200  # Lines.
_MOST = 50  # Blocks.

# A character of a script without spaces, a word, or a mark that most languages share.
_UNITS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+|[?!]"
)


class Block(NamedTuple):
    """Consecutive pairs of a text.

    Attributes:
        start: number of pairs before it.
        pairs: list of (source, target), in the one form.
    """

    start: int
    pairs: list


def blocks_of(sides):
    """Returns `Block`s of `BLOCK` pairs, evenly spaced over a text; of a short text, all of them.

    Args:
        sides: (source, target), each `FileLines`.
    """
    size = len(sides[0])
    starts = np.linspace(0, size - BLOCK, min(size // BLOCK, _MOST), dtype=int).tolist()
    return list(read(sides, [(start, start + BLOCK) for start in starts]))


def heads_of(sides):
    """Returns the first lines of each file of a text, as `Block`s."""
    ends = np.cumsum(sides[0].sizes).tolist()
    starts = [0, *ends[:-1]]
    return list(read(sides, [(s, min(s + HEAD, e)) for s, e in zip(starts, ends, strict=True)]))


def read(sides, ranges):
    """Yields the `Block` of each of the ranges (start, end) of pairs, which are in order."""
    lines, done = zip(*sides, strict=True), 0
    for start, end in ranges:
        pairs = itertools.islice(lines, start - done, end - done)
        yield Block(start, [tuple(map(normalised, pair)) for pair in pairs])
        done = end


def units_of(line):
    """Returns the set of the beginnings of the words of a line; endings tell little of a word."""
    return {unit[:5] for unit in _UNITS.findall(line.casefold())}


def most_frequent(units, most, least=1):
    """Returns {unit: its number} of the most frequent units.

    Args:
        units: list of sets of units, one for each line.
        most: largest number of units.
        least: smallest number of lines that have a unit.
    """
    counts = collections.Counter(itertools.chain.from_iterable(units))
    return {u: i for i, (u, count) in enumerate(counts.most_common(most)) if count >= least}


def matrix(units, numbers):
    """Returns `[lines, units]` float32, 1 where a line has a unit.

    Args:
        units: list of sets of units, one for each line.
        numbers: as `most_frequent` returns them.
    """
    found = np.zeros((len(units), len(numbers)), np.float32)
    for row, line in zip(found, units, strict=True):
        row[[numbers[unit] for unit in line if unit in numbers]] = 1
    return found


def place(side, number):
    """Returns the file and the line of a pair, for messages.

    Args:
        side: `FileLines`.
        number: of the pair, counted from 0 over all files.
    """
    for path, size in zip(side.paths, side.sizes, strict=True):
        if number < size:
            return f"{path}, line {number + 1}"
        number -= size
    raise IndexError(number)


def quoted(line):
    """Returns a line in quotation marks, at most 60 characters of it."""
    return repr(line if len(line) <= 60 else line[:59] + "…")
