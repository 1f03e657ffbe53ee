"""Collapsed variational inference for the IBM models and the HMM, with fertilities.

Expectation maximisation lets a rare word explain the words of the only sentence in which it
occurs, because the sentence's own links are the evidence for themselves. Here the links of each
target word are weighed by the counts of all other target words instead, as in Gibbs sampling with
the translation table integrated out, but with expected counts in place of samples: no random
numbers, and few iterations.

Asuncion et al. 2009, "On Smoothing and Inference for Topic Models", section 2.4 (CVB0); Östling and
Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo", for the model.
"""

from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.agreement import agreed_posteriors
from nmt_zoo.training.ways.expectation_maximisation.iteration import in_threads
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import Uniform

# Fertilities from this on have one probability. As in `models.fertility`, which is not imported, so
# that align.py runs without TensorFlow.
MOST = 4
_STRENGTH = 1.0  # Tokens that the distribution of all words counts for in that of each word.


class Collapsed(NamedTuple):
    """What is known of one direction of a text.

    Attributes:
        posteriors: `[cells]` float32, probability of every cell's link.
        counted: `[cells]` float32, probabilities by which links are counted as translations:
            `posteriors`, or what both directions agree on.
        positions: parameters of a position model.
        log_likelihood: float, of every target word given the links of the other target words; with
            fertilities, up to a factor for each sentence.
    """

    posteriors: np.ndarray
    counted: np.ndarray
    positions: Any
    log_likelihood: float = 0.0


def first_collapsed(words):
    """Returns the `Collapsed` in which each target word links to all source positions alike."""
    posteriors = np.empty(words.cell_pairs.size, np.float32)
    for block in words.blocks:
        posteriors[block.cells] = 1 / block.source_length
    return Collapsed(posteriors, posteriors, Uniform())


def collapsed_step(words, state, *, alpha, fertile=False, threads=2):
    """Makes one iteration: finds new posteriors, then new parameters of the position model.

    Args:
        words: `WordPairs`.
        state: `Collapsed`.
        alpha: symmetric Dirichlet prior, above 0, on every source word's row of the translation
            table, over the target words that occur in a sentence pair with it.
        fertile: whether the number of target words of each source word has a distribution.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        `Collapsed`, with `counted` equal to `posteriors`.
    """
    counts = _counts(words, state.counted, alpha, threads)
    ratios = None
    if fertile:
        expected = expected_fertilities(words, state.posteriors, threads)
        ratios = log_ratios(expected)[:, :-1]
    known = Known(counts, words.source_sums(counts), ratios)
    found, statistics = new_posteriors(words, state, known, threads=threads)
    return found._replace(positions=state.positions.maximise(statistics))


class Known(NamedTuple):
    """What all links of a corpus tell of the word pairs and source words of some sentence pairs.

    Attributes:
        counts: `[P]` float64, expected count of every word pair plus the prior.
        totals: `[F]` float64, sum of the counts of every source word in the whole corpus.
        ratios: `[MOST + 1, F]` float64 from `log_ratios`, or None without fertilities.
    """

    counts: np.ndarray
    totals: np.ndarray
    ratios: np.ndarray | None


def new_posteriors(words, state, known, *, threads=2):
    """Finds the posteriors of one iteration, for all sentence pairs of a corpus or for some.

    Args:
        words: `Cells` of the sentence pairs.
        state: `Collapsed`.
        known: `Known`.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        (`Collapsed` with the positions of `state`, and `counted` equal to `posteriors`; list of the
        statistics of all blocks, from which `positions.maximise` makes new parameters).
    """
    sources = words.spread(np.arange(known.totals.size))
    posteriors = np.empty_like(state.posteriors)

    def work(blocks):
        results = []
        for block in blocks:
            places = sources[_first_pairs(words, block)]
            totals = known.totals[places]
            weights = others_translation(words, state.counted, block, known.counts, totals)
            if known.ratios is not None:
                ratios = known.ratios[:, places]
                weights[:, :-1] *= _fertility_factors(block, state.posteriors, ratios)
            result = state.positions.expect(block, weights)
            posteriors[block.cells] = result.posteriors.ravel()
            results.append((result.statistics, result.log_likelihood))
        return results

    results = [result for part in in_threads(work, words.blocks, threads) for result in part]
    log_likelihood = sum(result[1] for result in results)
    found = Collapsed(posteriors, posteriors, state.positions, log_likelihood)
    return found, [statistics for statistics, _ in results]


def agree(directions, states, threads=2):
    """Makes both directions count the links on which they agree, as `agreement.agreeing_step`.

    Args:
        directions: `Directions`.
        states: two `Collapsed`.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        List of two `Collapsed`, with new `counted`.
    """
    results = []
    for words, twin, own, other in zip(
        directions, directions[::-1], states, states[::-1], strict=True
    ):
        counted = np.empty_like(own.posteriors)

        def work(blocks, counted=counted, both=(own.posteriors, words, twin, other.posteriors)):
            for block in blocks:
                counted[block.cells] = agreed_posteriors(block, *both).ravel()

        in_threads(work, words.blocks, threads)
        results.append(own._replace(counted=counted))
    return results


def expected_translation(words, counted, alpha, threads=2):
    """Returns t(target word | source word) of every word pair from all counts, `[P]` float64."""
    counts = _counts(words, counted, alpha, threads)
    return counts / words.spread(words.source_sums(counts))


def _counts(words, counted, alpha, threads):
    """Returns the expected count of every word pair plus the prior, `[P]` float64."""
    parts = in_threads(lambda blocks: count(words, counted, blocks), words.blocks, threads)
    return sum(parts, np.zeros(words.num_pairs)) + alpha


