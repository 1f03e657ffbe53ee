"""The expectation step and the maximisation step of the translation table.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation". A model consists of a
translation table over the word pairs of a corpus, and a position model.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    PositionEstimate,
    PositionTableEstimate,
    SharedEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block, Rows, SentencePairs

# Position models by the name of the setting `positions` of `models.ibm.AlignmentModel`.
POSITIONS = {
    "uniform": UniformEstimate,
    "table": PositionTableEstimate,
    "shared": SharedEstimate,
    "diagonal": DiagonalEstimate,
    "jumps": JumpsEstimate,
}
_SHIFT = 8  # The series in `digamma` is exact to about 1e-13 for x of at least this.


def posteriors_of(
    pairs: SentencePairs,
    positions: PositionEstimate,
    translation: Callable[[Block], np.ndarray],
    dtype: type = np.float64,
) -> tuple[np.ndarray, list, float]:
    """Makes the expectation step of one direction.

    `translation` returns t(target word | source word) of the cells of a block, `[R, n]` float64.
    Returns (`[cells]` posteriors, statistics of all blocks, log-likelihood).
    """
    posteriors = np.empty(pairs.cell_pairs.size, dtype)
    statistics, log_likelihood = [], 0.0
    for block in pairs.blocks:
        expected = positions.expect(block, translation(block))
        posteriors[block.cells] = expected.posteriors.ravel()
        statistics.append(expected.statistics)
        log_likelihood += expected.log_likelihood
    return posteriors, statistics, log_likelihood


def table_values(pairs: SentencePairs, table: np.ndarray) -> Callable[[Block], np.ndarray]:
    """Returns the function of a block for the values of its cells' word pairs, `[R, n]`.

    `table` is `[P]`, of the word pairs of these sentence pairs.
    """
    return lambda block: table[pairs.cell_pairs[block.cells]].reshape(-1, block.source_length)


def agreeing_posteriors(
    directions: Sequence[SentencePairs], posteriors: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Returns what each direction counts of its links; a single direction counts its posteriors.

    A model lets several target words align to one source word, but not the other way round, so the
    models of the two directions make different errors. In Liang, Taskar and Klein 2006, "Alignment
    by Agreement", both count only links that both find probable: the posterior of a link is the
    product of both directions' posteriors, which approximates the product of both distributions
    over alignments (section 3.2). NULL, and the target's `</s>` where `</s>` has cells, have no
    counterpart in the other direction and keep the posteriors of their own direction. Then the
    posteriors of each target word are scaled to sum to 1.

    Both `posteriors` and results are `[cells]` of one dtype, an array for each direction.
    """
    if len(directions) == 1:
        return list(posteriors)
    results = [np.empty_like(own) for own in posteriors]
    for side, (pairs, result) in enumerate(zip(directions, results, strict=True)):
        own, other, twin = posteriors[side], posteriors[1 - side], directions[1 - side]
        for block in pairs.blocks:
            both = own[block.cells].reshape(-1, block.source_length).astype(np.float64)
            both[:, :-1] *= pairs.facing(block, twin, other)
            # The sum is 0 if each direction excludes all links that the other finds possible.
            both /= np.maximum(both.sum(axis=1, keepdims=True), 1e-30)
            result[block.cells] = both.ravel()
    return results


def count_links(pairs: SentencePairs, posteriors: np.ndarray) -> np.ndarray:
    """Returns the expected count of every word pair, `[P]` float64, by `[cells]` posteriors."""
    counts = np.zeros(pairs.num_pairs)
    for block in pairs.blocks:
        values = posteriors[block.cells].astype(np.float64, copy=False)
        np.add.at(counts, pairs.cell_pairs[block.cells], values)
    return counts


def maximise_translation(rows: Rows, counts: np.ndarray, alpha: float = 0.0) -> np.ndarray:
    """Makes the maximisation step of the translation table, `[P]` float64, from expected counts.

    Under a Dirichlet prior, a probability is exp of its expected logarithm, digamma(count + alpha)
    - digamma(their sum in the row); Johnson 2007, "Why Doesn't EM Find Good HMM POS-Taggers?",
    section 2.3. With a small alpha, a count of 10 hardly changes and a count of 0.1 vanishes:
    tables become sparse, and rows sum to less than 1.

    `alpha` is the symmetric prior on every source word's row, over the target words that occur in
    a sentence pair with it; 0 for maximum likelihood.
    """
    totals = rows.source_sums(counts + alpha)
    if not alpha:
        return counts / rows.spread(totals)
    logs = digamma(counts + alpha) - rows.spread(digamma(totals))
    # Never 0: a target word all of whose probabilities vanish would have no possible source word.
    return np.maximum(np.exp(logs), 1e-200)


def digamma(x: np.ndarray) -> np.ndarray:
    """Computes the derivative of the logarithm of the gamma function, for float64 x above 0.

    Abramowitz and Stegun 1964, equations 6.3.5 (recurrence) and 6.3.18 (series).
    """
    x = np.asarray(x, np.float64)
    below = sum(1 / (x + k) for k in range(_SHIFT))
    x = x + _SHIFT
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return np.log(x) - 0.5 / x - series - below
