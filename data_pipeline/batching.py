"""Batches by token count: decides which pairs form the batch of each step.

Pure arithmetic on sentence lengths. Seed and epoch determine all batches of an epoch, so a run can
start at any (epoch, step) without reading the pairs before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.mixing import Mixture

_MAX_WIDTHS, _LEAST_WIDTH = 24, 8  # Of batches of static shapes.


class Batching(NamedTuple):
    """The rules by which pairs form batches, the same in every epoch of a run.

    With `longest`, the longest sentence of all epochs in tokens, batches have one of at most 24
    shapes, for compilers that compile every shape anew: XLA, TPU. 0 allows any shape.
    """

    max_tokens: int  # rows x longest padded side; at least the longest sentence
    max_sentences: int = 0  # most pairs of a batch (0: no limit)
    longest: int = 0
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

    Raises ValueError: a sentence is longer than `max_tokens`.
    Raises UserError: there are too few pairs for the workers.
    """
    source_lengths, target_lengths = np.asarray(source_lengths), np.asarray(target_lengths)
    rng = None if seed is None else np.random.default_rng([seed, epoch])
    max_tokens, max_sentences, longest, num_workers, _ = batching
    lengths = np.maximum(source_lengths, target_lengths)
    if lengths.size and lengths.max() > max_tokens:
        raise ValueError(f"a sentence of {lengths.max()} tokens, a batch takes {max_tokens}")
    if not longest:
        order, sizes = _by_length(source_lengths, target_lengths, max_tokens, max_sentences, rng)
        sizes = _split_to_multiple(sizes, num_workers)
        plan = EpochPlan(order, sizes)
    else:
        plan = _by_width(lengths, batching, rng)
    steps = np.arange(plan.batch_sizes.size).reshape(-1, num_workers)
    if rng is not None:
        steps = steps[rng.permutation(steps.shape[0])]
        if num_workers > 1:  # So that no worker always gets the shorter sentences.
            steps = rng.permuted(steps, axis=1)
    return plan if rng is None else plan.select(steps.ravel())


def largest_shape(
    plan: EpochPlan, source_lengths: np.ndarray, target_lengths: np.ndarray
) -> np.ndarray:
    """Returns `[3]` int64: rows, source tokens and target tokens of the batch with the most cells.

    It needs the most memory. Among equals, the longest sentence decides.
    """
    shapes = plan.padded_shapes(source_lengths, target_lengths)
    rows, source, target = shapes.T
    return shapes[np.lexsort((np.maximum(source, target), rows * (source + target)))[-1]]


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


def _by_width(lengths, batching, rng):
    """Plans batches whose lengths are rounded up to a few widths, with all rows that may be there.

    `lengths` are those of the longer sides. The longest pairs come first; those of a width are in
    random order. The `num_workers` batches of a step have one shape, and none is empty.
    """
    most, num_workers = batching.longest, batching.num_workers
    widths = np.geomspace(min(_LEAST_WIDTH, most), most, _MAX_WIDTHS).round(6)
    widths = np.unique(np.ceil(widths).astype(np.int64))
    level = np.searchsorted(widths, lengths)
    order = np.arange(lengths.size) if rng is None else rng.permutation(lengths.size)
    order = order[np.argsort(-level[order], kind="stable")]
    counts, shapes, start = [], [], 0  # Numbers of pairs and shapes of the steps.
    while start < order.size:
        width = widths[level[order[start]]]
        rows = batching.max_tokens // width
        rows = min(rows, batching.max_sentences or rows)
        counts.append(min(rows * num_workers, order.size - start))
        shapes.append((rows, width, width))
        start += counts[-1]
    if counts and counts[-1] < num_workers:  # The step before it gives half of its pairs.
        both = sum(counts[-2:])
        if len(counts) < 2 or both < 2 * num_workers:
            raise UserError(
                f"{order.size} pairs in batches of {shapes[-1][0]} cannot be divided among "
                f"{num_workers} workers; give a larger --max_tokens_per_batch or fewer workers"
            )
        counts[-2:], shapes[-1] = [both - both // 2, both // 2], shapes[-2]
    sizes = [(count + worker) // num_workers for count in counts for worker in range(num_workers)]
    shapes = np.array(shapes, np.int64).reshape(-1, 3).repeat(num_workers, axis=0)
    return EpochPlan(order, np.array(sizes, np.int64), shapes)
