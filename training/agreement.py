"""Training both directions so that they agree.

A model of each direction lets several target words look at one source word, but not the other way
round, so the two err in different places. Liang, Taskar and Klein 2006, "Alignment by Agreement",
let both count only what both believe.
"""

from typing import NamedTuple

import numpy as np

from data_pipeline.pipeline import EncodedCorpus
from training.aligner import joined_links, links_of_cells
from training.em import Estimate, expect_block, in_threads, maximise_translation
from training.word_pairs import WordPairs, index_word_pairs


class Directions(NamedTuple):
    """A corpus in both directions, without the target's `</s>`, so that words face words."""

    forward: WordPairs
    reverse: WordPairs


def index_directions(corpus):
    """`Directions` of an `EncodedCorpus`."""
    swapped = EncodedCorpus(corpus.target, corpus.source)
    return Directions(*(index_word_pairs(c, target_end=False) for c in (corpus, swapped)))


def agreeing_step(directions, estimates, *, alpha=0.0, threads=2):
    """Makes one step of expectation maximisation for both directions.

    The posterior of a link is the product of both directions' posteriors, an approximation of the
    product of both distributions over alignments (section 3.2 there); with NULL's own posterior,
    what a target word may come from then sums to 1. Position models learn from the posteriors of
    their own direction. There is no likelihood that such steps could never lower.

    Args:
        directions: `Directions`.
        estimates: two `Estimate`s.
        alpha: as `training.em.em_step`.
        threads: as `training.em.expect`.

    Returns:
        (list of two `Estimate`s, list of the two log-likelihoods under those that were given).
    """
    expected = [_posteriors(w, e, threads) for w, e in zip(directions, estimates, strict=True)]
    results = []
    for side, (words, estimate) in enumerate(zip(directions, estimates, strict=True)):
        own, statistics, _ = expected[side]
        twin = directions[1 - side], expected[1 - side][0]

        def work(blocks, words=words, own=own, twin=twin):
            counts = np.zeros(words.source_words.size)
            for block in blocks:
                both = own[block.cells].reshape(-1, block.source_length).astype(np.float64)
                both[:, :-1] *= _facing(block, *twin)
                # Nothing is left where each direction is sure that the other is wrong.
                both /= np.maximum(both.sum(axis=1, keepdims=True), 1e-30)
                np.add.at(counts, words.cell_pairs[block.cells], both.ravel())
            return counts

        counts = sum(in_threads(work, words.blocks, threads), np.zeros(words.source_words.size))
        translation = maximise_translation(words, counts, alpha)
        results.append(Estimate(translation, estimate.positions.maximise(statistics)))
    return results, [log_likelihood for _, _, log_likelihood in expected]


def _posteriors(words, estimate, threads):
    """(`[cells]` float32 posteriors, statistics of all blocks, log-likelihood)."""
    posteriors = np.empty(words.cell_pairs.size, np.float32)

    def work(blocks):
        results = []
        for block in blocks:
            result = expect_block(words, estimate, block)
            posteriors[block.cells] = result.posteriors.ravel()
            results.append((result.statistics, result.log_likelihood))
        return results

    results = [block for part in in_threads(work, words.blocks, threads) for block in part]
    return posteriors, [r[0] for r in results], sum(r[1] for r in results)


def _facing(block, twin, values):
    """What the other direction has for the word cells of a block.

    Args:
        block: `Block` of one direction.
        twin: `WordPairs` of the other one.
        values: `[cells]`, values of its cells.

    Returns:
        `[R, n - 1]`.
    """
    first_tokens = twin.first_tokens[block.pairs[block.row_sentences]]
    tokens = first_tokens[:, None] + np.arange(block.source_length - 1)
    return values[twin.token_cells[tokens] + block.row_positions[:, None]]


def agreed_links(directions, estimates, *, threshold=0.4, threads=2):
    """Links that both directions find probable, taken together.

    Args:
        directions: `Directions`.
        estimates: two `Estimate`s.
        threshold: links whose geometric mean of both posteriors is above it are returned.
        threads: as `training.em.expect`.

    Returns:
        `training.aligner.Links` of the forward direction.
    """
    (own, _, _), (other, _, _) = (
        _posteriors(w, e, threads) for w, e in zip(directions, estimates, strict=True)
    )
    words, twin = directions
    parts = []
    for block in words.blocks:
        product = own[block.cells].reshape(-1, block.source_length)[:, :-1]
        product = product * _facing(block, twin, other)
        parts.append(links_of_cells(words, block, *np.nonzero(product > threshold**2)))
    return joined_links(parts)
