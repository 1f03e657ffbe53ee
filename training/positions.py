"""Where a target word looks in its source sentence: the position models of IBM Models 1 and 2.

Every class here, and `training.hmm.Jumps`, is an immutable set of parameters with two methods:
`expect(block, translation)` is their share in the expectation step on a `Block`, and
`maximise(statistics)` makes new parameters of what `expect` returned for all blocks. Letters as
there: R rows (target tokens), n source positions, of which the last is NULL.
"""

from typing import NamedTuple

import numpy as np


class Expectation(NamedTuple):
    """What `expect` returns.

    Attributes:
        posteriors: `[R, n]` float64, P(target token is aligned to source position | the pair).
        log_likelihood: float, the sum of log P(target | source, target length) of the block.
        statistics: what `maximise` needs to know of the block.
    """

    posteriors: np.ndarray
    log_likelihood: float
    statistics: tuple


def _normalised(weights):
    """(`[R, n]` rows that sum to 1, log of the product of the sums that they had)."""
    totals = weights.sum(axis=1)
    return weights / totals[:, None], float(np.log(totals).sum())


class Uniform(NamedTuple):
    """Model 1: every source position with probability 1/n; Brown et al. 1993, section 4.1."""

    def expect(self, block, translation):
        """`Expectation`; `translation` is `[R, n]` float64, t(target word | source word)."""
        posteriors, log_likelihood = _normalised(translation)
        log_likelihood -= block.num_rows * float(np.log(block.source_length))
        return Expectation(posteriors, log_likelihood, ())

    def maximise(self, statistics):
        return self


class PositionTable(NamedTuple):
    """Model 2 with a free table a(j | i, n), whatever the target length; Brown et al., section 4.2.

    Attributes:
        tables: n -> `[T, n]` float64, rows sum to 1. What has no row is uniform.
    """

    tables: dict

    def expect(self, block, translation):
        """`Expectation`; `translation` is `[R, n]` float64, t(target word | source word)."""
        n = block.source_length
        table = np.full([block.active.size, n], 1 / n)
        known = self.tables.get(n, table)[: block.active.size]
        table[: known.shape[0]] = known
        weights = np.repeat(table, block.active, axis=0)
        weights *= translation
        posteriors, log_likelihood = _normalised(weights)
        counts = np.add.reduceat(posteriors, block.first_rows, axis=0)  # [T, n]
        return Expectation(posteriors, log_likelihood, (counts,))

    def maximise(self, statistics):
        """New parameters: counts divided by their sums."""
        sums = {}
        for (counts,) in statistics:
            total = sums.setdefault(counts.shape[1], np.zeros([0, counts.shape[1]]))
            longer, shorter = (counts, total) if len(counts) > len(total) else (total, counts)
            longer = longer.copy()
            longer[: len(shorter)] += shorter
            sums[counts.shape[1]] = longer
        return PositionTable({n: c / c.sum(axis=1, keepdims=True) for n, c in sums.items()})


class Diagonal(NamedTuple):
    """Model 2 by distance from the diagonal; Dyer, Chahuneau and Smith 2013, section 2.

    NULL has a fixed probability; the source words share the rest in proportion to
    exp(-tension |i / m - j / (n - 1)|), i of m target tokens and j of n - 1 words counted from 1.

    Attributes:
        tension: lambda, at least 0; 0 is uniform.
        null_probability: p0, in (0, 1).
    """

    tension: float = 4.0
    null_probability: float = 0.08

    def expect(self, block, translation):
        """`Expectation`; `translation` is `[R, n]` float64, t(target word | source word)."""
        n, m, i = (
            block.source_length,
            block.target_lengths[block.row_sentences],
            block.row_positions,
        )
        if n == 1:  # There is only NULL.
            posteriors, log_likelihood = _normalised(translation)
            return Expectation(posteriors, log_likelihood, ())
        distances = _distances(i, m, n - 1)  # [R, n - 1]
        weights = np.empty_like(translation)
        words = np.exp(-self.tension * distances, out=weights[:, :-1])
        words *= ((1 - self.null_probability) / words.sum(axis=1))[:, None]
        weights[:, -1] = self.null_probability
        weights *= translation
        posteriors, log_likelihood = _normalised(weights)
        distance = float(np.vdot(posteriors[:, :-1], distances))
        # Rows of the same i and m have the same normaliser: their masses are added.
        places = m * block.active.size + i
        mass = np.bincount(places, 1 - posteriors[:, -1])
        places = np.flatnonzero(mass)
        m, i = np.divmod(places, block.active.size)
        return Expectation(posteriors, log_likelihood, (n - 1, distance, m, i, mass[places]))

    def maximise(self, statistics):
        """New parameters, with the best tension for the expected distances.

        Dyer et al. climb by a few gradient steps of a fixed size. The function is concave in
        the one variable, so Newton's steps, kept inside [0, 100], reach its top instead.
        """
        statistics = [block for block in statistics if block]
        if not statistics:
            return self
        distance = sum(block[1] for block in statistics)
        contexts = [(_distances(i, m, words), mass) for words, _, m, i, mass in statistics]
        low, high, tension = 0.0, 100.0, self.tension
        for _ in range(50):
            slope, curvature = -distance, 0.0
            for distances, mass in contexts:
                p = np.exp(-tension * distances)
                p /= p.sum(axis=1, keepdims=True)
                mean = (p * distances).sum(axis=1)
                slope += mass @ mean
                curvature += mass @ ((p * distances**2).sum(axis=1) - mean**2)
            low, high = (tension, high) if slope > 0 else (low, tension)
            step = tension + slope / curvature if curvature > 0 else tension
            before, tension = tension, step if low < step < high else (low + high) / 2
            if abs(tension - before) < 1e-9:
                break
        return self._replace(tension=float(tension))


def _distances(i, m, num_words):
    """`[R, num_words]` float64, how far source words are from the diagonal.

    Args:
        i: `[R]` int, target positions counted from 0.
        m: `[R]` int, target lengths.
        num_words: source words, without NULL.
    """
    return np.abs(((i + 1) / m)[:, None] - np.arange(1, num_words + 1) / num_words)
