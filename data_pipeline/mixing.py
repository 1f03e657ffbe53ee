"""Mixes several corpora: decides how often the pairs of each corpus are seen."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError


class Mixture(NamedTuple):
    """The shares of several corpora that follow each other in one `EncodedCorpus`."""

    sizes: tuple[int, ...]  # number of pairs of each corpus
    shares: tuple[float, ...]  # share of each corpus in the pairs of an epoch; they sum to 1

    def rows(self, seed: int, epoch: int) -> np.ndarray:
        """Returns `[num_pairs]` int64, an epoch's pairs by corpus, as many as all have together.

        Each corpus is read in a new random order on every pass, and an epoch resumes it where the
        previous epoch stopped. So all pairs of a corpus are seen equally often, to within one.
        """
        counts = self.counts()
        starts = np.cumsum([0, *self.sizes])
        return np.concatenate(
            [
                starts[i] + _cycled(self.sizes[i], epoch * counts[i], counts[i], [seed, i])
                for i in range(len(self.sizes))
            ]
        )

    def counts(self) -> np.ndarray:
        """Returns the pairs that an epoch takes of each corpus; they sum to `sum(sizes)`."""
        ends = np.rint(np.cumsum(self.shares) * sum(self.sizes)).astype(np.int64)
        return np.diff(ends, prepend=0)

    def describe(self) -> str:
        """Formats the pairs that an epoch takes of each corpus as one line."""
        counts = zip(self.sizes, self.counts(), strict=True)
        return "an epoch has " + " and ".join(f"{n:,} of {size:,}" for size, n in counts)


def parse_weights(text: str, count: int) -> list[float]:
    """Parses --corpus_weights, a number for each of `count` corpora; empty for no weights.

    Raises UserError: weights that are negative, all 0 or not finite, or another number of them.
    """
    try:
        weights = [float(weight) for weight in text.split(",") if text]
    except ValueError:
        weights = [-1.0]
    total = sum(weights)  # Infinite or NaN if a weight is, or if the sum overflows.
    if weights and (len(weights) != count or min(weights) < 0 or not 0 < total < math.inf):
        raise UserError(
            f"--corpus_weights={text}: expected {count} numbers separated by commas, one for each "
            "corpus: finite, not negative and not all 0"
        )
    return weights


def mixture(
    sizes: Sequence[int], corpus_weights: str = "", temperature: float = 1.0
) -> Mixture | None:
    """Makes a `Mixture` of corpora, or None if an epoch takes every pair exactly once.

    `corpus_weights`, as of --corpus_weights, are the relative shares of the corpora in an epoch, in
    any unit; "" for their sizes. Shares are raised to 1 / `temperature`, which is at least 1 and
    favours small corpora.
    Raises UserError: the weights cannot be used, or a corpus has no pair.
    """
    weights = parse_weights(corpus_weights, len(sizes))
    if not all(sizes):
        raise UserError(
            f"all training pairs of corpus {sizes.index(0) + 1} were dropped; leave it out"
        )
    scaled = np.asarray(weights or sizes, np.float64) ** (1.0 / temperature)
    mixed = Mixture(tuple(sizes), tuple(scaled / scaled.sum()))
    return None if tuple(mixed.counts()) == mixed.sizes else mixed


def _cycled(size, start, count, seed):
    """Returns items `start` to `start + count` of an endless series of shuffled `range(size)`s."""
    cycles = range(start // size, -(-(start + count) // size))
    orders = [np.random.default_rng([*seed, cycle]).permutation(size) for cycle in cycles]
    first = start // size * size
    return np.concatenate([np.zeros(0, np.int64), *orders])[start - first : start - first + count]
