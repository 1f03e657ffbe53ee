"""What the searches do with arrays of hypotheses, and with records of such arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def take(record: Any, rows: Any) -> Any:
    """Returns some rows of every array of a record."""
    return type(record)(*(array[rows] for array in record))


def joined(*records: Any) -> Any:
    """Joins the arrays of records of one type."""
    return type(records[0])(*map(np.concatenate, zip(*records, strict=True)))


def ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns, for each first number, so many consecutive numbers from it on; all in one array."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(firsts - (ends - counts), counts)


def mixed(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Returns numbers `[H]` uint64 that are equal where all columns `[H]` of integers are equal."""
    keys: np.ndarray = np.zeros((), np.uint64)
    for column in columns:  # Mixes the bits, as the generator splitmix64 does.
        keys = (keys ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(32)
    return keys


def recombined(
    groups: np.ndarray, columns: Iterable[np.ndarray], scores: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Recombines the hypotheses of a group with equal columns; chooses the `most` best of a group.

    Returns (their rows, group by group, the best first; `[H]`, for each hypothesis the place among
    these rows of the one that it is equal to, or -1).
    """
    keys = mixed([groups, *columns])
    order = np.lexsort((-scores, keys))
    is_first = np.append(True, keys[order][1:] != keys[order][:-1])[: order.size]
    winners = np.empty(order.size, np.int64)
    winners[order] = order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]
    # In the order in which they came, so that what is equal does not depend on the batch.
    best = np.flatnonzero(winners == np.arange(winners.size))
    best = best[np.sort(best_of_each(groups[best], scores[best], most))]
    best = best[np.lexsort((-scores[best], groups[best]))]
    places = np.full(winners.size, -1)
    places[best] = np.arange(best.size)
    return best, places[winners]


def best_of_each(groups: np.ndarray, scores: np.ndarray, most: int) -> np.ndarray:
    """Returns the rows with the `most` best scores of each group, in any order."""
    if scores.size <= most:
        return np.arange(scores.size)
    if np.all(groups[1:] == groups[:-1]):
        return np.argpartition(-scores, most)[:most]
    order = np.lexsort((-scores, groups))
    groups = groups[order]
    firsts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    sizes = np.diff(firsts, append=groups.size)
    return order[np.arange(groups.size) - np.repeat(firsts, sizes) < most]
