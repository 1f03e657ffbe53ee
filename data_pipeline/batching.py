"""Batches by token count: which pairs stand together in which step.

Pure arithmetic on sentence lengths. (seed, epoch) fixes all batches of an epoch, so any step can be
reached without reading what precedes it.
"""

from typing import NamedTuple

import numpy as np


class EpochPlan(NamedTuple):
    """The batches of one epoch.

    Attributes:
        rows: `[num_pairs]` int64, pair numbers, batch after batch.
        batch_sizes: `[num_batches]` int64, how many of `rows` each batch takes.
    """

    rows: np.ndarray
    batch_sizes: np.ndarray

    def batches(self, first=0):
        """`(rows, batch_sizes)` of the batches from number `first` on."""
        return self.rows[self.batch_sizes[:first].sum() :], self.batch_sizes[first:]


def plan_epoch(source_lengths, target_lengths, max_tokens, *, max_sentences=0, seed=None, epoch=0):
    """Groups pairs of similar lengths under a budget of tokens.

    A batch of n pairs costs n x its longest sentence on either side, at most `max_tokens`. Pairs of
    equal lengths are in random order, so that batches differ from epoch to epoch, and the batches
    themselves are in random order.

    Args:
        source_lengths: `[num_pairs]` int, tokens with `</s>`.
        target_lengths: `[num_pairs]` int, tokens with `</s>`.
        max_tokens: the budget; at least the longest sentence.
        max_sentences: most pairs of a batch; 0 for no such limit.
        seed: int; None sorts by length without a shuffle, for evaluation.
        epoch: counted from 0.

    Returns:
        `EpochPlan`, every pair exactly once.

    Raises:
        ValueError: a sentence is longer than `max_tokens`.
    """
    source_lengths, target_lengths = np.asarray(source_lengths), np.asarray(target_lengths)
    longest = np.maximum(source_lengths, target_lengths)
    if longest.size and longest.max() > max_tokens:
        raise ValueError(f"a sentence of {longest.max()} tokens, a batch takes {max_tokens}")
    rng = None if seed is None else np.random.default_rng([seed, epoch])
    order = np.arange(longest.size) if rng is None else rng.permutation(longest.size)
    # Boustrophedon: the shorter side rises and falls in turn, so a batch that spans two values of
    # the longest side still holds neighbours on the other.
    other = (source_lengths - target_lengths) * np.where(longest % 2, 1, -1)
    order = order[np.lexsort((other[order], longest[order]))]

    starts, lengths = [], longest[order]
    start = 0
    while start < order.size:
        starts.append(start)
        # The last pair of a batch is its longest: take the most pairs with n * longest <= budget.
        most = max_tokens // lengths[start]
        if max_sentences:
            most = min(most, max_sentences)
        window = lengths[start : start + most]
        fits = window * np.arange(1, window.size + 1) <= max_tokens
        start += int(fits.sum())
    sizes = np.diff([*starts, order.size]).astype(np.int64)
    if rng is None:
        return EpochPlan(order, sizes)
    shuffled = rng.permutation(sizes.size)
    pieces = [order[starts[i] : starts[i] + sizes[i]] for i in shuffled]
    return EpochPlan(np.concatenate(pieces) if pieces else order, sizes[shuffled])


def padding_share(plan, source_lengths, target_lengths):
    """The share of a plan's cells, both sides together, that hold padding, in [0, 1)."""
    if not plan.rows.size:
        return 0.0
    starts = np.concatenate([[0], np.cumsum(plan.batch_sizes)[:-1]])
    cells = real = 0
    for lengths in (source_lengths, target_lengths):
        lengths = np.asarray(lengths)[plan.rows]
        cells += (np.maximum.reduceat(lengths, starts) * plan.batch_sizes).sum()
        real += lengths.sum()
    return 1.0 - real / cells
