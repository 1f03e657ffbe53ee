"""Minimum error rate training: weights with the highest BLEU on lists of translations.

Och 2003, "Minimum Error Rate Training in Statistical Machine Translation". S sentences have N
translations each, with F features; shorter lists are padded. All sentences are searched at once.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_ORDERS = 4
_LEAST_GAIN = 1e-5  # Of BLEU, from 0 to 1, for which weights change.
_MOST_ROUNDS = 5


class Candidates(NamedTuple):
    """Translations of S sentences."""

    features: np.ndarray  # [S, N, F] float32
    # [S, N, 10] float32: matches of 1- to 4-grams, n-grams of the translation, its words, words of
    # the reference
    counts: np.ndarray
    sizes: np.ndarray  # [S] int64, translations of each sentence


def match_counts(words: Sequence, reference: Sequence) -> list[int]:
    """Counts what BLEU is made of, for one translation: see `Candidates.counts`.

    Words are anything that can be compared and hashed.
    """
    matches, totals = [], []
    for order in range(1, _ORDERS + 1):
        found, wanted = (
            collections.Counter(zip(*(text[n:] for n in range(order)), strict=False))
            for text in (words, reference)
        )
        matches.append((found & wanted).total())
        totals.append(max(len(words) + 1 - order, 0))
    return [*matches, *totals, len(words), len(reference)]


def bleu(counts: np.ndarray) -> np.ndarray:
    """Computes BLEU, 0 to 1, from sums of counts: `[..., 10]` -> `[...]` float64.

    As Papineni et al. 2002; an order without matches counts as a tenth of a match.
    """
    counts = np.asarray(counts, np.float64)
    matches, totals = counts[..., :_ORDERS], counts[..., _ORDERS : 2 * _ORDERS]
    logs = np.log(np.maximum(matches, 0.1) / np.maximum(totals, 1)).mean(axis=-1)
    brevity = np.minimum(1 - counts[..., 9] / np.maximum(counts[..., 8], 1e-9), 0)
    return np.exp(logs + brevity)


def joined(lists: Sequence[Sequence[tuple]]) -> Candidates:
    """Makes `Candidates` of lists of (features `[F]`, counts), one list a sentence.

    Every list has at least one translation.
    """
    sizes = np.array([len(some) for some in lists])
    num_features = len(lists[0][0][0])
    features = np.zeros((sizes.size, sizes.max(), num_features), np.float32)
    counts = np.zeros((sizes.size, sizes.max(), 10), np.float32)
    for row, some in enumerate(lists):
        features[row, : len(some)] = [one for one, _ in some]
        counts[row, : len(some)] = [two for _, two in some]
    return Candidates(features, counts, sizes)


def chosen_bleu(candidates: Candidates, weights: np.ndarray) -> float:
    """Computes BLEU of the translations with the highest scores."""
    scores = candidates.features @ weights
    scores[np.arange(scores.shape[1]) >= candidates.sizes[:, None]] = -np.inf
    best = scores.argmax(axis=1)
    return float(bleu(candidates.counts[np.arange(best.size), best].sum(axis=0)))


def line_search(
    candidates: Candidates, weights: np.ndarray, direction: np.ndarray
) -> tuple[float, float]:
    """Finds the step x with the highest BLEU for `weights + x * direction`.

    Returns (x, BLEU). Every score is a line over x; which translation of a sentence is the best
    changes only where lines of the upper envelope meet. The result is exact: the middle of the best
    interval between two such places.
    """
    heights = (candidates.features @ weights).astype(np.float64)
    slopes = (candidates.features @ direction).astype(np.float64)
    padding = np.arange(heights.shape[1]) >= candidates.sizes[:, None]
    rows = np.arange(heights.shape[0])
    # The best far to the left: the smallest slope, and the highest of equal ones.
    slopes[padding] = np.inf
    is_least = slopes == slopes.min(axis=1, keepdims=True)
    current = np.where(is_least, heights, -np.inf).argmax(axis=1)
    slopes[padding] = -np.inf  # Never steeper than the current one.
    total = candidates.counts[rows, current].astype(np.float64).sum(axis=0)
    places, changes = [], []
    while rows.size:
        steeper = slopes[rows] - slopes[rows, current][:, None]
        higher = heights[rows, current][:, None] - heights[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.where(steeper > 0, higher / steeper, np.inf)
        first = meets.min(axis=1)
        # Of lines that meet there, the steepest is the next one.
        following = np.where(meets == first[:, None], steeper, -np.inf).argmax(axis=1)
        goes_on = np.isfinite(first)
        rows, current, following = rows[goes_on], current[goes_on], following[goes_on]
        places.append(first[goes_on])
        changes.append(candidates.counts[rows, following] - candidates.counts[rows, current])
        current = following
    if not places or not (edges := np.concatenate(places)).size:
        return 0.0, float(bleu(total))
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    steps = np.concatenate(changes).astype(np.float64)[order]
    totals = np.concatenate([total[None], total + np.cumsum(steps, axis=0)])
    values = bleu(totals)
    ends = np.concatenate([[edges[0] - 1], edges, [edges[-1] + 1]])
    values[np.diff(ends) < 1e-9] = -1  # Nothing is between two equal places.
    best = int(values.argmax())
    return float(ends[best] + ends[best + 1]) / 2, float(values[best])


def optimise(
    candidates: Candidates,
    weights: np.ndarray,
    free: np.ndarray,
    draw: np.random.Generator,
    restarts: int,
) -> tuple[np.ndarray, float]:
    """Finds weights with a high BLEU; returns (weights, BLEU), never worse than at the beginning.

    Searches along each of the `free` features (indices) and half as many random directions, again
    and again, from `weights` and from `restarts` random starts.
    """
    best, best_bleu = weights, chosen_bleu(candidates, weights)
    for start in range(restarts + 1):
        trial = weights.copy()
        if start:
            scale = np.abs(weights[free]).mean()
            trial[free] += draw.normal(0, scale, free.size)
        value = chosen_bleu(candidates, trial)
        for _ in range(_MOST_ROUNDS):
            before = value
            for direction in _directions(weights.size, free, draw):
                step, found = line_search(candidates, trial, direction)
                if found > value + _LEAST_GAIN:
                    trial, value = trial + step * direction, found
            if value <= before + _LEAST_GAIN:
                break
        # Rounding may make the middle of a tiny interval worse than it was.
        value = chosen_bleu(candidates, trial)
        if value > best_bleu + _LEAST_GAIN:
            best, best_bleu = trial, value
    scale = np.abs(best[free]).sum()
    return best / scale if scale else best, best_bleu


def _directions(size, free, draw):
    """Yields the axes of the free features in random order, and random directions."""
    for feature in draw.permutation(free):
        direction = np.zeros(size)
        direction[feature] = 1
        yield direction
    for _ in range(free.size // 2):
        direction = np.zeros(size)
        direction[free] = draw.normal(size=free.size)
        yield direction
