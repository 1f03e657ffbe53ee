"""Several corpora as one: how often the pairs of each are seen."""

import math
from typing import NamedTuple

import numpy as np

from data_pipeline.files import UserError


class Mixture(NamedTuple):
    """Corpora that stand one after the other in an `EncodedCorpus`.

    Attributes:
        sizes: number of pairs of each.
        shares: share of each in the pairs of an epoch; they sum to 1.
    """

    sizes: tuple
    shares: tuple

    def rows(self, seed, epoch):
        """The pairs of an epoch, which has as many as there are.

        Each corpus is gone through in ever new orders, from epoch to epoch on where it stopped, so
        that over time all of its pairs are seen equally often, to within one.

        Args:
            seed: int.
            epoch: counted from 0.

        Returns:
            int64 pair numbers, those of a corpus one after the other.
        """
        counts = self.counts()
        starts = np.cumsum([0, *self.sizes])
        return np.concatenate(
            [
                starts[i] + _cycled(self.sizes[i], epoch * counts[i], counts[i], [seed, i])
                for i in range(len(self.sizes))
            ]
        )

    def counts(self):
        """How many pairs an epoch takes of each corpus; they sum to the number of all pairs."""
        ends = np.rint(np.cumsum(self.shares) * sum(self.sizes)).astype(np.int64)
        return np.diff(ends, prepend=0)

    def describe(self):
        """One line: how much of an epoch is of each corpus."""
        counts = zip(self.sizes, self.counts(), strict=True)
        return "an epoch has " + " and ".join(f"{n:,} of {size:,}" for size, n in counts)


def parse_weights(text, count):
    """Reads the weights of several corpora.

    Args:
        text: numbers with commas between them, as --corpus_weights has them; empty for none.
        count: how many corpora there are.

    Returns:
        list of float, one for each corpus; [] for an empty text.

    Raises:
        UserError: weights that are no finite numbers, not as many as there are corpora, negative,
            or all 0.
    """
    try:
        weights = [float(weight) for weight in text.split(",") if text]
    except ValueError:
        weights = [-1.0]
    total = sum(weights)  # Infinite or NaN if one of them is, or all are too large together.
    if weights and (len(weights) != count or min(weights) < 0 or not 0 < total < math.inf):
        raise UserError(
            f"--corpus_weights={text}: expected a number for each of {count} corpora, with commas "
            "between them, finite, none negative and not all 0"
        )
    return weights


def mixture(sizes, weights=(), temperature=1.0):
    """A `Mixture` of corpora.

    Args:
        sizes: number of pairs of each corpus, at least 1.
        weights: how much of an epoch is to be of each corpus, in any unit; () for their sizes.
        temperature: at least 1; the shares are brought closer to each other by taking the weights
            to the power of 1 / temperature: 1 leaves them, and a high one makes all alike
            (Arivazhagan et al. 2019, section 4, have 5).

    Returns:
        `Mixture`, or None where every pair is seen once an epoch, as without one.
    """
    weights = np.asarray(weights or sizes, np.float64) ** (1.0 / temperature)
    found = Mixture(tuple(sizes), tuple(weights / weights.sum()))
    return None if tuple(found.counts()) == found.sizes else found


def _cycled(size, start, count, seed):
    """Numbers `start` to `start + count` of endless permutations of `range(size)` in a row."""
    cycles = range(start // size, -(-(start + count) // size))
    orders = [np.random.default_rng([*seed, cycle]).permutation(size) for cycle in cycles]
    first = start // size * size
    return np.concatenate([np.zeros(0, np.int64), *orders])[start - first : start - first + count]
