"""Finds lines of a parallel text that are in another language than their side.

The two languages need not be known: what the sides of most pairs differ in is the direction from
one language to the other, and it is the same whichever side of a pair comes first.
"""

import collections
import functools
from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.checks.samples import matrix, most_frequent, units_of
from nmt_zoo.data_pipeline.text_form import script_of

_UNITS = 400
_FEW = 3  # Units of a line that is too short to be judged.


class Languages(NamedTuple):
    """What a text looks like to a `Judge`."""

    swapped: np.ndarray  # [pairs] bool, where each side is in the language of the other
    foreign: np.ndarray  # [2, pairs] bool, where only this side is in the other's language


class Judge:
    """Knows the languages of both sides from a sample of pairs."""

    def __init__(self, pairs: list[tuple[str, str]]):
        units = [_units(side) for side in zip(*pairs, strict=True)]
        self._numbers = most_frequent(units[0] + units[1], _UNITS)
        source, target = (matrix(side, self._numbers) for side in units)
        apart = source - target
        apart /= np.linalg.norm(apart, axis=1, keepdims=True) + 1e-6
        self._direction = _main_direction(apart)
        lead = apart @ self._direction
        if (lead < 0).mean() > 0.5:
            self._direction, lead = -self._direction, -lead
        # Of two languages, hardly a pair is in the middle; of one, many are.
        typical = np.median(np.abs(lead))
        self._is_sure = bool(typical and (np.abs(lead) < typical / 2).mean() < 0.2)
        turned = (lead < 0)[:, None]
        sides = np.where(turned, target, source), np.where(turned, source, target)
        self._typical = [np.median(self._positions(side)) for side in sides]
        self._known = [set().union(*side) for side in units]

    def _positions(self, rows):
        return rows @ self._direction / np.sqrt(rows.sum(1) + 1e-6)

    def languages(self, pairs: list[tuple[str, str]]) -> Languages:
        """Judges pairs; nothing is found if it is not sure."""
        sides = [matrix(_units(side), self._numbers) for side in zip(*pairs, strict=True)]
        enough = np.stack([side.sum(1) >= _FEW for side in sides])
        source, target = map(self._positions, sides)
        own = self._typical
        foreign = self._is_sure & enough & np.stack([source < own[1] / 2, target > own[0] / 2])
        return Languages(foreign.all(0), foreign & ~foreign.all(0))

    def known(self, lines: list[str], side: int) -> float:
        """Returns the share of the units of lines that the sample of a side has, 0 to 1."""
        found = [unit in self._known[side] for line in lines for unit in units_of(line)]
        return float(np.mean(found)) if found else 1.0


def _main_direction(rows):
    """Returns the unit vector along which rows are longest, whatever their signs; `[columns]`."""
    power = rows.T @ rows
    for _ in range(6):  # The 64th power is, but for its length, that of the longest direction.
        power = power @ power
        power /= np.trace(power) + 1e-30
    longest = power[:, np.diag(power).argmax()]
    return longest / (np.linalg.norm(longest) + 1e-9)


def _units(lines):
    return [units_of(line) for line in lines]


@functools.cache
def _script(character):
    """Returns the first word of the name of a letter; that of Chinese and Japanese is one."""
    name = script_of(character)
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def _main_script(line):
    """Returns the script of most letters of a line, such as "LATIN"; None without letters."""
    counts = collections.Counter(_script(c) for c in line[:100] if c.isalpha())
    return counts.most_common(1)[0][0] if counts else None


def strange_scripts(lines: list[str]) -> np.ndarray:
    """Returns `[lines]` bool: which lines are in a script that less than a tenth of them have."""
    scripts = [_main_script(line) for line in lines]
    usual = {s for s, n in collections.Counter(scripts).items() if n >= len(lines) / 10}
    return np.array([script not in {*usual, None} for script in scripts])
