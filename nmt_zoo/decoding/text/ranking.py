"""Ranks the translations of an n-best list by the scores of a model."""

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.lines import Lines

if TYPE_CHECKING:
    from nmt_zoo.decoding.scoring import Scorer

BARS, ESCAPED = "|||", "&#124;&#124;&#124;"  # Bars in a translation, and how lists write them.
_SEPARATOR = f" {BARS} "
_LINE_NUMBER = re.compile("[0-9]{1,18}")


class NBestList:
    """A file of lines `line ||| translation ||| score`, lines counted from 0 and never falling.

    There may be several scores. The file is never in memory as a whole. Raises UserError if the
    file cannot be read, and for a line of another form when it is reached.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        groups = itertools.groupby(self._entries(Lines(path)), key=lambda entry: entry[0])
        self._groups = ((number, [entry[1:] for entry in entries]) for number, entries in groups)
        self._next = next(self._groups, None)

    def _entries(self, lines):
        """Yields (number of the source line, translation, scores as text)."""
        last = 0
        for place, line in enumerate(lines, start=1):
            number, *fields = line.split(_SEPARATOR)
            scores = []
            while len(fields) > 1 and _is_number(fields[-1]):
                scores.insert(0, fields.pop())
            if not (_LINE_NUMBER.fullmatch(number) and scores):
                raise UserError(
                    f"{self.path}, line {place}: expected `line ||| translation ||| score`, found "
                    f"{line[:60]!r}"
                )
            if int(number) < last:
                raise UserError(
                    f"{self.path}, line {place}: line {number} after line {last}; sort the list by "
                    "the numbers of its lines"
                )
            last = int(number)
            yield last, _SEPARATOR.join(fields).replace(ESCAPED, BARS), scores

    def take(self, first: int, count: int) -> list[list[tuple[str, list[str]]]]:
        """Returns [(translation, scores), ...] of each of `count` lines, beginning with `first`."""
        by_line = [[] for _ in range(count)]
        while self._next and self._next[0] < first + count:
            number, entries = self._next
            by_line[number - first] = entries
            self._next = next(self._groups, None)
        return by_line

    def check_end(self, num_lines: int) -> None:
        """Raises `UserError` if there are translations after the last line of the source."""
        if self._next:
            raise UserError(
                f"{self.path}: has translations of line {self._next[0]}, counted from 0, and the "
                f"input has {num_lines} lines; give the text from which the list was made"
            )


def ranked_lines(
    scorer: "Scorer", n_best: NBestList, window: tuple[int, Sequence[str]]
) -> list[str]:
    """Scores and ranks the translations of a window of lines; windows must come in order.

    A window is (number of the first line, counted from 0; the lines). Returns lines
    `line ||| translation ||| earlier scores ||| score`, the best of each line first.
    """
    first, lines = window
    entries = n_best.take(first, len(lines))
    owners = [place for place, of_line in enumerate(entries) for _ in of_line]
    texts = [text for of_line in entries for text, _ in of_line]
    numbers = [first + place + 1 for place in owners]
    translations = iter(scorer.score([lines[place] for place in owners], texts, numbers))
    ranked = []
    for number, of_line in enumerate(entries, start=first):
        scored = [(next(translations).score, *entry) for entry in of_line]
        scored.sort(key=lambda entry: -entry[0])
        ranked += [
            _SEPARATOR.join([str(number), text.replace(BARS, ESCAPED), *scores, f"{score:.4f}"])
            for score, text, scores in scored
        ]
    return ranked


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
