"""Estimates the phrase table of a translation model from an aligned text."""

from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.models.phrases.arrays import best_of_each
from nmt_zoo.training.ways.counting.counting import estimate_discounts
from nmt_zoo.training.ways.phrases.extraction import inner_links, link_text, positions_of
from nmt_zoo.training.ways.phrases.phrase_counts import (
    PairCounts,
    Trie,
    count_pairs,
    number_phrases,
)

_PRIOR = 0.5  # Occurrences of the usual orientations that are added to those of each phrase pair.


class PhraseTable(NamedTuple):
    """Phrase pairs with their scores, as `models.phrases.phrase_model.PhraseModel` stores them.

    F source phrases of two and more words, P pairs and W words of their target phrases. Nodes are
    as of `phrase_counts.Trie`. Pairs are sorted by source node, and then the best first.
    """

    source_keys: np.ndarray  # [F] int64, rising
    first_pairs: np.ndarray  # [V + F + 1] int32, the first pair of each node; then P
    target_starts: np.ndarray  # [P + 1] int32, the first target word of each pair; then W
    target_words: np.ndarray  # [W] int32
    # [P, 4] float32, logarithms: p(source | target), lexical weight of source given target,
    # p(target | source), lexical weight of target given source
    scores: np.ndarray
    # [P, 6] float32, log-probabilities of the orientations before, and behind
    reordering: np.ndarray
    links: np.ndarray  # [P] int64, bit 7 i + j: source word i and target word j are linked
    num_found: int  # distinct pairs in the text, of which P are kept


def estimate(
    corpus: EncodedCorpus,
    counts: np.ndarray,
    links: np.ndarray,
    vocab_sizes: tuple[int, int],
    *,
    max_length: int,
    most: int,
) -> PhraseTable:
    """Extracts and scores phrase pairs.

    Args:
        corpus: sentence pairs that end in `</s>`.
        counts: `[sentences]` int, links of each sentence pair.
        links: `[L, 2]` int, (source position, target position) in the sentences, from 0.
        vocab_sizes: numbers of source and target ids.
        max_length: most words of a phrase, at most 7.
        most: most target phrases kept for each source phrase.

    Relative frequencies are smoothed by modified Kneser-Ney discounts, as in Foster, Kuhn and
    Johnson 2006, "Phrasetable Smoothing for Statistical Machine Translation", section 3.
    """
    (source, source_nodes), (target, target_nodes) = (
        number_phrases(side, size, max_length)
        for side, size in zip(corpus, vocab_sizes, strict=True)
    )
    nodes = source_nodes, target_nodes
    pairs = count_pairs(corpus, counts, links, nodes, target.num_nodes, max_length)
    del source_nodes, target_nodes, nodes
    ends = pairs.keys // target.num_nodes, pairs.keys % target.num_nodes
    given_target, given_source = (
        conditional(pairs.counts, ends[1 - side], ends[side]) for side in (0, 1)
    )
    scores = np.stack(
        [np.log(given_target), pairs.lexical[:, 0], np.log(given_source), pairs.lexical[:, 1]], 1
    )
    best = best_of_each(ends[0], scores.sum(axis=1), most)
    best = best[np.lexsort((-scores[best].sum(axis=1), ends[0][best]))]
    lengths = [
        np.searchsorted(trie.first_nodes, node[best], side="right")
        for trie, node in zip((source, target), ends, strict=True)
    ]
    source_keys, first_pairs = _kept_nodes(source, ends[0][best])
    starts = pairs.starts[best].astype(np.int64)
    words, target_starts = _words(corpus.target.ids, starts[:, 1], lengths[1])
    return PhraseTable(
        source_keys,
        first_pairs,
        target_starts,
        words,
        scores[best].astype(np.float32),
        _orientation_scores(pairs, best),
        inner_links(link_text(corpus, counts, links), *map(positions_of, starts.T, lengths)),
        pairs.keys.size,
    )


def conditional(counts: np.ndarray, given: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimates p(other | given) of pairs, `[P]` float64, from their counts.

    `counts` `[P]` int64; `given` and `other` `[P]` int64 are what the pairs are made of. The counts
    are discounted, and what is left goes to each `other` by its number of different pairs.
    """
    taken, _ = estimate_discounts(counts)
    off = np.array([0, *taken])[np.minimum(counts, 3)]
    off = np.minimum(off, counts)
    totals = np.bincount(given, counts)
    left = np.bincount(given, off)
    lower = np.bincount(other) / max(counts.size, 1)
    return (counts - off + left[given] * lower[other]) / totals[given]


def _kept_nodes(trie: Trie, nodes):
    """Drops the nodes without pairs that lead to none; returns (keys, first pair of each node)."""
    size = trie.vocab_size
    is_kept = np.zeros(trie.num_nodes, bool)
    is_kept[:size] = is_kept[nodes] = True
    lengths = list(zip(trie.first_nodes[1:], trie.first_nodes[2:], strict=False))
    for first, last in reversed(lengths):
        used = np.flatnonzero(is_kept[first:last]) + first
        is_kept[trie.keys[used - size] // size] = True
    new = np.cumsum(is_kept) - 1
    keys = trie.keys[is_kept[size:]]
    keys = new[keys // size] * size + keys % size
    counts = np.bincount(new[nodes], minlength=size + keys.size)
    return keys, np.append(0, np.cumsum(counts)).astype(np.int32)


def _words(ids, starts, lengths):
    """Returns the words of phrases of a text in one array, and where each phrase begins in it."""
    ends = np.cumsum(lengths)
    shift = np.repeat(starts - (ends - lengths), lengths)
    words = ids[np.arange(shift.size) + shift]
    return words.astype(np.int32), np.append(0, ends).astype(np.int32)


def _orientation_scores(pairs: PairCounts, best):
    """Returns `[P, 6]` float32 log-probabilities of orientations, smoothed by the usual ones."""
    both = []
    for side in (slice(0, 3), slice(3, 6)):
        counts = pairs.orientations[:, side]
        total = counts.sum(axis=0) + 1
        usual = total / total.sum()
        smoothed = counts[best] + _PRIOR * usual
        both.append(np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))
    return np.concatenate(both, axis=1).astype(np.float32)
