"""Minimum Bayes risk: of several translations, chooses the one most similar to all others.

Kumar and Byrne 2004, "Minimum Bayes-Risk Decoding for Statistical Machine Translation"; with
samples and chrF: Eikema and Aziz 2022, "Sampling-Based Approximations to Minimum Bayes Risk
Decoding for Neural Machine Translation".
"""

import collections
from collections.abc import Sequence

import numpy as np

ORDER, BETA = 6, 2  # Of chrF (Popović 2015), as in sacreBLEU.


def chrf_of_pairs(texts: Sequence[str]) -> np.ndarray:
    """Computes sacreBLEU's sentence chrF, 0 to 100, of every text against every other.

    sacreBLEU itself counts the n-grams of both texts anew for each pair, which for 100 samples of
    a line takes seconds. Returns `[n, n]` float64: row h, column r has text h as hypothesis and r
    as reference.
    """
    texts = ["".join(text.split()) for text in texts]
    size = len(texts)
    precision, recall, orders = (np.zeros([size, size]) for _ in range(3))
    for order in range(1, ORDER + 1):
        counters = [_ngrams(text, order) for text in texts]
        matches = _matches(counters)
        totals = np.array([counter.total() for counter in counters])
        both = (totals[:, None] > 0) & (totals[None, :] > 0)
        precision += both * matches / np.maximum(totals, 1)[:, None]
        recall += both * matches / np.maximum(totals, 1)[None, :]
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    below = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1.0)


def expected_utilities(texts: Sequence[str], weights: np.ndarray) -> np.ndarray:
    """Computes each text's expected chrF, if every text is the right one with its weight.

    Texts may repeat. The n weights are at least 0, with a positive sum; returns `[n]` float64.
    """
    weights = np.asarray(weights, np.float64)
    together = collections.defaultdict(float)  # Equal texts are compared once.
    for text, weight in zip(texts, weights / weights.sum(), strict=True):
        together[text] += weight
    utilities = chrf_of_pairs(list(together)) @ np.array(list(together.values()))
    utility_of = dict(zip(together, utilities, strict=True))
    return np.array([utility_of[text] for text in texts])


def _ngrams(text, order):
    return collections.Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _matches(counters):
    """Counts the n-grams that each text shares with every other, `[n, n]` int64.

    n-gram by n-gram, because a row of all n-grams for each text would be as long as all texts.
    """
    places = collections.defaultdict(list)
    for row, counter in enumerate(counters):
        for ngram, count in counter.items():
            places[ngram].append((row, count))
    matches = np.zeros([len(counters)] * 2, np.int64)
    for occurrences in places.values():
        rows, counts = np.array(occurrences).T
        matches[rows[:, None], rows] += np.minimum(counts[:, None], counts)
    return matches
