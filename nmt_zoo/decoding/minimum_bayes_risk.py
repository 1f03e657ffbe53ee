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
    # n-gram by n-gram, because a row of all n-grams for each text would be as long as all texts.
    counts = collections.defaultdict(collections.Counter)  # n-gram -> number of a text -> count.
    for row, text in enumerate(texts):
        for order in range(1, ORDER + 1):
            for i in range(len(text) - order + 1):
                counts[text[i : i + order]][row] += 1
    matches = np.zeros([ORDER, len(texts), len(texts)])
    for ngram, of_texts in counts.items():
        rows, some = (np.array([*values]) for values in (of_texts.keys(), of_texts.values()))
        matches[len(ngram) - 1, rows[:, None], rows] += np.minimum(some[:, None], some)
    totals = np.array([[max(len(x) - order, 0) for x in texts] for order in range(ORDER)])
    orders = np.sum((totals[:, :, None] > 0) & (totals[:, None, :] > 0), axis=0)
    totals, orders = np.maximum(totals, 1), np.maximum(orders, 1)
    precision = (matches / totals[:, :, None]).sum(axis=0) / orders
    recall = (matches / totals[:, None, :]).sum(axis=0) / orders
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
