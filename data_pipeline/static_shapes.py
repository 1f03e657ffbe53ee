"""A few batch shapes for a whole corpus, for compilers that make a program of each: XLA, TPU.

A pair fits into a shape if neither of its sides is longer. Which shapes waste least is searched for
on the lengths of the corpus itself: a ladder of lengths alone, the same for source and target,
leaves much more padding, because the two sides of a pair differ.
"""

import numpy as np

MAX_SHAPES = 24

_LEVELS = 256  # Lengths of a side that are tried.
_RESTARTS = 4
_SWEEPS = 60
_JUMPS = 40  # Random moves that are tried beside the small ones.


def choose_shapes(
    source_lengths,
    target_lengths,
    max_tokens,
    *,
    max_sentences=0,
    max_shapes=MAX_SHAPES,
    num_workers=1,
):
    """The shapes that leave the least padding; the same for the same lengths.

    Args:
        source_lengths: `[num_pairs]` int, tokens with `</s>`; at least one pair.
        target_lengths: `[num_pairs]` int, tokens with `</s>`.
        max_tokens: budget of a batch: rows x longest side of the shape; at least the longest
            sentence.
        max_sentences: most rows of a shape; 0 for no such limit.
        max_shapes: how many shapes there may be; a small corpus gets fewer, as each shape ends in
            a batch that is not full.
        num_workers: how many batches a step takes.

    Returns:
        `[num_shapes, 3]` int64, (rows, source tokens, target tokens), the last of which every pair
        fits into.
    """
    cells = _Cells(np.asarray(source_lengths), np.asarray(target_lengths))
    found = [_search(cells, max_shapes, np.random.default_rng(i)) for i in range(_RESTARTS)]
    _, levels = min(found, key=lambda result: result[0])
    shapes = np.stack([cells.source_levels[levels[:, 0]], cells.target_levels[levels[:, 1]]], 1)
    rows = max_tokens // shapes.max(axis=1)
    if max_sentences:
        rows = np.minimum(rows, max_sentences)
    shapes = _without_needless(
        cells, levels, np.concatenate([rows[:, None], shapes], 1), num_workers
    )
    return shapes[np.lexsort((shapes[:, 2], shapes[:, 1], shapes[:, 1:].sum(axis=1)))]


