"""Pairwise ranking: weights under which better translations have higher scores.

Hopkins and May 2011, "Tuning as Ranking" (PRO). S sentences have N translations each, with F
features; shorter lists are padded.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_ORDERS = 4
_DRAWN, _KEPT = 5000, 50  # Pairs of a sentence, as published.
_LEAST_GAIN = 0.05  # Of BLEU, from 0 to 1, as published.
_SAMPLES = 3
_NEWTON_STEPS = 20


class Candidates(NamedTuple):
    """Translations of S sentences."""

    features: np.ndarray  # [S, N, F] float32
    # [S, N, 10] float32: matches of 1- to 4-grams, n-grams of the translation, its words, words of
    # the reference
    counts: np.ndarray
    sizes: np.ndarray  # [S] int64, translations of each sentence


def ngram_counts(words: Sequence) -> list[collections.Counter]:
    """Counts the n-grams of a text, of 1 to 4 words, which are anything that can be hashed."""
    shifted = [words[n:] for n in range(_ORDERS)]
    return [
        collections.Counter(zip(*shifted[:order], strict=False)) for order in range(1, _ORDERS + 1)
    ]


def match_counts(words: Sequence, reference: Sequence[collections.Counter]) -> list[int]:
    """Counts what BLEU is made of, for one translation: see `Candidates.counts`.

    `reference` are the `ngram_counts` of the reference.
    """
    matches = [
        sum(min(n, wanted[key]) for key, n in counts.items() if key in wanted)
        for counts, wanted in zip(ngram_counts(words), reference, strict=True)
    ]
    totals = [max(len(words) + 1 - order, 0) for order in range(1, _ORDERS + 1)]
    return [*matches, *totals, len(words), reference[0].total()]


def bleu(counts: np.ndarray, added: int = 0) -> np.ndarray:
    """Computes BLEU, 0 to 1, from sums of counts: `[..., 10]` -> `[...]` float64.

    As Papineni et al. 2002; an order without matches counts as a tenth of a match. For single
    sentences, 1 is `added` to every count, also to the length of the reference, without which short
    translations would be preferred: Nakov, Guzman and Vogel 2012, "Optimizing for Sentence-Level
    BLEU+1 Yields Short Translations".
    """
    counts = np.asarray(counts, np.float64)
    matches, totals = counts[..., :_ORDERS] + added, counts[..., _ORDERS : 2 * _ORDERS] + added
    logs = np.log(np.maximum(matches, 0.1) / np.maximum(totals, 1)).mean(axis=-1)
    brevity = np.minimum(
        1 - (counts[..., 9] + added) / np.maximum(counts[..., 8], added or 1e-9), 0
    )
    return np.exp(logs + brevity)


def joined(lists: Sequence[Sequence[tuple]]) -> Candidates:
    """Makes `Candidates` of lists of (features `[F]`, counts), one list a sentence.

    Every list has at least one translation.
    """
    sizes = np.array(list(map(len, lists)))
    num_features = len(lists[0][0][0])
    features = np.zeros((sizes.size, sizes.max(), num_features), np.float32)
    counts = np.zeros((sizes.size, sizes.max(), 10), np.float32)
    for row, translations in enumerate(lists):
        features[row, : sizes[row]], counts[row, : sizes[row]] = zip(*translations, strict=True)
    return Candidates(features, counts, sizes)


def chosen_bleu(candidates: Candidates, weights: np.ndarray) -> float:
    """Computes BLEU of the translations with the highest scores."""
    scores = candidates.features @ weights
    scores[np.arange(scores.shape[1]) >= candidates.sizes[:, None]] = -np.inf
    best = scores.argmax(axis=1)
    return float(bleu(candidates.counts[np.arange(best.size), best].sum(axis=0)))


def optimise(
    candidates: Candidates, weights: np.ndarray, free: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """Finds weights that rank the translations of each sentence by their BLEU.

    Only the `free` features (indices) change; the sum of their absolute values stays. The weights
    are the mean of those for `_SAMPLES` random samples of pairs; each has a single optimum, so no
    start is better than another. If no sentence has translations that differ, the weights stay.
    """
    samples = [ranked_pairs(candidates, draw)[:, free] for _ in range(_SAMPLES)]
    fitted = [_fit(pairs) for pairs in samples if pairs.size]
    if not fitted or not np.any(mean := np.mean(fitted, axis=0)):
        return weights
    result = weights.copy()
    result[free] = mean * (np.abs(weights[free]).sum() / np.abs(mean).sum())
    return result


def ranked_pairs(candidates: Candidates, draw: np.random.Generator) -> np.ndarray:
    """Draws pairs of translations: `[P, F]` float64, features of the better minus of the worse.

    Hopkins and May 2011, figure 4: of `_DRAWN` pairs of each sentence, those whose BLEU differs by
    more than `_LEAST_GAIN`, and of these the `_KEPT` with the largest difference.
    """
    values = bleu(candidates.counts, added=1)
    pairs = [np.zeros((0, candidates.features.shape[2]))]
    for features, value, size in zip(candidates.features, values, candidates.sizes, strict=True):
        first, second = draw.integers(0, size, (2, _DRAWN))
        gains = value[first] - value[second]
        rows = np.flatnonzero(gains > _LEAST_GAIN)
        rows = rows[np.argsort(-gains[rows], kind="stable")[:_KEPT]]
        pairs.append(features[first[rows]].astype(np.float64) - features[second[rows]])
    return np.concatenate(pairs)


def _fit(pairs):
    """Minimises the logistic loss of `pairs @ weights` with a small quadratic penalty, by Newton.

    Every pair counts in both orders, so there is no constant.
    """
    weights = np.zeros(pairs.shape[1])
    for _ in range(_NEWTON_STEPS):
        wrong = 1 / (1 + np.exp(np.clip(pairs @ weights, -30, 30)))
        gradient = weights - pairs.T @ wrong
        curvature = (pairs * (wrong * (1 - wrong))[:, None]).T @ pairs + np.eye(weights.size)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-8:
            break
    return weights
