"""Collapsed variational inference for the IBM models and the HMM, with fertilities.

Expectation maximisation lets a rare word explain the words of the only sentence in which it
occurs, because the sentence's own links are the evidence for themselves. Here the links of each
target word are weighed by the counts of all other target words instead, as in Gibbs sampling with
the translation table integrated out, but with expected counts in place of samples: no random
numbers, and few iterations.

Asuncion et al. 2009, "On Smoothing and Inference for Topic Models", section 2.4 (CVB0); Östling and
Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo", for the model.
"""

from collections.abc import Callable

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block, SentencePairs

# Fertilities from this on have one probability. As in `models.ibm`, which is not imported, so
# that align.py runs without TensorFlow.
MOST = 4
_STRENGTH = 1.0  # Pseudo-count of the global fertility distribution in each word's smoothing.


def first_posteriors(pairs: SentencePairs) -> np.ndarray:
    """Returns posteriors in which each target word links to all source positions alike."""
    posteriors = np.empty(pairs.cell_pairs.size, np.float32)
    for block in pairs.blocks:
        posteriors[block.cells] = 1 / block.source_length
    return posteriors


def others_translation(
    pairs: SentencePairs,
    counts: np.ndarray,
    totals: np.ndarray,
    ratios: np.ndarray | None,
    counted: np.ndarray,
    posteriors: np.ndarray,
) -> Callable[[Block], np.ndarray]:
    """Returns the function of a block for t(target word | source word) by all other target words.

    Args:
        pairs: P word pairs of F source words.
        counts: `[P]` float64, expected counts of the word pairs in the whole text plus the prior.
        totals: `[F]` float64, sums of the counts of every source word.
        ratios: `[MOST + 1, F]` float64 from `log_ratios`; with them, the function multiplies by how
            much more probable fertilities are with the link. None without fertilities.
        counted: `[cells]`, what `counts` has of these sentence pairs.
        posteriors: `[cells]`, the links before.
    Returns:
        A function that returns `[R, n]` float64.
    """
    sources = pairs.spread(np.arange(totals.size))

    def translation(block):
        columns = sources[_first_pairs(pairs, block)]
        own = _own_counts(pairs, counted, block)
        shares = counts[pairs.cell_pairs[block.cells]].reshape(own.shape) - own
        others = totals[columns][block.row_sentences] - own
        # Rounding must not make a count of nothing negative.
        shares = np.maximum(shares, 1e-12) / np.maximum(others, 1e-12)
        if ratios is not None:
            shares[:, :-1] *= _fertility_factors(block, posteriors, ratios[:, columns])
        return shares

    return translation


def _first_pairs(pairs, block):
    """Returns the word pairs of the first target word of every sentence, `[B, n]`."""
    size = block.pairs.size * block.source_length
    first = pairs.cell_pairs[block.first_cell : block.first_cell + size]
    return first.reshape(-1, block.source_length)


def _own_counts(pairs, counted, block):
    """Computes what each target token adds to the counts of each cell's word pair, `[R, n]`.

    Where a source word is repeated in its sentence, these are the sums over its tokens. Otherwise
    the link to one of them would be evidence for the link to another.
    """
    own = counted[block.cells].reshape(-1, block.source_length)
    words = _first_pairs(pairs, block)
    # The first column of each source word, `[B, n]`.
    firsts = (words[:, :, None] == words[:, None, :]).argmax(axis=2)
    repeats = (firsts != np.arange(block.source_length)).any(axis=1)
    rows = np.flatnonzero(repeats[block.row_sentences])
    cells = firsts[block.row_sentences[rows]]
    cells += np.arange(rows.size)[:, None] * block.source_length
    sums = np.bincount(cells.ravel(), own[rows].ravel(), cells.size)
    own = own.copy()
    own[rows] = sums[cells]
    return own


def expected_fertilities(pairs: SentencePairs, posteriors: np.ndarray) -> np.ndarray:
    """Sums the fertility distributions of each source word's tokens, `[MOST + 1, F]` float64."""
    num_words = pairs.first_pairs.size
    sources, sums = pairs.spread(np.arange(num_words)), np.zeros([MOST + 1, num_words])
    for block in pairs.blocks:
        columns = sources[_first_pairs(pairs, block)[:, :-1]].ravel()
        expected = fertilities(block, posteriors[block.cells].reshape(-1, block.source_length))
        for row, values in zip(sums, expected, strict=True):
            row += np.bincount(columns, values.ravel(), num_words)
    return sums


def log_ratios(expected: np.ndarray) -> np.ndarray:
    """Estimates how much more probable each fertility of each source word is than one less.

    The distribution of a word mixes what is expected of its tokens (`expected`, from
    `expected_fertilities` over the whole corpus) with that of all words, so that rare words have
    about the fertilities of all.

    Returns:
        `[MOST + 1, F + 1]` float64; row c is log P(fertility c + 1) - log P(fertility c), except
        that the last row repeats the one before it. The last column is for all other words.
    """
    overall = expected.sum(axis=1, keepdims=True) + 0.5
    counts = np.concatenate([expected, np.zeros([MOST + 1, 1])], axis=1)
    logs = np.log(counts + _STRENGTH * overall / overall.sum())
    ratios = logs[1:] - logs[:-1]
    return np.concatenate([ratios, ratios[-1:]])


def fertilities(block: Block, posteriors: np.ndarray) -> np.ndarray:
    """Computes the distribution of every source token's number of target words.

    In `posteriors`, `[R, n]`, links of different target words count as independent. Returns
    `[MOST + 1, B, n - 1]` float64; the last row is for `MOST` or more.
    """
    chances = np.zeros([MOST + 1, block.pairs.size, block.source_length - 1])
    chances[0] = 1
    first = 0
    for size in block.active.tolist():
        moved = chances[:, :size] * posteriors[first : first + size, :-1]
        chances[:-1, :size] -= moved[:-1]
        chances[1:, :size] += moved[:-1]
        first += size
    return chances


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
