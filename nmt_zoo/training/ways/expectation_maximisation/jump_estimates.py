"""The hidden Markov model of alignments: each source position depends on the one before.

Vogel, Ney and Tillmann 1996, "HMM-Based Word Alignment in Statistical Translation"; NULL as Och and
Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 2.1.2: after a
target word from NULL, the next jump starts at the last source word before NULL.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    Expectation,
    PositionEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block

_STEPS = 30  # Steps of the maximisation of jumps; no step lowers the function.


@dataclass(frozen=True)
class JumpsEstimate(PositionEstimate):
    """Parameters of the model: a weight for every jump from source word to source word.

    After source word q, 1 ... N, the next target word comes from NULL with probability p0, and
    from source word r with (1 - p0) s(r - q) / sum over r' of s(r' - q). The first target word has
    separate weights, by r. Jumps beyond the ends of a table have the weight at its end.
    """

    learned = ("widths", "starts")
    widths: np.ndarray  # [2W + 1] float64, s(d) for d = -W ... W
    starts: np.ndarray  # [W] float64, weights of r = 1 ... W for the first target word
    null_probability: float  # p0, in (0, 1)

    @classmethod
    def first(
        cls, *, max_jump: int = 20, null_probability: float = 0.2, **settings: Any
    ) -> "JumpsEstimate":
        """Returns parameters to start from: the next word is most probable, far words least."""
        distances = np.abs(np.arange(-max_jump, max_jump + 1) - 1)
        widths = np.exp(-distances / 5)
        return cls(widths, widths[max_jump + 1 :], null_probability)

    def transitions(self, num_words: int) -> np.ndarray:
        """Computes P(next source word | last source word), given that the next is not NULL.

        Returns `[num_words + 1, num_words]` float64; row 0 is the start; rows sum to 1.
        """
        jumps, starts = _buckets(num_words, self.starts.size)
        table = np.concatenate([self.starts[starts], self.widths[jumps]])
        return table / table.sum(axis=1, keepdims=True)

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        """Runs forward-backward on all sentences of a block at once.

        The state after a target token is the last source word, `[N + 1]`, where 0 is the start. A
        token from NULL leaves the state unchanged, so NULL needs no states of its own.
        """
        num_words = block.source_length - 1
        if not num_words:
            total = float(np.log(translation).sum())
            return Expectation(np.ones_like(translation), total, ())
        p0 = self.null_probability
        transitions = (1 - p0) * self.transitions(num_words)
        words, null = translation[:, :-1], p0 * translation[:, -1:]
        before, arrived, scales = _forward(block, transitions, words, null)
        # From here on, all values of a row are divided by the row's scale.
        np.reciprocal(scales, out=scales)
        null = null * scales
        after = _backward(block, transitions, words * scales, null)
        posteriors = np.empty_like(translation)
        ahead = words * scales
        ahead *= after[:, 1:]  # [R, N]: this token from a word, and all that follows
        np.multiply(arrived, ahead, out=posteriors[:, :-1])
        after *= before
        posteriors[:, -1] = after.sum(axis=1) * null[:, 0]
        counts = (before.T @ ahead) * transitions  # [N + 1, N]
        return Expectation(posteriors, -float(np.log(scales).sum()), (counts,))

    def maximise(self, statistics: list[tuple]) -> "JumpsEstimate":
        jumps, starts = [], []
        for (counts,) in self.merged(statistics):
            inner, first = _buckets(counts.shape[1], self.starts.size)
            jumps.append((inner, counts[1:]))
            starts.append((first, counts[:1]))
        return replace(
            self,
            widths=_climb(self.widths, jumps),
            starts=_climb(self.starts, starts),
        )


def _buckets(num_words, widest):
    """Returns indices into `widths`, `[num_words, num_words]`, and `starts`, `[1, num_words]`."""
    position = np.arange(num_words)
    jumps = np.clip(position - position[:, None], -widest, widest) + widest
    return jumps, np.minimum(position, widest - 1)[None]


def _climb(table, groups):
    """Maximises the sum of counts x log of normalised weights.

    Each context (a row of counts) normalises over the weights that fit into its sentence, so the
    maximum is not a ratio of counts. Replacing each log-normaliser by its tangent gives a lower
    bound that is exact at the current weights and whose maximum is a ratio of counts. So no step
    ever lowers the sum. (Hunter 2004, "MM Algorithms for Generalized Bradley-Terry Models".)

    `groups` lists (indices `[C, N]` into the table, counts `[C, N]`). Returns `[D]` float64
    weights; their scale is arbitrary.
    """
    if not groups:
        return table
    totals = np.zeros(table.size)
    for indices, group in groups:
        totals += np.bincount(indices.ravel(), group.ravel(), table.size)
    contexts = [(indices, group.sum(axis=1)) for indices, group in groups]
    for _ in range(_STEPS):
        slopes = np.zeros(table.size)
        for indices, mass in contexts:
            slope = mass / table[indices].sum(axis=1)
            slopes += np.bincount(indices.ravel(), np.repeat(slope, indices.shape[1]), table.size)
        table = np.where(slopes > 0, totals / np.where(slopes > 0, slopes, 1), table)
        # No jump may become impossible, because it may be the only one in a short sentence.
        table = np.maximum(table / table.max(), 1e-15)
    return table


def _forward(block, transitions, words, null):
    """Makes the forward pass over target positions, for all sentences of the block at once.

    `words` (`[R, N]`) and `null` (`[R, 1]`, times p0) are translation probabilities. Returns
    (`[R, N + 1]` probabilities of the state before each token; `[R, N]` probabilities of the source
    word that is jumped to from there; `[R, 1]` P(token | tokens before)).
    """
    before = np.empty([words.shape[0], transitions.shape[0]])
    arrived = np.empty_like(words)
    scales = np.empty_like(null)
    state = np.zeros([block.pairs.size, transitions.shape[0]])
    state[:, 0] = 1
    first = 0
    for size in block.active.tolist():
        rows = slice(first, first + size)
        before[rows] = state[:size]
        np.matmul(before[rows], transitions, out=arrived[rows])
        state = before[rows] * null[rows]
        state[:, 1:] += arrived[rows] * words[rows]
        scales[rows] = state.sum(axis=1, keepdims=True)
        state /= scales[rows]
        first += size
    return before, arrived, scales


def _backward(block, transitions, words, null):
    """Computes P(tokens after this one | state) / P(tokens after this one | tokens up to it).

    `words` and `null` are as in `_forward`, divided by the row's scale. Returns `[R, N + 1]`
    float64, by the state after the row's token.
    """
    after = np.ones([words.shape[0], transitions.shape[0]])
    last = after.shape[0]
    sizes = block.active.tolist()
    for previous, size in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
        rows = slice(last - size, last)
        earlier = slice(last - size - previous, last - previous)
        np.matmul(words[rows] * after[rows, 1:], transitions.T, out=after[earlier])
        after[earlier] += null[rows] * after[rows]
        last -= size
    return after
