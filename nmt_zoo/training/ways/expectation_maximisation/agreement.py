"""Trains the models of both directions so that their alignments agree.

A model lets several target words align to one source word, but not the other way round, so the
models of the two directions make different errors. In Liang, Taskar and Klein 2006, "Alignment by
Agreement", both models count only links that both find probable.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import (
    Links,
    joined_links,
    links_of_cells,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    Estimate,
    Expected,
    count,
    expect,
    in_threads,
    maximise_translation,
    posteriors_of,
    translation_of,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import (
    Cells,
    WordPairs,
    index_word_pairs,
)


class Directions(NamedTuple):
    """A corpus in both directions."""

    forward: WordPairs
    reverse: WordPairs


def index_directions(corpus: EncodedCorpus, *, target_end: bool = True) -> Directions:
    """Makes the `Directions` of an `EncodedCorpus`; `target_end` as `index_word_pairs`."""
    both = corpus, EncodedCorpus(corpus.target, corpus.source)
    return Directions(*(index_word_pairs(c, target_end=target_end) for c in both))


def em_steps(
    directions: Sequence[WordPairs],
    estimates: Sequence[Estimate],
    *,
    alpha: float = 0.0,
    threads: int = 2,
) -> tuple[list[Estimate], list[float]]:
    """Makes one step of expectation maximisation, for one direction or for two that are to agree.

    Without a prior, the log-likelihood of a single direction never falls from one step to the next;
    a step of two directions may lower both. `alpha` as `iteration.maximise_translation`.

    Returns:
        (new `Estimate`s, log-likelihoods under the given ones), for each direction.
    """
    results = []
    expected = expect_directions(directions, estimates, threads=threads)
    for words, estimate, found in zip(directions, estimates, expected, strict=True):
        translation = maximise_translation(words, found.counts, alpha)
        results.append(Estimate(translation, estimate.positions.maximise(found.statistics)))
    return results, [found.log_likelihood for found in expected]


def expect_directions(
    directions: Sequence[Cells], estimates: Sequence[Estimate], *, threads: int = 2
) -> list[Expected]:
    """Makes the expectation step of one direction, or of two that are to agree.

    The posterior of a link is the product of both directions' posteriors, which approximates the
    product of both distributions over alignments (section 3.2 there). NULL, and the target's `</s>`
    where `</s>` has cells, have no counterpart in the other direction and keep the posteriors of
    their own direction. Then the posteriors of each target word are scaled to sum to 1. Position
    models learn from the posteriors of their own direction.
    """
    if len(directions) == 1:
        return [expect(*directions, *estimates, threads=threads)]
    found = [
        posteriors_of(words, estimate.positions, translation_of(words, estimate), threads=threads)
        for words, estimate in zip(directions, estimates, strict=True)
    ]
    both = [posteriors for posteriors, _, _ in found]
    results = []
    for side, (_, statistics, log_likelihood) in enumerate(found):
        agreed = _agreed(directions, both, side)
        counts = count(directions[side], agreed, threads=threads)
        results.append(Expected(counts, statistics, log_likelihood))
    return results


def agreeing_posteriors(
    directions: Sequence[Cells], posteriors: Sequence[np.ndarray], *, threads: int = 2
) -> list[np.ndarray]:
    """Returns what both directions count of their links, as `expect_directions` counts it.

    Both `posteriors` and results are `[cells]` float32, one array for each direction.
    """
    results = [np.empty_like(own) for own in posteriors]
    for side, (words, result) in enumerate(zip(directions, results, strict=True)):
        agreed = _agreed(directions, posteriors, side)

        def work(blocks, result=result, agreed=agreed):
            for block in blocks:
                result[block.cells] = agreed(block).ravel()

        in_threads(work, words.blocks, threads)
    return results


def _agreed(directions, posteriors, side):
    """Returns a function for the product of both posteriors in a block, whose rows sum to 1."""
    words, twin = directions[side], directions[1 - side]
    own, other = posteriors[side], posteriors[1 - side]

    def agreed(block):
        both = own[block.cells].reshape(-1, block.source_length).astype(np.float64)
        both[:, :-1] *= _facing(block, words, twin, other)
        # The sum is 0 if each direction excludes all links that the other finds possible.
        both /= np.maximum(both.sum(axis=1, keepdims=True), 1e-30)
        return both

    return agreed


def _facing(block, words, twin, values):
    """Returns values of `twin`'s cells for word cells of a block, `[R, n - 1]`; 1 for `</s>`."""
    sentences, positions = block.row_sentences, block.row_positions
    first_tokens = twin.first_tokens[block.pairs[sentences]]
    tokens = first_tokens[:, None] + np.arange(block.source_length - 1)
    found = values[twin.token_cells[tokens] + positions[:, None]]
    if words.target_end:
        found[positions == block.target_lengths[sentences] - 1] = 1
    return found


def links_of_both(
    directions: Sequence[Cells], posteriors: Sequence[np.ndarray], is_link: Callable
) -> Links:
    """Returns the links, in the forward direction, that the posteriors of both directions decide.

    `posteriors` are `[cells]` for each direction. `is_link` gets two arrays of posteriors of the
    same links, from the forward and the reverse direction, and returns a bool array.
    """
    words, twin = directions
    own, other = posteriors
    parts = []
    for block in words.blocks:
        forward = own[block.cells].reshape(-1, block.source_length)[:, :-1]
        found = is_link(forward, _facing(block, words, twin, other))
        parts.append(links_of_cells(words, block, *np.nonzero(found)))
    return joined_links(parts, words.num_sentences)
