"""A few batch shapes for a whole corpus, for compilers that compile every shape anew: XLA, TPU.

A pair fits into a shape if neither side of the pair is longer than the shape allows. A random
search over the lengths of the corpus finds the shapes with the least padding. Fixed steps of
length, equal for source and target, leave much more padding, because the sides of a pair differ.
"""

import numpy as np

from nmt_zoo.common.errors import UserError

MAX_SHAPES = 24

_LEVELS = 256  # Candidate lengths per side.
_RESTARTS = 4
_SWEEPS = 60
_JUMPS = 40  # Random moves that are tried in addition to the small ones.


def choose_shapes(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    max_tokens: int,
    *,
    max_sentences: int = 0,
    max_shapes: int = MAX_SHAPES,
) -> np.ndarray:
    """Searches for the shapes that leave the least padding. Deterministic.

    Returns `[num_shapes, 3]` int64, (rows, source tokens, target tokens), at most `max_shapes`.
    Every pair fits into the last shape. Lengths are `[num_pairs]` int, at least one, in tokens with
    `</s>`. Rows x longest side of a shape is at most `max_tokens`, which is at least the longest
    sentence; `max_sentences` limits rows (0: no limit).
    """
    cells = _Cells(np.asarray(source_lengths), np.asarray(target_lengths))
    found = [_search(cells, max_shapes, np.random.default_rng(i)) for i in range(_RESTARTS)]
    _, levels = min(found, key=lambda result: result[0])
    shapes = np.stack([cells.source_levels[levels[:, 0]], cells.target_levels[levels[:, 1]]], 1)
    rows = max_tokens // shapes.max(axis=1)
    if max_sentences:
        rows = np.minimum(rows, max_sentences)
    shapes = np.unique(np.concatenate([rows[:, None], shapes], axis=1), axis=0)
    return shapes[np.argsort(shapes[:, 1:].sum(axis=1), kind="stable")]


def assign_shapes(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    shapes: np.ndarray,
    num_workers: int = 1,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups pairs into batches of the given shapes of `choose_shapes`.

    Returns (`[num_pairs]` pair numbers, `[num_batches]` sizes, `[num_batches, 3]` shapes), all
    int64. The batches of a shape follow each other, and none is empty. Their number is a multiple
    of `num_workers`, and the pairs of a shape are spread evenly over them, shuffled by `rng`; None
    keeps their order.

    Raises ValueError: a pair is longer than all shapes. UserError: too few pairs for the workers.
    """
    size = source_lengths.size
    if not size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64)
    order = np.arange(size) if rng is None else rng.permutation(size)
    shape = _cheapest(source_lengths, target_lengths, shapes)[order]
    order = order[np.argsort(shape, kind="stable")]
    rows, sizes, batch_shapes = [], [], []
    groups = np.split(order, np.cumsum(np.bincount(shape, minlength=len(shapes)))[:-1])
    for i, numbers in enumerate(_filled_up(groups, shapes, num_workers)):
        batches = _num_batches(numbers.size, shapes[i][0], num_workers)
        if batches:
            rows.append(numbers)
            sizes.append(np.full(batches, numbers.size // batches))
            sizes[-1][: numbers.size % batches] += 1
            batch_shapes.append(np.tile(shapes[i], (batches, 1)))
    return np.concatenate(rows), np.concatenate(sizes), np.concatenate(batch_shapes)


def _num_batches(count, rows, num_workers):
    return -(-count // (rows * num_workers)) * num_workers


def _cheapest(source_lengths, target_lengths, shapes):
    """Finds for each pair the shape with the fewest tokens: `[num_pairs]` shape numbers."""
    levels, places = [], []
    for lengths, tokens in zip((source_lengths, target_lengths), shapes[:, 1:].T, strict=True):
        if lengths.max() > tokens.max():
            raise ValueError(f"a sentence of {lengths.max()} tokens, shapes take {tokens.max()}")
        levels.append(np.unique(tokens))
        places.append(np.searchsorted(levels[-1], np.arange(lengths.max() + 1))[lengths])
    fits = (levels[0][:, None, None] <= shapes[:, 1]) & (levels[1][:, None] <= shapes[:, 2])
    if not fits.any(axis=2)[places[0], places[1]].all():
        raise ValueError("a pair fits into none of the shapes")
    cheapest = np.where(fits, shapes[:, 1:].sum(axis=1), np.inf).argmin(axis=2)
    return cheapest.astype(np.int16)[places[0], places[1]]


def _filled_up(groups, shapes, num_workers):
    """Moves pairs to larger shapes where they would leave batches half empty or a worker idle.

    Takes and returns the pair numbers of each shape. Every pair fits into the last shape.
    """
    groups = list(groups)
    tokens = shapes[:, 1:].sum(axis=1)
    last = len(shapes) - 1
    for i in range(last):
        count = groups[i].size
        step = shapes[i][0] * num_workers
        left = count % step
        larger = i + 1 + (shapes[i + 1 :, 1:] >= shapes[i, 1:]).all(axis=1).argmax()
        padding = (step - left) * tokens[i]
        if left and (
            padding > left * (tokens[larger] - tokens[i])
            or count < _num_batches(count, shapes[i][0], num_workers)
        ):
            groups[larger] = np.concatenate([groups[larger], groups[i][count - left :]])
            groups[i] = groups[i][: count - left]

    missing = _num_batches(groups[last].size, shapes[last][0], num_workers) - groups[last].size
    if missing > 0:
        donor = max(range(last), key=lambda i: groups[i].size, default=last)
        rest = groups[donor].size - missing
        if donor == last or rest < _num_batches(rest, shapes[donor][0], num_workers):
            raise UserError(
                f"{sum(g.size for g in groups)} pairs in batches of {shapes[last][0]} or more "
                f"cannot be divided among {num_workers} workers; give a larger "
                "--max_tokens_per_batch or fewer workers"
            )
        groups[last] = np.concatenate([groups[last], groups[donor][rest:]])
        groups[donor] = groups[donor][:rest]
    return groups


class _Cells:
    """Histogram of the pairs over (source, target) lengths, rounded up to a few rising levels.

    A source of level i is no longer than `source_levels[i]`. A cell is one (source level, target
    level); only cells that hold pairs are stored, with their levels `source` and `target` and their
    number of `pairs`, float64.
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

    def costs(self, levels: np.ndarray) -> np.ndarray:
        """Returns `[shapes, cells]`: tokens of the shape, or infinity if the cell does not fit."""
        tokens = self.source_levels[levels[:, 0]] + self.target_levels[levels[:, 1]]
        fits = (levels[:, :1] >= self.source) & (levels[:, 1:] >= self.target)
        return np.where(fits, tokens[:, None].astype(np.float64), np.inf)


def _levels(lengths):
    """Returns at most `_LEVELS` lengths that divide the tokens evenly; the last is the longest."""
    tokens = np.bincount(lengths) * np.arange(lengths.max() + 1)
    shares = np.cumsum(tokens) / tokens.sum()
    levels = np.searchsorted(shares, np.arange(1, _LEVELS) / _LEVELS)
    return np.unique([*levels, lengths.max()])


def _search(cells, num_shapes, rng):
    """Changes one shape at a time for as long as this reduces the padded size of the corpus.

    Returns (tokens of all pairs including padding, `[num_shapes, 2]` levels of the shapes).
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
