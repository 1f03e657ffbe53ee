"""Trains the models of both directions so that their alignments agree.

A model lets several target words align to one source word, but not the other way round, so the
models of the two directions make different errors. In Liang, Taskar and Klein 2006, "Alignment by
Agreement", both models count only links that both find probable.
"""

from collections.abc import Sequence

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block, SentencePairs


def agreeing_posteriors(
    directions: Sequence[SentencePairs], posteriors: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Returns what each direction counts of its links; a single direction counts its posteriors.

    The posterior of a link is the product of both directions' posteriors, which approximates the
    product of both distributions over alignments (section 3.2 there). NULL, and the target's `</s>`
    where `</s>` has cells, have no counterpart in the other direction and keep the posteriors of
    their own direction. Then the posteriors of each target word are scaled to sum to 1.

    Both `posteriors` and results are `[cells]` of one dtype, an array for each direction.
    """
    if len(directions) == 1:
        return list(posteriors)
    results = [np.empty_like(own) for own in posteriors]
    for side, (pairs, result) in enumerate(zip(directions, results, strict=True)):
        own, other, twin = posteriors[side], posteriors[1 - side], directions[1 - side]
        for block in pairs.blocks:
            both = own[block.cells].reshape(-1, block.source_length).astype(np.float64)
            both[:, :-1] *= facing(block, pairs, twin, other)
            # The sum is 0 if each direction excludes all links that the other finds possible.
            both /= np.maximum(both.sum(axis=1, keepdims=True), 1e-30)
            result[block.cells] = both.ravel()
    return results


def facing(
    block: Block, pairs: SentencePairs, twin: SentencePairs, values: np.ndarray
) -> np.ndarray:
    """Returns the values of the other direction's cells for the word cells of a block.

    `values` are of the cells of `twin`, the other direction. Returns `[R, n - 1]`; 1 for `</s>`.
    """
    sentences, positions = block.row_sentences, block.row_positions
    first_tokens = twin.first_tokens[block.pairs[sentences]]
    tokens = first_tokens[:, None] + np.arange(block.source_length - 1)
    opposite = values[twin.token_cells[tokens] + positions[:, None]]
    if pairs.target_end:
        opposite[positions == block.target_lengths[sentences] - 1] = 1
    return opposite
