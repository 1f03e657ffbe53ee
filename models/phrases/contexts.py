"""What a chart search knows of the words of hypotheses, without keeping them.

H hypotheses have a record of arrays; words and other hypotheses are added on their right.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.models.phrases.language_states import ROOT, LanguageStates
from nmt_zoo.models.phrases.sentence_options import NOTHING

_BASE = np.uint64(0x9E3779B97F4A7C15)  # Of hashes of words.


class Spoken(NamedTuple):
    """Hypotheses as the language model sees them."""

    exact: np.ndarray  # [H], log-probability of the words whose context is known
    guessed: np.ndarray  # [H], that of the words before, which depend on what precedes them
    first: np.ndarray  # [H, order - 1] int64, these words, then `NOTHING`
    counts: np.ndarray  # [H] int64, number of these words
    states: np.ndarray  # [H] int64, state of the language model after all words


class LanguageContext:
    """Scores hypotheses by an n-gram model; see `Spoken`."""

    def __init__(self, language: LanguageStates, eos_id: int) -> None:
        self.language, self.order, self.eos_id = language, language.order, eos_id

    def start(self, size: int) -> Spoken:
        """Returns hypotheses without words, of which it is unknown what precedes them."""
        first = np.full((size, self.order - 1), NOTHING)
        counts, states = np.zeros(size, np.int64), np.full(size, ROOT)
        return Spoken(np.zeros(size), np.zeros(size), first, counts, states)

    def start_of_sentence(self) -> Spoken:
        """Returns one hypothesis without words, at the start of a sentence."""
        start = self.start(1)
        start.counts[:] = self.order - 1
        start.states[:] = self.language.start
        return start

    def add_words(self, spoken: Spoken, rows: np.ndarray, words: np.ndarray) -> None:
        """Adds a word `[R]` int64 to each of some hypotheses, `rows` `[R]`."""
        log_probs, spoken.states[rows] = self.language.follow(spoken.states[rows], words)
        is_first = spoken.counts[rows] < self.order - 1
        guessed = rows[is_first]
        spoken.first[guessed, spoken.counts[guessed]] = words[is_first]
        spoken.counts[guessed] += 1
        spoken.guessed[guessed] += log_probs[is_first]
        spoken.exact[rows[~is_first]] += log_probs[~is_first]

    def add(self, spoken: Spoken, rows: np.ndarray, others: Spoken) -> None:
        """Adds R other hypotheses to some hypotheses, `rows` `[R]`."""
        for column in range(self.order - 1):
            longer = np.flatnonzero(others.counts > column)
            self.add_words(spoken, rows[longer], others.first[longer, column])
        spoken.exact[rows] += others.exact
        is_long = others.counts == self.order - 1
        spoken.states[rows[is_long]] = others.states[is_long]

    def scores(self, spoken: Spoken) -> np.ndarray:
        """Returns estimates of the log-probabilities, `[H]`."""
        return spoken.exact + spoken.guessed

    def ends(self, spoken: Spoken) -> np.ndarray:
        """Returns log P(`</s>`) after hypotheses, `[H]`."""
        return self.language.follow(spoken.states, np.full(spoken.states.size, self.eos_id))[0]

    def keys(self, spoken: Spoken) -> list[np.ndarray]:
        """Returns columns that are equal if the same may follow and precede, with equal scores."""
        return [spoken.counts, spoken.states, *spoken.first.T]

    def fits(self, spoken: Spoken) -> np.ndarray:
        """Returns whether hypotheses may be part of a translation, `[H]` bool."""
        return np.ones(spoken.states.size, bool)


class Spelt(NamedTuple):
    """Hypotheses as parts of a given translation."""

    hashes: np.ndarray  # [H] uint64, of the words
    counts: np.ndarray  # [H] int64, number of words


class TargetContext:
    """Allows those hypotheses alone that are parts of a given translation; see `Spelt`.

    Has the methods of `LanguageContext`. Hypotheses have no scores, because the language model says
    the same of all ways to a translation.
    """

    def __init__(self, target: Sequence[int]) -> None:
        words, hashes = np.asarray(target, np.int64), [np.zeros(1, np.uint64)]
        self.powers = _BASE ** np.arange(words.size + 1, dtype=np.uint64)
        spelt = self.start(words.size)
        for count in range(words.size):  # All parts, from those of one word.
            rows = np.arange(words.size - count)
            self.add_words(spelt, rows, words[count:])
            hashes.append(spelt.hashes[rows])
        self.parts, self.whole = np.unique(np.concatenate(hashes)), hashes[-1][0]

    def start(self, size: int) -> Spelt:
        return Spelt(np.zeros(size, np.uint64), np.zeros(size, np.int64))

    def start_of_sentence(self) -> Spelt:
        return self.start(1)

    def add_words(self, spoken: Spelt, rows: np.ndarray, words: np.ndarray) -> None:
        spoken.hashes[rows] = spoken.hashes[rows] * _BASE + words.astype(np.uint64) + np.uint64(1)
        spoken.counts[rows] += 1

    def add(self, spoken: Spelt, rows: np.ndarray, others: Spelt) -> None:
        before = spoken.hashes[rows] * self.powers[others.counts]
        spoken.hashes[rows] = before + others.hashes
        spoken.counts[rows] += others.counts

    def scores(self, spoken: Spelt) -> np.ndarray:
        return np.zeros(spoken.counts.size)

    def ends(self, spoken: Spelt) -> np.ndarray:
        """Returns 0 for the whole translation, and minus infinity for others, `[H]`."""
        return np.where(spoken.hashes == self.whole, 0.0, -np.inf)

    def keys(self, spoken: Spelt) -> list[np.ndarray]:
        return [spoken.hashes]

    def fits(self, spoken: Spelt) -> np.ndarray:
        return np.isin(spoken.hashes, self.parts)
