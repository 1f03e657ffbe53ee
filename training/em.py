"""Expectation maximisation for the IBM models and the HMM alignment model.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation". A model is a translation
table over the `WordPairs` of a corpus and a position model: `Uniform` (Model 1), `PositionTable` or
`Diagonal` (Model 2), `Jumps` (HMM).
"""

import concurrent.futures
from typing import Any, NamedTuple

import numpy as np

from training.dirichlet import digamma, weights
from training.positions import Uniform


class Estimate(NamedTuple):
    """All parameters of a model.

    Attributes:
        translation: `[P]` float64, t(target word | source word) of every word pair.
        positions: parameters of a position model.
    """

    translation: np.ndarray
    positions: Any = Uniform()


class Expected(NamedTuple):
    """What an expectation step returns.

    Attributes:
        counts: `[P]` float64, how often each source word is expected to make each target word.
        statistics: for the position model, block after block.
        log_likelihood: float, of the whole corpus, natural logarithm.
    """

    counts: np.ndarray
    statistics: list
    log_likelihood: float


def first_estimate(words, positions=None):
    """Model 1 before its first step: every target word of the corpus is as probable as any other."""
    size = np.unique(words.target_words).size
    return Estimate(np.full(words.source_words.size, 1 / max(size, 1)), positions or Uniform())


def em_step(words, estimate, *, alpha=0.0, threads=2):
    """Makes one step of expectation maximisation.

    Args:
        words: `WordPairs`.
        estimate: `Estimate`.
        alpha: symmetric Dirichlet prior on every source word's row of the translation table, over
            the target words that it stands together with; 0 for maximum likelihood.
        threads: as `expect`.

    Returns:
        (`Estimate`, the log-likelihood under the estimate that was given). Without priors the
        log-likelihood never falls from one step to the next.
    """
    expected = expect(words, estimate, threads=threads)
    translation = maximise_translation(words, expected.counts, alpha)
    positions = estimate.positions.maximise(expected.statistics)
    return Estimate(translation, positions), expected.log_likelihood


def fit(words, estimate, iterations, *, alpha=0.0, threads=2):
    """Makes several steps.

    Returns:
        (`Estimate`, list of the log-likelihoods before each step).
    """
    history = []
    for _ in range(iterations):
        estimate, log_likelihood = em_step(words, estimate, alpha=alpha, threads=threads)
        history.append(log_likelihood)
    return estimate, history


def expect(words, estimate, *, threads=2):
    """The expectation step.

    Args:
        words: `WordPairs`.
        estimate: `Estimate`.
        threads: how many parts of the corpus to work on at once; does not change the result but
            for the order of a sum.

    Returns:
        `Expected`.
    """
    parts = [part for part in _shares(words.blocks, threads) if part]
    with concurrent.futures.ThreadPoolExecutor(max(len(parts), 1)) as pool:
        results = list(pool.map(lambda blocks: _expect_blocks(words, estimate, blocks), parts))
    counts = sum((r.counts for r in results), np.zeros(words.source_words.size))
    statistics = [block for result in results for block in result.statistics]
    return Expected(counts, statistics, sum(result.log_likelihood for result in results))


def _expect_blocks(words, estimate, blocks):
    counts = np.zeros(words.source_words.size)
    statistics, log_likelihood = [], 0.0
    for block in blocks:
        pairs = words.cell_pairs[block.cells]
        translation = estimate.translation[pairs].reshape(-1, block.source_length)
        result = estimate.positions.expect(block, translation)
        np.add.at(counts, pairs, result.posteriors.ravel())
        statistics.append(result.statistics)
        log_likelihood += result.log_likelihood
    return Expected(counts, statistics, log_likelihood)


def _shares(blocks, number):
    """Splits blocks into a number of runs of about as many cells."""
    ends = np.array([block.cells.stop for block in blocks], np.int64)
    cuts = np.searchsorted(ends, np.arange(1, number) * (ends[-1] / number if blocks else 0))
    bounds = [0, *cuts.tolist(), len(blocks)]
    return [blocks[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def maximise_translation(words, counts, alpha=0.0):
    """The maximisation step of the translation table.

    Args:
        words: `WordPairs`.
        counts: `[P]` float64, expected counts.
        alpha: as `em_step`.

    Returns:
        `[P]` float64. Rows sum to 1 without a prior, and to less with one.
    """
    totals = words.source_sums(counts + alpha)
    if alpha:
        totals = np.exp(digamma(totals))
    return weights(counts, alpha) / words.spread(totals)
