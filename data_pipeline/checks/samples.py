"""A sample of a parallel text, in blocks of consecutive lines, and what its lines consist of."""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from nmt_zoo.data_pipeline.streams import FileLines
from nmt_zoo.data_pipeline.text_form import normalised

Side: TypeAlias = tuple[FileLines, ...]  # Source and target; of a language model, the target.
BLOCK = 100  # Lines.
HEAD = 200  # Lines.
_MOST = 50  # Blocks.

# A character of a script without spaces, a word, or a mark that most languages share.
_UNITS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+|[?!]"
)


class Block(NamedTuple):
    """Consecutive pairs of a text."""

    start: int  # number of pairs before it
    pairs: list[tuple[str, ...]]  # (source, target) of each line, in the one form


def blocks_of(sides: Side) -> list[Block]:
    """Returns `Block`s of `BLOCK` pairs, evenly spaced over a text, or all of a short text."""
    size = len(sides[0])
    starts = np.linspace(0, size - BLOCK, min(size // BLOCK, _MOST), dtype=int).tolist()
    return list(read(sides, [(start, start + BLOCK) for start in starts]))


def heads_of(sides: Side) -> list[Block]:
    """Returns the first lines of each file of a text."""
    ends = np.cumsum(sides[0].sizes).tolist()
    starts = [0, *ends[:-1]]
    return list(read(sides, [(s, min(s + HEAD, e)) for s, e in zip(starts, ends, strict=True)]))


def read(sides: Side, ranges: Iterable[tuple[int, int]]) -> Iterator[Block]:
    """Yields the `Block` of each of the ranges (start, end) of pairs, which are in order."""
    lines, done = zip(*sides, strict=True), 0
    for start, end in ranges:
        pairs = itertools.islice(lines, start - done, end - done)
        yield Block(start, [tuple(map(normalised, pair)) for pair in pairs])
        done = end


def units_of(line: str) -> set[str]:
    """Returns the set of the beginnings of the words of a line; endings tell little of a word."""
    return {unit[:5] for unit in _UNITS.findall(line.casefold())}


def most_frequent(units: list[set[str]], most: int, least: int = 1) -> dict[str, int]:
    """Returns {unit: its number} of the `most` most frequent units that `least` lines have."""
    counts = collections.Counter(itertools.chain.from_iterable(units))
    return {u: i for i, (u, count) in enumerate(counts.most_common(most)) if count >= least}


def matrix(units: list[set[str]], numbers: dict[str, int]) -> np.ndarray:
    """Returns `[lines, units]` float32, 1 where a line has a unit that has a number."""
    found = np.zeros((len(units), len(numbers)), np.float32)
    for row, line in zip(found, units, strict=True):
        row[[numbers[unit] for unit in line if unit in numbers]] = 1
    return found


def place(side: FileLines, number: int) -> str:
    """Returns the file and the line of a pair, counted from 0 over all files, for messages."""
    for path, size in zip(side.paths, side.sizes, strict=True):
        if number < size:
            return f"{path}, line {number + 1}"
        number -= size
    raise IndexError(number)


def quoted(line: str) -> str:
    """Returns a line in quotation marks, at most 60 characters of it."""
    return repr(line if len(line) <= 60 else line[:59] + "…")
