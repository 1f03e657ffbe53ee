"""Minimum Bayes risk: of several translations, chooses the one most similar to all others.

Kumar and Byrne 2004, "Minimum Bayes-Risk Decoding for Statistical Machine Translation"; with
samples and chrF: Eikema and Aziz 2022, "Sampling-Based Approximations to Minimum Bayes Risk
Decoding for Neural Machine Translation".
"""

import collections

import numpy as np

ORDER, BETA = 6, 2  # Of chrF (Popović 2015), as in sacreBLEU.


def chrf_of_pairs(texts):
    """Computes sacreBLEU's sentence chrF of every text against every other.

    sacreBLEU itself counts the n-grams of both texts anew for each pair, which for 100 samples of
    a line takes seconds.

    Args:
        texts: list of n str.

    Returns:
        `[n, n]` float64, 0 to 100: row h, column r has text h as hypothesis and r as reference.
    """
    texts = ["".join(text.split()) for text in texts]
    size = len(texts)
    precision, recall, orders = (np.zeros([size, size]) for _ in range(3))
    for order in range(1, ORDER + 1):
        counts = _counts([_ngrams(text, order) for text in texts])
        matches = np.stack([np.minimum(counts, row).sum(axis=1) for row in counts])
        totals = counts.sum(axis=1)
        both = (totals[:, None] > 0) & (totals[None, :] > 0)
        precision += both * matches / np.maximum(totals, 1)[:, None]
        recall += both * matches / np.maximum(totals, 1)[None, :]
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    below = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1.0)


def expected_utilities(texts, weights):
    """Computes each text's expected chrF, if every text is the right one with its weight.

    Args:
        texts: list of n str; may repeat.
        weights: n numbers, at least 0, with a positive sum.

    Returns:
        `[n]` float64, 0 to 100.
    """
    weights = np.asarray(weights, np.float64)
    together = collections.defaultdict(float)  # Equal texts are compared once.
    for text, weight in zip(texts, weights / weights.sum(), strict=True):
        together[text] += weight
    utilities = chrf_of_pairs(list(together)) @ np.array(list(together.values()))
    return np.array([dict(zip(together, utilities, strict=True))[text] for text in texts])


def _ngrams(text, order):
    return collections.Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _counts(counters):
    """Returns counters as the rows of one matrix, `[n, distinct n-grams]` int32."""
    columns = {}
    for counter in counters:
        for ngram in counter:
            columns.setdefault(ngram, len(columns))
    counts = np.zeros([len(counters), len(columns)], np.int32)
    for row, counter in zip(counts, counters, strict=True):
        row[[columns[ngram] for ngram in counter]] = list(counter.values())
    return counts