def count(words, values, blocks):
    """Returns the sums of some blocks' cells for every word pair, `[P]` float64."""
    counts = np.zeros(words.num_pairs)
    for block in blocks:
        np.add.at(counts, words.cell_pairs[block.cells], values[block.cells].astype(np.float64))
    return counts


def _first_pairs(words, block):
    """Returns the word pairs of the first target word of every sentence, `[B, n]`."""
    size = block.pairs.size * block.source_length
    first = words.cell_pairs[block.first_cell : block.first_cell + size]
    return first.reshape(-1, block.source_length)


def others_translation(words, counted, block, counts, totals):
    """Computes t(target word | source word) of a block from the other target tokens' counts.

    Args:
        words: `WordPairs`.
        counted: as `Collapsed`.
        block: `Block`.
        counts: `[P]` float64, counts of all cells plus the prior.
        totals: `[B, n]` float64, sums of the counts of every source token's word.

    Returns:
        `[R, n]` float64.
    """
    own = _own_counts(words, counted, block)
    translation = counts[words.cell_pairs[block.cells]].reshape(own.shape)
    translation -= own
    totals = totals[block.row_sentences]
    totals -= own
    # Rounding must not make a count of nothing negative.
    return np.maximum(translation, 1e-12) / np.maximum(totals, 1e-12)


def _own_counts(words, counted, block):
    """Computes what each target token adds to the counts of each cell's word pair, `[R, n]`.

    Where a source word is repeated in its sentence, these are the sums over its tokens. Otherwise
    the link to one of them would be evidence for the link to another.
    """
    own = counted[block.cells].reshape(-1, block.source_length)
    pairs = _first_pairs(words, block)
    # The first column of each source word, `[B, n]`.
    firsts = (pairs[:, :, None] == pairs[:, None, :]).argmax(axis=2)
    repeats = (firsts != np.arange(block.source_length)).any(axis=1)
    rows = np.flatnonzero(repeats[block.row_sentences])
    cells = firsts[block.row_sentences[rows]]
    cells += np.arange(rows.size)[:, None] * block.source_length
    sums = np.bincount(cells.ravel(), own[rows].ravel(), cells.size)
    own = own.copy()
    own[rows] = sums[cells]
    return own


def expected_fertilities(words, posteriors, threads=2):
    """Sums the distributions of the fertilities of all tokens of each source word.

    Args:
        words: `Cells`.
        posteriors: as `Collapsed`.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        `[MOST + 1, F]` float64.
    """
    num_words = words.first_pairs.size
    sources = words.spread(np.arange(num_words))

    def work(blocks):
        found = np.zeros([MOST + 1, num_words])
        for block in blocks:
            places = sources[_first_pairs(words, block)[:, :-1]].ravel()
            expected = fertilities(block, posteriors[block.cells].reshape(-1, block.source_length))
            for row, values in zip(found, expected, strict=True):
                row += np.bincount(places, values.ravel(), num_words)
        return found

    return sum(in_threads(work, words.blocks, threads), np.zeros([MOST + 1, num_words]))


def log_ratios(expected):
    """Estimates how much more probable each fertility of each source word is than one less.

    The distribution of a word mixes what is expected of its tokens with that of all words, so that
    rare words have about the fertilities of all.

    Args:
        expected: `[MOST + 1, F]`, sums of `expected_fertilities` over the whole corpus.

    Returns:
        `[MOST + 1, F + 1]` float64; row c is log P(fertility c + 1) - log P(fertility c), except
        that the last row repeats the one before it. The last column is for all other words.
    """
    every = expected.sum(axis=1, keepdims=True) + 0.5
    found = np.concatenate([expected, np.zeros([MOST + 1, 1])], axis=1)
    logs = np.log(found + _STRENGTH * every / every.sum())
    ratios = logs[1:] - logs[:-1]
    return np.concatenate([ratios, ratios[-1:]])


def fertilities(block, posteriors):
    """Computes the distribution of every source token's number of target words.

    Args:
        block: `Block`.
        posteriors: `[R, n]`; the links of different target words count as independent.

    Returns:
        `[MOST + 1, B, n - 1]` float64; the last row is that of `MOST` or more.
    """
    found = np.zeros([MOST + 1, block.pairs.size, block.source_length - 1])
    found[0] = 1
    first = 0
    for size in block.active.tolist():
        moved = found[:, :size] * posteriors[first : first + size, :-1]
        found[:-1, :size] -= moved[:-1]
        found[1:, :size] += moved[:-1]
        first += size
    return found


def _fertility_factors(block, posteriors, ratios):
    """Computes how much more probable fertilities are with a link than without, `[R, n - 1]`.

    The number of the source token's other links is expected; between whole numbers, the logarithm
    of the factor is interpolated.
    """
    own = posteriors[block.cells].reshape(-1, block.source_length)[:, :-1]
    ratios = ratios[:, :, :-1]
    slopes = np.diff(ratios, axis=0)
    sums = np.zeros([block.pairs.size, block.source_length - 1])
    starts = block.first_rows.tolist()
    sizes = block.active.tolist()
    for first, size in zip(starts, sizes, strict=True):
        sums[:size] += own[first : first + size]
    logs = np.empty(own.shape)
    for first, size in zip(starts, sizes, strict=True):
        others = sums[:size] - own[first : first + size]
        total = ratios[0, :size].copy()
        for c in range(MOST):
            total += np.clip(others - c, 0, 1) * slopes[c, :size]
        logs[first : first + size] = total
    return np.exp(logs, out=logs)
