"""Expectation maximisation for the IBM models and the HMM alignment model.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation". A model consists of a
translation table over the `WordPairs` of a corpus and a position model: `Uniform` (Model 1),
`PositionTable` or `Diagonal` (Model 2), `Jumps` (HMM).
"""

import concurrent.futures
import itertools
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import Jumps
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    Diagonal,
    PositionTable,
    Uniform,
)
from nmt_zoo.training.ways.expectation_maximisation.sparse_prior import digamma

# Position models by the name of the setting `positions` of `models.ibm.AlignmentModel`.
POSITIONS = {"uniform": Uniform, "table": PositionTable, "diagonal": Diagonal, "jumps": Jumps}


class Estimate(NamedTuple):
    """All parameters of a model.

    Attributes:
        translation: `[P]` float64, t(target word | source word) of every word pair.
        positions: parameters of a position model.
    """

    translation: np.ndarray
    positions: Any = Uniform()


class Expected(NamedTuple):
    """Result of an expectation step.

    Attributes:
        counts: `[P]` float64, how often each source word is expected to generate each target word.
        statistics: list, what the position model learns from, one entry for each block.
        log_likelihood: float, of the whole corpus, natural logarithm.
    """

    counts: np.ndarray
    statistics: list
    log_likelihood: float


def first_estimate(words):
    """Makes the `Estimate` of Model 1 in which all target words are equally probable."""
    size = np.unique(words.target_words).size
    return Estimate(np.full(words.num_pairs, 1 / max(size, 1)))


def em_step(words, estimate, *, alpha=0.0, threads=2):
    """Makes one step of expectation maximisation.

    Args:
        words: `WordPairs`.
        estimate: `Estimate`.
        alpha: symmetric Dirichlet prior on every source word's row of the translation table, over
            the target words that occur in a sentence pair with it; 0 for maximum likelihood.
        threads: as `expect`.

    Returns:
        (`Estimate`, the log-likelihood under the given estimate). Without a prior the
        log-likelihood never falls from one step to the next.
    """
    expected = expect(words, estimate, threads=threads)
    translation = maximise_translation(words, expected.counts, alpha)
    positions = estimate.positions.maximise(expected.statistics)
    return Estimate(translation, positions), expected.log_likelihood


def expect(words, estimate, *, threads=2):
    """Makes the expectation step.

    Args:
        words: `WordPairs`.
        estimate: `Estimate`.
        threads: how many parts of the corpus are processed at once, which changes only the order of
            sums.

    Returns:
        `Expected`.
    """

    def work(blocks):
        counts = np.zeros(words.num_pairs)
        statistics, log_likelihood = [], 0.0
        for block in blocks:
            result = expect_block(words, estimate, block)
            np.add.at(counts, words.cell_pairs[block.cells], result.posteriors.ravel())
            statistics.append(result.statistics)
            log_likelihood += result.log_likelihood
        return Expected(counts, statistics, log_likelihood)

    results = in_threads(work, words.blocks, threads)
    return Expected(
        sum((r.counts for r in results), np.zeros(words.num_pairs)),
        [statistics for result in results for statistics in result.statistics],
        sum(result.log_likelihood for result in results),
    )


def expect_block(words, estimate, block):
    """Returns the `position_estimates.Expectation` of one block."""
    return estimate.positions.expect(block, block_translation(words, estimate, block))


def block_translation(words, estimate, block):
    """Returns t(target word | source word) of the cells of a block, `[R, n]` float64."""
    translation = estimate.translation[words.cell_pairs[block.cells]]
    return translation.reshape(-1, block.source_length)


def in_threads(work, blocks, threads):
    """Splits blocks into runs of about equally many cells, and calls `work` on each in a thread.

    NumPy releases the interpreter's lock inside its operations, so two threads keep two cores busy.

    Returns:
        list of the results, in the order of the blocks.
    """
    ends = np.array([block.cells.stop for block in blocks] or [0], np.float64)
    shares = np.arange(1, threads) / threads * ends[-1]
    bounds = [0, *np.searchsorted(ends, shares).tolist(), len(blocks)]
    parts = [blocks[start:end] for start, end in itertools.pairwise(bounds) if start < end]
    if len(parts) <= 1:
        return [work(part) for part in parts]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(work, parts))


def maximise_translation(words, counts, alpha=0.0):
    """Makes the maximisation step of the translation table.

    Under a Dirichlet prior, a probability is exp of its expected logarithm, digamma(count + alpha)
    - digamma(their sum in the row); Johnson 2007, "Why Doesn't EM Find Good HMM POS-Taggers?",
    section 2.3. With a small alpha, a count of 10 hardly changes and a count of 0.1 vanishes:
    tables become sparse.

    Args:
        words: `WordPairs`.
        counts: `[P]` float64, expected counts, at least 0.
        alpha: as `em_step`.

    Returns:
        `[P]` float64. Rows sum to 1 without a prior, and to less with one.
    """
    totals = words.source_sums(counts + alpha)
    if not alpha:
        return counts / words.spread(totals)
    logs = digamma(counts + alpha) - words.spread(digamma(totals))
    # Never 0: a target word all of whose probabilities vanish would have no possible source word.
    return np.maximum(np.exp(logs), 1e-200)


def spread_missing(words, translation, vocab_size, smoothing):
    """Divides the probability that rows of a translation table lack evenly among all target words.

    A sparse prior leaves rows that sum to less than 1. As they are, half of a rare word's
    probability would be missing, and other source words or NULL would explain its translations.
    The result is what `models.layers.translation_table` makes of the same table.

    Args:
        words: `WordPairs`.
        translation: `[P]` float64; no row sums to more than 1.
        vocab_size: number of target words, of which those outside a row get a share, too.
        smoothing: share of every row that is divided evenly even if nothing is missing, in [0, 1).

    Returns:
        `[P]` float64.
    """
    kept = 1 - smoothing
    missing = 1 - kept * words.source_sums(translation)
    return kept * translation + words.spread(missing / vocab_size)
