"""Word alignments of a whole corpus from an IBM or HMM model, in arrays."""

import itertools
from typing import NamedTuple

import numpy as np

from training.expectation_maximisation.iteration import expect_block


class Links(NamedTuple):
    """Links of a corpus, sorted by sentence pair, then target position, then source position.

    Attributes:
        sentences: `[L]` int64, numbers of sentence pairs.
        sources: `[L]` int64, source positions counted from 0, never NULL.
        targets: `[L]` int64, target positions counted from 0, never of `</s>`.
    """

    sentences: np.ndarray
    sources: np.ndarray
    targets: np.ndarray

    def reversed(self):
        """Returns the same links with source and target exchanged."""
        return _sorted(self.sentences, self.targets, self.sources)

    def lists(self, num_sentences):
        """Returns a list of `(source position, target position)` for every sentence pair."""
        pairs = list(zip(self.sources.tolist(), self.targets.tolist(), strict=True))
        ends = np.searchsorted(self.sentences, np.arange(num_sentences + 1)).tolist()
        return [pairs[start:end] for start, end in itertools.pairwise(ends)]


def _sorted(sentences, sources, targets):
    order = np.lexsort((sources, targets, sentences))
    return Links(sentences[order], sources[order], targets[order])


def posterior_links(words, estimate, *, threshold=None):
    """Returns the links with a high posterior probability.

    Args:
        words: `WordPairs` of the corpus to align.
        estimate: `Estimate` with a translation table of those word pairs.
        threshold: returns all links with a posterior above it, any number for a target word; None:
            returns the most probable source position of each target word, unless that is NULL.

    Returns:
        `Links`.
    """
    parts = []
    for block in words.blocks:
        posteriors = expect_block(words, estimate, block).posteriors
        if threshold is None:
            parts.append(_links_of_best(words, block, posteriors))
        else:
            rows, columns = np.nonzero(posteriors > threshold)
            parts.append(links_of_cells(words, block, rows, columns))
    return joined_links(parts)


def best_links(words, posteriors):
    """Returns the most probable source position of each target word, unless that is NULL.

    Args:
        words: `WordPairs`.
        posteriors: `[cells]`.

    Returns:
        `Links`.
    """
    parts = []
    for block in words.blocks:
        rows = posteriors[block.cells].reshape(-1, block.source_length)
        parts.append(_links_of_best(words, block, rows))
    return joined_links(parts)


def _links_of_best(words, block, posteriors):
    best = posteriors.argmax(axis=1)
    return links_of_cells(words, block, np.arange(best.size), best)


def links_of_cells(words, block, rows, columns):
    """Returns the links that some cells of a block stand for, without cells of NULL and `</s>`.

    Args:
        words: `WordPairs`.
        block: `Block` of `words`.
        rows: `[L]` int, rows of the cells.
        columns: `[L]` int, source positions of the cells.

    Returns:
        Three `[L']` int64, as `Links`, in any order.
    """
    sentences, targets = block.row_sentences[rows], block.row_positions[rows]
    real = columns < block.source_length - 1
    if words.target_end:
        real &= targets < block.target_lengths[sentences] - 1
    return block.pairs[sentences[real]], columns[real], targets[real]


def joined_links(parts):
    """Joins the results of `links_of_cells` for several blocks into `Links`."""
    empty = (np.zeros(0, np.int64),) * 3
    return _sorted(*(np.concatenate(column) for column in zip(empty, *parts, strict=True)))
