"""Counts n-grams and smooths them: the interpolated, modified Kneser-Ney language model.

Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section
3; the sentence start as Heafield et al. 2013, "Scalable Modified Kneser-Ney Language Model
Estimation". A text of T tokens takes one sort of T integers for each order, and about 80 bytes of
memory a token.
"""

from typing import NamedTuple

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedSide
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, PAD_ID

# Discounts of counts of 1, of 2 and of 3 or more, for texts that are too small or too regular to
# estimate discounts.
FALLBACK = (0.5, 1.0, 1.5)


class NgramTable(NamedTuple):
    """An interpolated n-gram model, as `models.ngram.NgramLanguageModel` stores it.

    The n-grams are the nodes of a trie. Words are nodes 0 to V - 1; n-grams of two and more words
    are numbered from V on, in the order of their keys.
    """

    unigrams: np.ndarray  # [V] float32, P(word); sums to 1
    keys: np.ndarray  # [M] int64, rising: V times the node of all words but the last, plus the last
    probabilities: np.ndarray  # [M] float32, the discounted relative frequency of the last word
    backoffs: np.ndarray  # [V + M] float32, by node as context: the weight of the next shorter one
    num_ngrams: list  # numbers of n-grams of 2, 3, ... words; M in all
    discounts: list  # for each order, from 1, the discounts of counts of 1, 2 and 3 or more
    estimated: list  # for each order, whether its discounts come from the text, not `FALLBACK`


class _Level(NamedTuple):
    """The distinct n-grams of one order: keys as in `NgramTable`, and adjusted counts."""

    keys: np.ndarray
    counts: np.ndarray


def estimate(text: EncodedSide, vocab_size: int, order: int) -> NgramTable:
    """Estimates the language model of a text whose sentences end in `</s>`.

    `vocab_size` is V; the longest n-grams have `order` words, at least 1.
    """
    levels = _count(text, vocab_size, order)
    backoffs, probabilities = [], []
    discounts, estimated = zip(*(estimate_discounts(c) for _, c in levels), strict=True)
    first_node = 0  # Of the contexts: the n-grams one word shorter.
    for shorter, level, taken in zip(levels, levels[1:], discounts[1:], strict=False):
        contexts = level.keys // vocab_size - first_node
        size = shorter.counts.size
        off = np.array([0, *taken])[np.minimum(level.counts, 3)]
        totals = np.bincount(contexts, level.counts, size)
        left = np.bincount(contexts, off, size)
        probabilities.append((level.counts - off) / totals[contexts])
        # A node that nothing ever follows, such as `</s>`, leaves all to the shorter context.
        backoffs.append(np.divide(left, totals, out=np.ones(size), where=totals > 0))
        first_node += size
    backoffs.append(np.ones(levels[-1].counts.size))
    return NgramTable(
        _unigrams(levels[0].counts, discounts[0]),
        np.concatenate([np.zeros(0, np.int64), *(level.keys for level in levels[1:])]),
        np.concatenate([np.zeros(0), *probabilities]).astype(np.float32),
        np.concatenate(backoffs).astype(np.float32),
        [level.counts.size for level in levels[1:]],
        [tuple(taken.tolist()) for taken in discounts],
        list(estimated),
    )


def estimate_discounts(counts: np.ndarray) -> tuple[np.ndarray, bool]:
    """Estimates the three discounts of one order, Chen and Goodman 1998, equation 26.

    `counts` are int64 adjusted counts of n-grams; zeros are ignored. Returns (`[3]` float64,
    whether they are estimated). They are `FALLBACK` instead if one of the counts 1 to 4 does not
    occur, or if a discount would not be positive.
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(np.float64)
    if min(n1, n2, n3, n4) > 0:
        y = n1 / (n1 + 2 * n2)
        discounts = np.array([1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
        if (discounts > 0).all():
            return discounts, True
    return np.array(FALLBACK), False


def _unigrams(counts, taken):
    """Returns P(word), `[V]` float32: all words that can be predicted share the discounts alike."""
    possible = np.ones(counts.size, bool)
    possible[[PAD_ID, BOS_ID]] = False
    off = np.array([0, *taken])[np.minimum(counts, 3)]
    share = off.sum() / np.count_nonzero(possible)
    return (np.where(possible, counts - off + share, 0) / counts.sum()).astype(np.float32)


def _count(text, vocab_size, order):
    """Returns the `_Level`s of the orders from 1 on, with adjusted counts.

    The adjusted count of an n-gram is the number of different words before it. For the longest
    n-grams, and for n-grams at the start of a sentence, which have no word before them, it is the
    number of occurrences.
    """
    words, places = _with_starts(text)
    nodes, first_node = words.astype(np.int64), 0  # The n-gram that ends at each word.
    levels = [_Level(np.arange(vocab_size), np.bincount(words, minlength=vocab_size))]
    with Progress("counting n-grams", order, "orders", initial=1) as progress:
        for length in range(2, order + 1):
            ends = np.flatnonzero(places >= length - 1)
            keys, numbers, counts = np.unique(
                nodes[ends - 1] * vocab_size + words[ends], return_inverse=True, return_counts=True
            )
            shorter, suffixes = levels[-1], np.empty_like(keys)
            suffixes[numbers] = nodes[ends] - first_node  # The n-grams without their first words.
            before = np.bincount(suffixes, minlength=shorter.counts.size)
            levels[-1] = shorter._replace(counts=np.where(before > 0, before, shorter.counts))
            levels.append(_Level(keys, counts))
            first_node += shorter.counts.size
            nodes = np.full(words.size, -1)
            nodes[ends] = first_node + numbers
            progress.update(1)
    levels[0].counts[BOS_ID] = 0  # BOS is only a context, and never predicted.
    return levels


def _with_starts(text):
    """Returns all words, with a BOS before each sentence, and their places in their sentences."""
    lengths = text.lengths.astype(np.int64) + 1
    starts = np.cumsum(lengths) - lengths
    words = np.full(lengths.sum(), BOS_ID, text.ids.dtype)
    places = (np.arange(words.size) - np.repeat(starts, lengths)).astype(np.int32)
    words[places > 0] = text.ids
    return words, places
