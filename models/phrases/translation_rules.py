"""Conditions on the translations of a stack search."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING
from nmt_zoo.models.phrases.stack_search import Rule


class Begins(Rule):
    """The translation begins with given words, or consists of them.

    The state is the number of words so far, or of given words if that is less.
    """

    def __init__(self, words: Sequence[int], *, ends: bool = False) -> None:
        self.words, self.ends = np.asarray(words, np.int64), ends

    def start(self) -> np.ndarray:
        return np.zeros((1, 1), np.int64)

    def extend(
        self, states: np.ndarray, words: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        size, before = self.words.size, states[:, 0]
        after = before + lengths
        allowed = after <= size if self.ends else np.ones(after.size, bool)
        given = np.append(self.words, NOTHING)
        for place in range(LONGEST):
            at = np.minimum(before + place, size)
            free = (place >= lengths) | (at == size)
            allowed &= free | (words[:, place] == given[at])
        return np.minimum(after, size)[:, None], allowed

    def may_end(self, states: np.ndarray) -> np.ndarray:
        return states[:, 0] == self.words.size


class Contains(Rule):
    """The translation contains given phrases.

    The state has a 1 for each phrase that it contains, and then its last words.
    """

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        self.phrases = [np.asarray(phrase, np.int64) for phrase in phrases]
        self.tail = max(phrase.size for phrase in self.phrases) - 1

    def start(self) -> np.ndarray:
        nothing = np.full(self.tail, NOTHING)
        return np.concatenate([np.zeros(len(self.phrases), np.int64), nothing])[None]

    def extend(
        self, states: np.ndarray, words: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        count = len(self.phrases)
        found = states[:, :count].astype(bool)
        row = np.concatenate([states[:, count:], words], axis=1)
        for number, phrase in enumerate(self.phrases):
            for end in range(self.tail + 1, self.tail + LONGEST + 1):
                window = row[:, max(end - phrase.size, 0) : end]
                if window.shape[1] == phrase.size:
                    found[:, number] |= (window == phrase).all(axis=1)
        places = lengths[:, None] + np.arange(self.tail)
        last = np.take_along_axis(row, places, axis=1)
        return np.concatenate([found.astype(np.int64), last], axis=1), np.ones(lengths.size, bool)

    def may_end(self, states: np.ndarray) -> np.ndarray:
        return np.all(states[:, : len(self.phrases)], axis=1, keepdims=False)

    def bank(self, states: np.ndarray) -> np.ndarray:
        return states[:, : len(self.phrases)].sum(axis=1)


class RepeatsNothing(Rule):
    """No n-gram occurs twice. The state is the translation, with its length before it."""

    def __init__(self, length: int, most_words: int) -> None:
        self.length, self.most_words = length, most_words

    def start(self) -> np.ndarray:
        return np.append(0, np.full(self.most_words + LONGEST, NOTHING))[None]

    def extend(
        self, states: np.ndarray, words: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        states, before = states.copy(), states[:, 0]
        rows = np.arange(lengths.size)
        fits = before + lengths <= self.most_words
        for place in range(LONGEST):
            here = fits & (place < lengths)
            states[rows[here], 1 + before[here] + place] = words[here, place]
        states[:, 0] += lengths
        windows = np.lib.stride_tricks.sliding_window_view(states[:, 1:], self.length, axis=1)
        hashes = np.zeros(windows.shape[:2], np.uint64)
        for place in range(self.length):
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + windows[:, :, place].astype(np.uint64)
            hashes ^= hashes >> np.uint64(31)
        # Every window that is not full is different from all others.
        inside = np.arange(hashes.shape[1]) + self.length <= states[:, :1]
        hashes = np.where(inside, hashes, ~np.arange(hashes.shape[1], dtype=np.uint64))
        hashes.sort(axis=1)
        return states, fits & (hashes[:, 1:] != hashes[:, :-1]).all(axis=1)


class Avoids(Rule):
    """No banned phrase occurs. The state has a 1 for each state that an automaton may be in.

    `automaton` is a `decoding.search.banned.BannedPhrases`.
    """

    def __init__(self, automaton: Any) -> None:
        self.automaton = automaton

    def start(self) -> np.ndarray:
        return np.asarray(self.automaton.start(1)).astype(np.int64)

    def extend(
        self, states: np.ndarray, words: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        states, allowed = states.astype(bool), np.ones(lengths.size, bool)
        ends, last_words = self.automaton.ends.T
        for place in range(LONGEST):
            here = np.flatnonzero(place < lengths)
            some, word = states[here], words[here, place]
            allowed[here] &= ~(some[:, ends] & (word[:, None] == last_words)).any(axis=1)
            states[here] = np.asarray(self.automaton.follow(some, word.astype(np.int32)))
        return states.astype(np.int64), allowed
