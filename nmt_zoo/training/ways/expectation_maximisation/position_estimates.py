"""Position models of IBM Models 1 and 2: the probability of each source position.

Letters as in `Block`: R rows (target tokens), n source positions, of which the last is NULL.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block

_MM_STEPS = 20
_LEAST_WEIGHT = 1e-12  # Of a position: one that is never linked keeps a logarithm.


class Expectation(NamedTuple):
    """Result of `expect`."""

    posteriors: np.ndarray  # [R, n] float64, P(target token aligned to source position | pair)
    log_likelihood: float  # sum of log P(target | source, target length) of the block
    statistics: tuple  # arrays of the block from which `maximise` makes new parameters


@dataclass(frozen=True)
class PositionEstimate:
    """Parameters of a position model, which never change; for layers of `models.layers`."""

    learned: ClassVar[tuple[str, ...]] = ()  # Names of the parameters that `maximise` changes.

    @classmethod
    def first(cls, *, sizes: tuple[int, int] = (0, 0), **settings: Any) -> "PositionEstimate":
        """Makes the parameters to begin with, by the settings of an `AlignmentModel`.

        `sizes` are the largest numbers of target and source positions with parameters.
        """
        return cls()

    def arrays(self) -> list[np.ndarray]:
        """Returns the learned parameters, float64, for the layer."""
        return [np.asarray(getattr(self, name)) for name in self.learned]

    def pack(self) -> np.ndarray:
        """Returns the learned parameters as one flat float64 array, for checkpoints."""
        return np.concatenate([np.zeros(0), *map(np.ravel, self.arrays())])

    def unpack(self, packed: np.ndarray) -> "PositionEstimate":
        """Returns the parameters at the beginning of a packed array."""
        values, first = {}, 0
        for name, old in zip(self.learned, self.arrays(), strict=True):
            values[name] = packed[first : first + old.size].reshape(old.shape)
            first += old.size
        return replace(self, **values)

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        """Makes the expectation step on a block; `translation` is `[R, n]`, t(target | source)."""
        raise NotImplementedError

    def merged(self, statistics: list[tuple]) -> list[tuple]:
        """Makes a list, no longer for a larger corpus, of which `maximise` makes the same.

        Here, it adds up counts with equal numbers of columns, one array in each tuple.
        """
        sums = {}
        for (counts,) in filter(None, statistics):
            total = sums.get(counts.shape[1], counts[:0])
            longer, shorter = (counts, total) if len(counts) > len(total) else (total, counts)
            longer = longer.copy()
            longer[: len(shorter)] += shorter
            sums[counts.shape[1]] = longer
        return [(counts,) for counts in sums.values()]

    def maximise(self, statistics: list[tuple]) -> "PositionEstimate":
        """Makes new parameters from the statistics that `expect` returned for all blocks."""
        return self


def _normalised(weights):
    """Returns (`[R, n]` rows scaled to sum to 1, log of the product of their sums before)."""
    totals = weights.sum(axis=1, keepdims=True)
    return weights / totals, float(np.log(totals).sum())


class UniformEstimate(PositionEstimate):
    """Model 1: every source position has probability 1/n; Brown et al. 1993, section 4.1."""

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        posteriors, log_likelihood = _normalised(translation)
        log_likelihood -= block.num_rows * float(np.log(block.source_length))
        return Expectation(posteriors, log_likelihood, ())


@dataclass(frozen=True)
class PositionTableEstimate(PositionEstimate):
    """Model 2: a free table a(j | i, n), whatever the target length; Brown et al., section 4.2."""

    learned = ("table",)
    table: np.ndarray  # [n - 1, target position, source position] float64; rows of 0 are uniform

    @classmethod
    def first(cls, *, sizes: tuple[int, int] = (0, 0), **settings: Any) -> "PositionEstimate":
        heights, lengths = sizes
        return cls(np.zeros([lengths, heights, lengths]))

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        n = block.source_length
        table = np.full([block.active.size, n], 1 / n)
        rows = self.table[n - 1 : n, : block.active.size, :n].reshape(-1, n)
        fitted = np.flatnonzero(rows.any(axis=1))
        table[fitted] = rows[fitted]
        return _expect_by_table(table, block, translation)

    def maximise(self, statistics: list[tuple]) -> "PositionEstimate":
        table = np.zeros_like(self.table)
        for (counts,) in self.merged(statistics):
            n, rows = counts.shape[1], counts[: self.table.shape[1]]
            if n <= len(table):
                table[n - 1, : len(rows), :n] = rows / rows.sum(axis=1, keepdims=True)
        return replace(self, table=table)


def _expect_by_table(table, block, translation):
    """Makes the expectation step by `[T, n]` priors; statistics are expected links, `[T, n]`."""
    weights = np.repeat(table, block.active, axis=0)
    weights *= translation
    posteriors, log_likelihood = _normalised(weights)
    counts = np.add.reduceat(posteriors, block.first_rows, axis=0)
    return Expectation(posteriors, log_likelihood, (counts,))


@dataclass(frozen=True)
class SharedEstimate(PositionEstimate):
    """Model 2 with one table of weights for all n: row i, divided by the sum of its first n."""

    learned = ("weights",)
    # [T, n] float64, above 0. Further source positions weigh as much as the last one of their row;
    # further rows are uniform.
    weights: np.ndarray

    @classmethod
    def first(cls, *, sizes: tuple[int, int] = (0, 0), **settings: Any) -> "PositionEstimate":
        return cls(np.ones(sizes))

    def _table(self, height, n):
        """Returns the priors of n source positions for `height` target positions."""
        weights, fitted = np.ones([height, n]), self.weights[:height]
        weights[: len(fitted)] = fitted[:, np.minimum(np.arange(n), fitted.shape[1] - 1)]
        return weights / weights.sum(axis=1, keepdims=True)

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        table = self._table(block.active.size, block.source_length)
        return _expect_by_table(table, block, translation)

    def maximise(self, statistics: list[tuple]) -> "PositionEstimate":
        """Returns new weights, under which the expected alignments are more probable.

        There is no closed form, because sentences of other lengths divide by other sums. Each of
        some steps of the MM algorithm of Hunter 2004, "MM Algorithms for Generalized Bradley-Terry
        Models", gives w_j = c_j / sum_n a_nj C_n / (a_n1 w_1 + ... + a_nn w_n), with c_j the
        expected links of position j, C_n those of all sentences of length n, and a_nj the number of
        their positions that weigh w_j; none lowers the likelihood.
        """
        groups = [counts for (counts,) in self.merged(statistics)]
        if not groups:
            return self
        height, columns = self.weights.shape
        longest = max(counts.shape[1] for counts in groups)
        links, totals = np.zeros([height, columns]), np.zeros([height, longest])
        for counts in groups:
            rows, n = counts[:height].shape
            np.add.at(links[:rows].T, np.minimum(np.arange(n), columns - 1), counts[:height].T)
            totals[:rows, n - 1] += counts[:height].sum(axis=1)
        lengths = np.arange(1, longest + 1)[:, None]
        shared = (lengths > np.arange(columns)).astype(float)
        shared[:, -1] = np.maximum(lengths[:, 0] - (columns - 1), 0)
        weights = self.weights / self.weights.mean(axis=1, keepdims=True)
        for _ in range(_MM_STEPS):
            norms = (totals / (weights @ shared.T)) @ shared
            fitted = np.divide(links, norms, out=weights.copy(), where=norms > 0)
            weights = np.maximum(fitted, _LEAST_WEIGHT)
        return replace(self, weights=weights)


@dataclass(frozen=True)
class DiagonalEstimate(PositionEstimate):
    """Model 2 by distance from the diagonal; Dyer, Chahuneau and Smith 2013, section 2.

    NULL has a fixed probability; the source words share the rest in proportion to
    exp(-tension |i / m - j / (n - 1)|), i of m target tokens and j of n - 1 words counted from 1.
    """

    learned = ("tension",)
    tension: float = 4.0  # lambda, at least 0; 0 is uniform
    null_probability: float = 0.08  # p0, in (0, 1)

    @classmethod
    def first(cls, *, null_probability: float = 0.08, **settings: Any) -> "PositionEstimate":
        return cls(null_probability=null_probability)

    def expect(self, block: Block, translation: np.ndarray) -> Expectation:
        num_words = block.source_length - 1
        if not num_words:  # There is only NULL.
            return Expectation(*_normalised(translation), ())
        i, m = block.row_positions, block.target_lengths[block.row_sentences]
        # Rows with the same i and m are adjacent; there are C such contexts.
        firsts = np.flatnonzero(np.diff(i, prepend=-1) | np.diff(m, prepend=0))
        sizes = np.diff(firsts, append=m.size)
        positions = (i[firsts] + 1) / m[firsts]
        distances = _distances(positions, num_words)
        words = np.exp(-self.tension * distances)
        words *= (1 - self.null_probability) / words.sum(axis=1, keepdims=True)
        null = np.full([firsts.size, 1], self.null_probability)
        weights = np.repeat(np.concatenate([words, null], axis=1), sizes, axis=0)  # [R, n]
        weights *= translation
        posteriors, log_likelihood = _normalised(weights)
        mass = np.add.reduceat(posteriors, firsts, axis=0)[:, :-1]
        return Expectation(posteriors, log_likelihood, (positions, mass))

    def merged(self, statistics: list[tuple]) -> list[tuple]:
        by_length, contexts = {}, []
        for positions, mass in filter(None, statistics):
            by_length.setdefault(mass.shape[1], []).append((positions, mass))
        for blocks in by_length.values():
            positions, mass = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
            order = np.argsort(positions, kind="stable")
            firsts = np.flatnonzero(np.diff(positions[order], prepend=0))
            contexts.append((positions[order[firsts]], np.add.reduceat(mass[order], firsts)))
        return contexts

    def maximise(self, statistics: list[tuple]) -> "PositionEstimate":
        """Returns new parameters, with the best tension for the expected distances.

        Dyer et al. take a few gradient steps of a fixed size. The function is concave in the
        tension, so Newton steps, kept inside [0, 100], find its maximum instead.
        """
        total, contexts = 0.0, []
        for positions, mass in self.merged(statistics):
            distances = _distances(positions, mass.shape[1])
            total += (distances * mass).sum()
            contexts.append((distances, mass.sum(axis=1)))
        if not contexts:
            return self
        low, high, tension = 0.0, 100.0, self.tension
        for _ in range(50):
            slope, curvature = -total, 0.0
            for distances, mass in contexts:
                p = np.exp(-tension * distances)
                p /= p.sum(axis=1, keepdims=True)
                mean = (p * distances).sum(axis=1)
                slope += (mass * mean).sum()
                curvature += (mass * ((p * distances**2).sum(axis=1) - mean**2)).sum()
            low, high = (tension, high) if slope > 0 else (low, tension)
            step = tension + slope / curvature if curvature > 0 else tension
            before, tension = tension, step if low < step < high else (low + high) / 2
            if abs(tension - before) < 1e-9:
                break
        return replace(self, tension=float(tension))


def _distances(positions, num_words):
    """Returns the distances of `[C]` target positions i / m from j / N of N words, `[C, N]`."""
    return np.abs(positions[:, None] - np.arange(1, num_words + 1) / num_words)
