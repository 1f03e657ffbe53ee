"""What the searches do with arrays of hypotheses."""

from collections.abc import Iterable

import numpy as np


def mixed(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Returns numbers `[H]` uint64 that are equal where all columns `[H]` of integers are equal."""
    keys: np.ndarray = np.zeros((), np.uint64)
    for column in columns:  # Mixes the bits, as the generator splitmix64 does.
        keys = (keys ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(32)
    return keys


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
