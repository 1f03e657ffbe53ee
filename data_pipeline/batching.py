"""Batches by token count: decides which pairs form the batch of each step.

Pure arithmetic on sentence lengths. Seed and epoch determine all batches of an epoch, so a run can
start at any (epoch, step) without reading the pairs before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.mixing import Mixture
from nmt_zoo.data_pipeline.static_shapes import assign_shapes


class Batching(NamedTuple):
    """The rules by which pairs form batches, the same in every epoch of a run.

    `shapes` is `[num_shapes, 3]` from `choose_shapes`, the only shapes that batches may have; the
    pairs of a shape are in random order whatever their lengths. None allows any shape.
    """

    max_tokens: int  # rows x longest padded side; at least the longest sentence
    max_sentences: int = 0  # most pairs of a batch (0: no limit)
    shapes: np.ndarray | None = None
    num_workers: int = 1  # batches are halved until their number is a multiple of it
    mixture: Mixture | None = None  # how often an epoch has each pair; None: once


class EpochPlan(NamedTuple):
    """The batches of one epoch.

    `shapes` is `[num_batches, 3]` int64, (rows, source tokens, target tokens) to which each batch
    is padded; None pads each batch to its longest sentences.
    """

    rows: np.ndarray  # [num_pairs] int64, pair numbers, batch after batch
    batch_sizes: np.ndarray  # [num_batches] int64, number of pairs in each batch
    shapes: np.ndarray | None = None

    def batches(self, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns `(rows, batch_sizes)` of the batches from number `first` on."""
        return self.rows[self.batch_sizes[:first].sum() :], self.batch_sizes[first:]

    def select(self, numbers: Sequence[int] | np.ndarray) -> "EpochPlan":
        """Returns the plan of the batches `numbers`, in that order."""
        ends = np.cumsum(self.batch_sizes)
        pieces = [self.rows[ends[i] - self.batch_sizes[i] : ends[i]] for i in numbers]
        return EpochPlan(
            np.concatenate(pieces) if pieces else self.rows[:0],
            self.batch_sizes[numbers],
            None if self.shapes is None else self.shapes[numbers],
        )

    def padded_shapes(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
        """Returns `[num_batches, 3]` int64: (rows, source tokens, target tokens) of each batch."""
        if self.shapes is not None or not self.rows.size:
            return np.zeros((0, 3), np.int64) if self.shapes is None else self.shapes
        starts = np.cumsum(self.batch_sizes) - self.batch_sizes
        widths = (
            np.maximum.reduceat(np.asarray(lengths)[self.rows], starts)
            for lengths in (source_lengths, target_lengths)
        )
        return np.stack([self.batch_sizes, *widths], axis=1).astype(np.int64)


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    batching: Batching,
    *,
    seed: int | None = None,
    epoch: int = 0,
) -> EpochPlan:
    """Groups pairs of similar lengths into batches of a limited number of tokens, each pair once.

    A batch of n pairs counts as n x its longest sentence on either side, at most `max_tokens`.
    Pairs of equal lengths are shuffled, so that batches differ from epoch to epoch, and so is the
    order of the batches; with `seed=None`, for evaluation, nothing is shuffled. With several
    workers, batches `k * num_workers` up to `(k + 1) * num_workers` make step k and have similar,
    or the same, shapes. Lengths are `[num_pairs]` int, in tokens with `</s>`; `epoch` counts from
    0. The mixture is for `data_pipeline.pipeline.plan_batches`.

    Raises ValueError: a sentence is longer than `max_tokens` or than all shapes.
    Raises UserError: there are too few pairs for the workers.
    """
    source_lengths, target_lengths = np.asarray(source_lengths), np.asarray(target_lengths)
    rng = None if seed is None else np.random.default_rng([seed, epoch])
    max_tokens, max_sentences, shapes, num_workers, _ = batching
    if shapes is None:
        order, sizes = _by_length(source_lengths, target_lengths, max_tokens, max_sentences, rng)
        sizes = _split_to_multiple(sizes, num_workers)
        plan = EpochPlan(order, sizes)
    else:
        plan = EpochPlan(*assign_shapes(source_lengths, target_lengths, shapes, num_workers, rng))
    steps = np.arange(plan.batch_sizes.size).reshape(-1, num_workers)
    if rng is not None:
        steps = steps[rng.permutation(steps.shape[0])]
        if num_workers > 1:  # So that no worker always gets the shorter sentences.
            steps = rng.permuted(steps, axis=1)
    return plan if rng is None else plan.select(steps.ravel())


def largest_batch(plan: EpochPlan, source_lengths: np.ndarray, target_lengths: np.ndarray) -> int:
    """Returns the number of the batch with the most cells, rows x (source + target tokens).

    It needs the most memory. Among equals, the longest sentence decides.
    """
    rows, source, target = plan.padded_shapes(source_lengths, target_lengths).T
    return int(np.lexsort((np.maximum(source, target), rows * (source + target)))[-1])


def largest_shape(
    plan: EpochPlan, source_lengths: np.ndarray, target_lengths: np.ndarray
) -> np.ndarray:
    """Returns `[3]` int64: rows, source tokens and target tokens of `largest_batch`."""
    number = largest_batch(plan, source_lengths, target_lengths)
    return plan.padded_shapes(source_lengths, target_lengths)[number]


def padding_share(plan: EpochPlan, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
    """Returns the share of a plan's cells, both sides together, that hold padding, in [0, 1)."""
    if not plan.rows.size:
        return 0.0
    rows, source, target = plan.padded_shapes(source_lengths, target_lengths).T
    real = sum(
        np.asarray(lengths)[plan.rows].sum(dtype=np.int64)
        for lengths in (source_lengths, target_lengths)
    )
    return 1.0 - real / (rows * (source + target)).sum()


def _by_length(source_lengths, target_lengths, max_tokens, max_sentences, rng):
    """Returns (pair numbers sorted by length, sizes of consecutive batches of these pairs)."""
    longest = np.maximum(source_lengths, target_lengths)
    if longest.size and longest.max() > max_tokens:
        raise ValueError(f"a sentence of {longest.max()} tokens, a batch takes {max_tokens}")
    order = np.arange(longest.size) if rng is None else rng.permutation(longest.size)
    # Boustrophedon: the order of (source - target) reverses with each length of the longer side.
    # So a batch that spans two of these lengths still has similar lengths on the shorter side.
    other = (source_lengths - target_lengths) * np.where(longest % 2, 1, -1)
    order = order[np.lexsort((other[order], longest[order]))]

    starts, lengths = [], longest[order]
    start = 0
    while start < order.size:
        starts.append(start)
        # The last pair of a batch is its longest: take as many as keep n * longest <= max_tokens.
        most = max_tokens // lengths[start]
        if max_sentences:
            most = min(most, max_sentences)
        window = lengths[start : start + most]
        fits = window * np.arange(1, window.size + 1) <= max_tokens
        start += int(fits.sum())
    return order, np.diff([*starts, order.size]).astype(np.int64)


def _split_to_multiple(sizes, num_workers):
    """Halves the batches with the most rows until their number is a multiple of `num_workers`."""
    while sizes.size % num_workers:
        i = int(sizes.argmax())
        if sizes[i] < 2:
            raise UserError(
                f"{sizes.sum()} pairs in {sizes.size} batches cannot be divided among "
                f"{num_workers} workers; give fewer workers"
            )
        sizes = np.insert(sizes, i, sizes[i] // 2)
        sizes[i + 1] -= sizes[i]
    return sizes
