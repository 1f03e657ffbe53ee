"""Expectation maximisation for the IBM models and the HMM alignment model.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation". A model consists of a
translation table over the `WordPairs` of a corpus, and a position model.
"""

import concurrent.futures
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    PositionEstimate,
    PositionTableEstimate,
    SharedEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.sparse_prior import digamma
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import (
    Block,
    Cells,
    Rows,
    WordPairs,
)

# Position models by the name of the setting `positions` of `models.ibm.AlignmentModel`.
POSITIONS = {
    "uniform": UniformEstimate,
    "table": PositionTableEstimate,
    "shared": SharedEstimate,
    "diagonal": DiagonalEstimate,
    "jumps": JumpsEstimate,
}


class Estimate(NamedTuple):
    """All parameters of a model."""

    translation: np.ndarray  # [P] float64, t(target word | source word) of every word pair
    positions: PositionEstimate = UniformEstimate()


class Expected(NamedTuple):
    """Result of an expectation step."""

    counts: np.ndarray  # [P] float64, expected count of each word pair
    statistics: list  # what the position model learns from, one entry for each block
    log_likelihood: float  # of the whole corpus, natural logarithm


def first_estimate(words: WordPairs) -> Estimate:
    """Makes the `Estimate` of Model 1 in which all target words are equally probable."""
    size = np.unique(words.target_words).size
    return Estimate(np.full(words.num_pairs, 1 / max(size, 1)))


def expect(words: Cells, estimate: Estimate, *, threads: int = 2) -> Expected:
    """Makes the expectation step for one direction.

    `threads` parts of the corpus are processed at once, which changes only the order of sums.
    """
    table = translation_of(words, estimate)

    def work(blocks):
        counts = np.zeros(words.num_pairs)

        def keep(block, posteriors):
            np.add.at(counts, words.cell_pairs[block.cells], posteriors.ravel())

        return counts, *_expect_blocks(blocks, estimate.positions, table, keep)

    results = in_threads(work, words.blocks, threads)
    return Expected(
        sum((counts for counts, _, _ in results), np.zeros(words.num_pairs)),
        [statistics for _, blocks, _ in results for statistics in blocks],
        sum(log_likelihood for _, _, log_likelihood in results),
    )


def posteriors_of(
    words: Cells,
    positions: PositionEstimate,
    translation: Callable[[Block], np.ndarray],
    *,
    threads: int = 2,
    dtype: type = np.float32,
) -> tuple[np.ndarray, list, float]:
    """Makes the expectation step, and keeps the posterior of every cell.

    `translation` returns t(target word | source word) of the cells of a block, `[R, n]` float64.
    Returns (`[cells]` posteriors, statistics of all blocks, log-likelihood).
    """
    posteriors = np.empty(words.cell_pairs.size, dtype)

    def keep(block, found):
        posteriors[block.cells] = found.ravel()

    def work(blocks):
        return _expect_blocks(blocks, positions, translation, keep)

    results = in_threads(work, words.blocks, threads)
    statistics = [block for blocks, _ in results for block in blocks]
    return posteriors, statistics, sum(log_likelihood for _, log_likelihood in results)


def _expect_blocks(blocks, positions, translation, keep):
    """Calls `keep(block, posteriors)` for each block; returns (statistics, log-likelihood)."""
    statistics, log_likelihood = [], 0.0
    for block in blocks:
        found = positions.expect(block, translation(block))
        keep(block, found.posteriors)
        statistics.append(found.statistics)
        log_likelihood += found.log_likelihood
    return statistics, log_likelihood


def translation_of(words: Cells, estimate: Estimate) -> Callable[[Block], np.ndarray]:
    """Returns the function of a block for its t(target word | source word), `[R, n]` float64."""

    def translation(block):
        found = estimate.translation[words.cell_pairs[block.cells]]
        return found.reshape(-1, block.source_length)

    return translation


def count(words: Cells, values: Callable[[Block], np.ndarray], *, threads: int = 2) -> np.ndarray:
    """Sums `values(block)`, `[R, n]` or `[R * n]`, of cells for every word pair, `[P]` float64."""

    def work(blocks):
        counts = np.zeros(words.num_pairs)
        for block in blocks:
            found = values(block).ravel().astype(np.float64, copy=False)
            np.add.at(counts, words.cell_pairs[block.cells], found)
        return counts

    return sum(in_threads(work, words.blocks, threads), np.zeros(words.num_pairs))


def in_threads(work: Callable[[list[Block]], Any], blocks: list[Block], threads: int) -> list:
    """Calls `work` on runs of about equally many cells in threads; returns results in order.

    NumPy releases the interpreter's lock inside its operations, so two threads keep two cores busy.
    """
    ends = np.array([block.cells.stop for block in blocks] or [0], np.float64)
    shares = np.arange(1, threads) / threads * ends[-1]
    bounds = [0, *np.searchsorted(ends, shares).tolist(), len(blocks)]
    parts = [blocks[start:end] for start, end in itertools.pairwise(bounds) if start < end]
    if len(parts) <= 1:
        return [work(part) for part in parts]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(work, parts))


def maximise_translation(words: Rows, counts: np.ndarray, alpha: float = 0.0) -> np.ndarray:
    """Makes the maximisation step of the translation table, `[P]` float64, from expected counts.

    Under a Dirichlet prior, a probability is exp of its expected logarithm, digamma(count + alpha)
    - digamma(their sum in the row); Johnson 2007, "Why Doesn't EM Find Good HMM POS-Taggers?",
    section 2.3. With a small alpha, a count of 10 hardly changes and a count of 0.1 vanishes:
    tables become sparse, and rows sum to less than 1.

    `alpha` is the symmetric prior on every source word's row, over the target words that occur in
    a sentence pair with it; 0 for maximum likelihood.
    """
    totals = words.source_sums(counts + alpha)
    if not alpha:
        return counts / words.spread(totals)
    logs = digamma(counts + alpha) - words.spread(digamma(totals))
    # Never 0: a target word all of whose probabilities vanish would have no possible source word.
    return np.maximum(np.exp(logs), 1e-200)


def spread_missing(
    words: Rows, translation: np.ndarray, vocab_size: int, smoothing: float
) -> np.ndarray:
    """Divides the probability that rows of a translation table lack evenly among all target words.

    A sparse prior leaves rows that sum to less than 1. As they are, half of a rare word's
    probability would be missing, and other source words or NULL would explain its translations.
    The result is what `models.layers.translation_table` makes of the same table.

    `translation` is `[P]` float64. Of the `vocab_size` target words, those outside a row get a
    share, too. `smoothing`, in [0, 1), is divided evenly even if nothing is missing.
    """
    kept = 1 - smoothing
    missing = 1 - kept * words.source_sums(translation)
    return kept * translation + words.spread(missing / vocab_size)
