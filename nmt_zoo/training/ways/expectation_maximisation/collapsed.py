"""Collapsed variational inference for the IBM models and the HMM, with fertilities.

Expectation maximisation lets a rare word explain the words of the only sentence in which it
occurs, because the sentence's own links are the evidence for themselves. Here the links of each
target word are weighed by the counts of all other target words instead, as in Gibbs sampling with
the translation table integrated out, but with expected counts in place of samples: no random
numbers, and few iterations.

Asuncion et al. 2009, "On Smoothing and Inference for Topic Models", section 2.4 (CVB0); Östling and
Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo", for the model.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.agreement import agreeing_posteriors
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    count,
    in_threads,
    posteriors_of,
)
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    PositionEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block, Cells, WordPairs

# Fertilities from this on have one probability. As in `models.fertility`, which is not imported, so
# that align.py runs without TensorFlow.
MOST = 4
_STRENGTH = 1.0  # Pseudo-count of the global fertility distribution in each word's smoothing.


class Collapsed(NamedTuple):
    """State of CVB0 inference for one direction."""

    posteriors: np.ndarray  # [cells] float32, probability of every cell's link
    counted: np.ndarray  # [cells] float32, as counted: `posteriors`, or what directions agree on
    positions: PositionEstimate
    # Of every target word given the links of the others; with fertilities, up to a factor for each
    # sentence.
    log_likelihood: float = 0.0


def first_collapsed(words: Cells) -> Collapsed:
    """Returns the `Collapsed` in which each target word links to all source positions alike."""
    posteriors = np.empty(words.cell_pairs.size, np.float32)
    for block in words.blocks:
        posteriors[block.cells] = 1 / block.source_length
    return Collapsed(posteriors, posteriors, UniformEstimate())


def collapsed_step(
    words: WordPairs,
    state: Collapsed,
    *,
    alpha: float,
    fertile: bool = False,
    threads: int = 2,
) -> Collapsed:
    """Makes one iteration: finds new posteriors, then new parameters of the position model.

    `alpha`, above 0, is the symmetric Dirichlet prior on every source word's row of the translation
    table, over the target words that occur in a sentence pair with it. If `fertile`, the number of
    target words of each source word has a distribution. In the result, `counted` equals
    `posteriors`.
    """
    counts = count_links(words, state.counted, threads=threads) + alpha
    ratios = None
    if fertile:
        expected = expected_fertilities(words, state.posteriors, threads)
        ratios = log_ratios(expected)[:, :-1]
    known = Known(counts, words.source_sums(counts), ratios)
    found, statistics = new_posteriors(words, state, known, threads=threads)
    return found._replace(positions=state.positions.maximise(statistics))


class Known(NamedTuple):
    """Sums over the whole corpus for the word pairs and source words of some sentence pairs."""

    counts: np.ndarray  # [P] float64, expected count of every word pair plus the prior
    totals: np.ndarray  # [F] float64, sum of the counts of every source word in the whole corpus
    ratios: np.ndarray | None  # [MOST + 1, F] float64 from `log_ratios`; None without fertilities


def new_posteriors(
    words: Cells, state: Collapsed, known: Known, *, threads: int = 2
) -> tuple[Collapsed, list]:
    """Finds the posteriors of one iteration, for all sentence pairs of a corpus or for some.

    Returns (`Collapsed` with the positions of `state`, and `counted` equal to `posteriors`;
    statistics of all blocks, from which `positions.maximise` makes new parameters).
    """
    sources = words.spread(np.arange(known.totals.size))

    def translation(block):
        places = sources[_first_pairs(words, block)]
        weights = _others_translation(
            words, state.counted, block, known.counts, known.totals[places]
        )
        if known.ratios is not None:
            ratios = known.ratios[:, places]
            weights[:, :-1] *= _fertility_factors(block, state.posteriors, ratios)
        return weights

    posteriors, statistics, log_likelihood = posteriors_of(
        words, state.positions, translation, threads=threads
    )
    return Collapsed(posteriors, posteriors, state.positions, log_likelihood), statistics


def agree(
    directions: Sequence[Cells], states: Sequence[Collapsed], *, threads: int = 2
) -> list[Collapsed]:
    """Makes two directions count the links on which they agree; a single one stays as it is."""
    if len(states) == 1:
        return list(states)
    found = agreeing_posteriors(directions, [s.posteriors for s in states], threads=threads)
    both = zip(states, found, strict=True)
    return [state._replace(counted=counted) for state, counted in both]


def expected_translation(
    words: Cells, counted: np.ndarray, alpha: float, *, threads: int = 2
) -> np.ndarray:
    """Returns t(target word | source word) of every word pair from all counts, `[P]` float64."""
    counts = count_links(words, counted, threads=threads) + alpha
    return counts / words.spread(words.source_sums(counts))


def count_links(words: Cells, counted: np.ndarray, *, threads: int = 2) -> np.ndarray:
    """Returns the expected count of every word pair, without a prior, `[P]` float64."""
    return count(words, lambda block: counted[block.cells], threads=threads)


def _first_pairs(words, block):
    """Returns the word pairs of the first target word of every sentence, `[B, n]`."""
    size = block.pairs.size * block.source_length
    first = words.cell_pairs[block.first_cell : block.first_cell + size]
    return first.reshape(-1, block.source_length)


def _others_translation(words, counted, block, counts, totals):
    """Computes t(target word | source word) of a block, `[R, n]`, from the other tokens' counts.

    `counts` is `[P]`, with the prior; `totals` is `[B, n]`, sums for every source token's word.
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


def expected_fertilities(words: Cells, posteriors: np.ndarray, threads: int = 2) -> np.ndarray:
    """Sums the fertility distributions of each source word's tokens, `[MOST + 1, F]` float64."""
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


def log_ratios(expected: np.ndarray) -> np.ndarray:
    """Estimates how much more probable each fertility of each source word is than one less.

    The distribution of a word mixes what is expected of its tokens (`expected`, from
    `expected_fertilities` over the whole corpus) with that of all words, so that rare words have
    about the fertilities of all.

    Returns:
        `[MOST + 1, F + 1]` float64; row c is log P(fertility c + 1) - log P(fertility c), except
        that the last row repeats the one before it. The last column is for all other words.
    """
    every = expected.sum(axis=1, keepdims=True) + 0.5
    found = np.concatenate([expected, np.zeros([MOST + 1, 1])], axis=1)
    logs = np.log(found + _STRENGTH * every / every.sum())
    ratios = logs[1:] - logs[:-1]
    return np.concatenate([ratios, ratios[-1:]])


def fertilities(block: Block, posteriors: np.ndarray) -> np.ndarray:
    """Computes the distribution of every source token's number of target words.

    In `posteriors`, `[R, n]`, links of different target words count as independent. Returns
    `[MOST + 1, B, n - 1]` float64; the last row is for `MOST` or more.
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