def assign_shapes(source_lengths, target_lengths, shapes, num_workers=1, rng=None):
    """Groups pairs into batches of given shapes.

    The pairs of a shape are spread evenly over its batches, whose number is a multiple of
    `num_workers`.

    Args:
        source_lengths: `[num_pairs]` int.
        target_lengths: `[num_pairs]` int.
        shapes: of `choose_shapes`.
        num_workers: how many batches a step takes.
        rng: NumPy generator that brings the pairs of a shape into random order; None: as they are.

    Returns:
        (`[num_pairs]` pair numbers, `[num_batches]` sizes, `[num_batches, 3]` shapes), all int64,
        the batches of a shape one after the other, none of them empty.

    Raises:
        ValueError: a pair that is longer than all shapes, or too few pairs for the workers.
    """
    size = source_lengths.size
    if not size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64)
    order = np.arange(size) if rng is None else rng.permutation(size)
    shape = _cheapest(source_lengths, target_lengths, shapes)[order]
    shape = _shared_out(shape, shapes, num_workers)
    order = order[np.argsort(shape, kind="stable")]
    sizes, batch_shapes = [], []
    for i, count in enumerate(np.bincount(shape, minlength=len(shapes))):
        batches = _num_batches(count, shapes[i][0], num_workers)
        if batches:
            sizes.append(np.full(batches, count // batches))
            sizes[-1][: count % batches] += 1
            batch_shapes.append(np.tile(shapes[i], (batches, 1)))
    return order.astype(np.int64), np.concatenate(sizes), np.concatenate(batch_shapes)


def _num_batches(count, rows, num_workers):
    return -(-count // (rows * num_workers)) * num_workers


def _cheapest(source_lengths, target_lengths, shapes):
    """`[num_pairs]`, for each pair the number of the shape with the fewest tokens it fits into."""
    widest = shapes[:, 1:].max(axis=0)
    if (source_lengths > widest[0]).any() or (target_lengths > widest[1]).any():
        raise ValueError(f"a sentence is longer than all shapes, of at most {widest} tokens")
    table = np.full(widest + 1, -1, np.int16)
    for i in np.argsort(-shapes[:, 1:].sum(axis=1), kind="stable"):
        table[: shapes[i, 1] + 1, : shapes[i, 2] + 1] = i
    found = table[source_lengths, target_lengths]
    if (found < 0).any():
        raise ValueError("a pair fits into none of the shapes")
    return found


def _shared_out(shape, shapes, num_workers):
    """Moves pairs to the last shape, so that no worker's batch of a shape is empty."""
    last = len(shapes) - 1
    counts = np.bincount(shape, minlength=len(shapes))

    def short_of(i):
        return max(_num_batches(counts[i], shapes[i][0], num_workers) - counts[i], 0)

    moved = [i for i in range(last) if short_of(i)]
    shape = np.where(np.isin(shape, moved), np.int16(last), shape)
    counts = np.bincount(shape, minlength=len(shapes))
    if missing := short_of(last):
        donor = counts[:last].argmax() if last else 0
        rows = np.flatnonzero(shape == donor)[:missing]
        shape[rows] = last
        counts = np.bincount(shape, minlength=len(shapes))
        if any(map(short_of, range(len(shapes)))):  # A tiny corpus.
            shape[:] = last
            counts = np.bincount(shape, minlength=len(shapes))
            if short_of(last):
                raise ValueError(
                    f"{shape.size} pairs in batches of {shapes[last][0]} cannot be shared out to "
                    f"{num_workers} workers; give a larger max_tokens or fewer workers"
                )
    return shape


class _Cells:
    """How many pairs there are of each (source, target) length, with lengths in few levels.

    Attributes:
        source_levels: lengths, rising; a pair of level i is no longer than `source_levels[i]`.
        target_levels: likewise.
        source: level of every cell that has pairs.
        target: likewise.
        pairs: number of pairs of every cell, float64.
    """

    def __init__(self, source_lengths, target_lengths):
        self.source_levels = _levels(source_lengths)
        self.target_levels = _levels(target_lengths)
        source = np.searchsorted(self.source_levels, np.arange(source_lengths.max() + 1))
        target = np.searchsorted(self.target_levels, np.arange(target_lengths.max() + 1))
        grid = self.source_levels.size, self.target_levels.size
        cells = source[source_lengths] * grid[1] + target[target_lengths]
        counts = np.bincount(cells, minlength=grid[0] * grid[1]).reshape(grid)
        self.source, self.target = np.nonzero(counts)
        self.pairs = counts[self.source, self.target].astype(np.float64)

    def costs(self, levels):
        """`[shapes, cells]`, tokens of each shape where the cell fits into it, else infinity."""
        tokens = self.source_levels[levels[:, 0]] + self.target_levels[levels[:, 1]]
        fits = (levels[:, :1] >= self.source) & (levels[:, 1:] >= self.target)
        return np.where(fits, tokens[:, None].astype(np.float64), np.inf)


def _levels(lengths):
    """At most `_LEVELS` lengths that part the tokens evenly, the last being the longest."""
    tokens = np.bincount(lengths) * np.arange(lengths.max() + 1)
    shares = np.cumsum(tokens) / tokens.sum()
    levels = np.searchsorted(shares, np.arange(1, _LEVELS) / _LEVELS)
    return np.unique([*levels, lengths.max()])


def _search(cells, num_shapes, rng):
    """Moves the shapes about, one at a time, as long as the tokens of the corpus become fewer.

    Returns:
        (tokens of all pairs with padding, `[num_shapes, 2]` levels of the shapes).
    """
    top = [cells.source_levels.size - 1, cells.target_levels.size - 1]
    count = min(num_shapes, cells.pairs.size) - 1
    start = rng.choice(cells.pairs.size, count, replace=False, p=cells.pairs / cells.pairs.sum())
    levels = np.array([*zip(cells.source[start], cells.target[start], strict=True), top])
    costs = cells.costs(levels)
    total = costs.min(axis=0) @ cells.pairs
    steps = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 2), axis=-1).reshape(-1, 2)
    for sweep in range(_SWEEPS):
        before = total
        for i in rng.permutation(count):
            others = np.delete(costs, i, axis=0).min(axis=0)
            moves = levels[i] + steps * (1 + sweep % 3)
            jumps = rng.integers(cells.pairs.size, size=_JUMPS)
            jumps = np.stack([cells.source[jumps], cells.target[jumps]], axis=1)
            moves = np.clip(np.concatenate([moves, jumps]), 0, top)
            found = cells.costs(moves)
            totals = np.minimum(found, others) @ cells.pairs
            best = totals.argmin()
            if totals[best] < total:
                levels[i], costs[i], total = moves[best], found[best], totals[best]
        if sweep >= 10 and before - total < 1e-5 * total:
            break
    return total, levels


def _without_needless(cells, levels, shapes, num_workers):
    """Drops shapes that cost more by the half-empty batches that they end in than they save."""
    ends = num_workers * shapes[:, 0] * shapes[:, 1:].sum(axis=1) / 2
    costs = cells.costs(levels)
    kept = list(range(len(shapes)))

    def total(numbers):
        return costs[numbers].min(axis=0) @ cells.pairs + ends[numbers].sum()

    while len(kept) > 1:
        fewer = [[k for k in kept if k != i] for i in kept[:-1]]  # The last is for all pairs.
        best = min(fewer, key=total)
        if total(best) > total(kept):
            break
        kept = best
    return shapes[kept]
