"""Trains the models of both directions so that their alignments agree.

A model lets several target words align to one source word, but not the other way round, so the
models of the two directions make different errors. In Liang, Taskar and Klein 2006, "Alignment by
Agreement", both models count only links that both find probable.
"""

from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import joined_links, links_of_cells
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    Estimate,
    Expected,
    expect_block,
    in_threads,
    maximise_translation,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import WordPairs, index_word_pairs


class Directions(NamedTuple):
    """A corpus in both directions."""

    forward: WordPairs
    reverse: WordPairs


def index_directions(corpus, *, target_end=True):
    """Makes the `Directions` of an `EncodedCorpus`; `target_end` as `index_word_pairs`."""
    both = corpus, EncodedCorpus(corpus.target, corpus.source)
    return Directions(*(index_word_pairs(c, target_end=target_end) for c in both))


def agreeing_step(directions, estimates, *, alpha=0.0, threads=2):
    """Makes one step of expectation maximisation for both directions.

    The posterior of a link is the product of both directions' posteriors, which approximates the
    product of both distributions over alignments (section 3.2 there). NULL, and the target's `</s>`
    where `</s>` has cells, have no counterpart in the other direction and keep the posteriors of
    their own direction. Then the posteriors of each target word are scaled to sum to 1. Position
    models learn from the posteriors of their own direction. Unlike plain expectation maximisation,
    such a step may lower the likelihoods.

    Args:
        directions: `Directions`.
        estimates: two `Estimate`s.
        alpha: as `training.ways.expectation_maximisation.iteration.em_step`.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        (list of two `Estimate`s, list of the two log-likelihoods under the given estimates).
    """
    results = []
    expected = expect_agreeing(directions, estimates, threads=threads)
    for words, estimate, found in zip(directions, estimates, expected, strict=True):
        translation = maximise_translation(words, found.counts, alpha)
        results.append(Estimate(translation, estimate.positions.maximise(found.statistics)))
    return results, [found.log_likelihood for found in expected]


def expect_agreeing(directions, estimates, *, threads=2):
    """Makes the expectation step of `agreeing_step`; returns the `Expected` of each direction."""
    found = [_posteriors(w, e, threads) for w, e in zip(directions, estimates, strict=True)]
    results = []
    for side, words in enumerate(directions):
        own, statistics, log_likelihood = found[side]
        twin = words, directions[1 - side], found[1 - side][0]

        def work(blocks, words=words, own=own, twin=twin):
            counts = np.zeros(words.num_pairs)
            for block in blocks:
                both = agreed_posteriors(block, own, *twin)
                np.add.at(counts, words.cell_pairs[block.cells], both.ravel())
            return counts

        counts = sum(in_threads(work, words.blocks, threads), np.zeros(words.num_pairs))
        results.append(Expected(counts, statistics, log_likelihood))
    return results


def _posteriors(words, estimate, threads):
    """Returns (`[cells]` float32 posteriors, statistics of all blocks, log-likelihood)."""
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


def agreed_posteriors(block, own, words, twin, other):
    """Returns the product of both directions' posteriors in a block, as `agreeing_step` counts it.

    Args:
        block: `Block` of one direction.
        own: `[cells]`, posteriors of that direction.
        words: `WordPairs` of that direction.
        twin: `WordPairs` of the other direction.
        other: `[cells]`, posteriors of the other direction.

    Returns:
        `[R, n]` float64, rows scaled to sum to 1.
    """
    both = own[block.cells].reshape(-1, block.source_length).astype(np.float64)
    both[:, :-1] *= _facing(block, words, twin, other)
    # The sum is 0 if each direction excludes all links that the other finds possible.
    both /= np.maximum(both.sum(axis=1, keepdims=True), 1e-30)
    return both


def _facing(block, words, twin, values):
    """Returns the other direction's values for the word cells of a block; 1 in the rows of `</s>`.

    Args:
        block: `Block` of one direction.
        words: `WordPairs` of that direction.
        twin: `WordPairs` of the other direction.
        values: `[cells]`, a value for each cell of the other direction.

    Returns:
        `[R, n - 1]`.
    """
    sentences, positions = block.row_sentences, block.row_positions
    first_tokens = twin.first_tokens[block.pairs[sentences]]
    tokens = first_tokens[:, None] + np.arange(block.source_length - 1)
    found = values[twin.token_cells[tokens] + positions[:, None]]
    if words.target_end:
        found[positions == block.target_lengths[sentences] - 1] = 1
    return found


def agreed_links(directions, estimates, *, threshold=0.4, threads=2):
    """Returns the links that both directions together find probable.

    Args:
        directions: `Directions`.
        estimates: two `Estimate`s.
        threshold: a link is returned if the geometric mean of its two posteriors is above this.
        threads: as `training.ways.expectation_maximisation.iteration.expect`.

    Returns:
        `training.ways.expectation_maximisation.corpus_links.Links` of the forward direction.
    """
    (own, _, _), (other, _, _) = (
        _posteriors(w, e, threads) for w, e in zip(directions, estimates, strict=True)
    )
    return links_of_both(directions, (own, other), lambda p, q: p * q > threshold**2)


def links_of_both(directions, posteriors, is_link):
    """Returns the links that the posteriors of both directions decide.

    Args:
        directions: `Directions`.
        posteriors: two arrays `[cells]`, one for each direction.
        is_link: function of two arrays of posteriors of the same links, from the forward and the
            reverse direction; returns a bool array.

    Returns:
        `training.ways.expectation_maximisation.corpus_links.Links` of the forward direction.
    """
    words, twin = directions
    own, other = posteriors
    parts = []
    for block in words.blocks:
        forward = own[block.cells].reshape(-1, block.source_length)[:, :-1]
        found = is_link(forward, _facing(block, words, twin, other))
        parts.append(links_of_cells(words, block, *np.nonzero(found)))
    return joined_links(parts, words.num_sentences)
