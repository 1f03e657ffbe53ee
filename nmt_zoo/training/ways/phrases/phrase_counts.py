"""Counts the phrase pairs of an aligned text in bounded memory."""

from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.counting.counting import number_keys
from nmt_zoo.training.ways.phrases.extraction import (
    add_up,
    count_in_parts,
    extract,
    link_text,
    orientations,
)

_PAIRS_AT_ONCE = 1 << 13  # Sentence pairs whose phrase pairs are extracted at once.


class Trie(NamedTuple):
    """The phrases of one side, as the nodes of a trie.

    Words are nodes 0 to V - 1. Longer phrases are numbered from V on, in the order of their keys:
    V times the node of all words but the last, plus the last word.
    """

    vocab_size: int  # V
    keys: np.ndarray  # [F] int64, rising
    first_nodes: list  # for each length from 1, the first node of that length; then V + F

    @property
    def num_nodes(self) -> int:
        return self.vocab_size + self.keys.size


class PairCounts(NamedTuple):
    """The distinct phrase pairs of a text, by rising key."""

    keys: np.ndarray  # [P] int64, source node times the number of target nodes, plus target node
    counts: np.ndarray  # [P] int32, occurrences
    orientations: np.ndarray  # [P, 6] int32, occurrences by orientation before, and behind
    # [P, 2] float32: sums of `LexicalWeights` of source and target of one occurrence, the one with
    # the largest sum of both, as Koehn et al. 2003, equation 5, takes the largest.
    lexical: np.ndarray
    starts: np.ndarray  # [P, 2] int32, start of that occurrence in source and target text


def number_phrases(side: EncodedSide, vocab_size: int, max_length: int) -> tuple[Trie, np.ndarray]:
    """Numbers the phrases of a text of up to `max_length` words.

    Returns (the `Trie`; `[max_length, N]` int32, in row n - 1 the node of the phrase of n words
    that begins at each position, or -1 if the sentence ends before).
    """
    ids = side.ids.astype(np.int64)
    left = np.repeat(np.cumsum(side.lengths, dtype=np.int64), side.lengths) - 1
    left -= np.arange(ids.size)  # Words from each position to the end of its sentence.
    nodes = np.full((max_length, ids.size), -1, np.int32)
    nodes[0] = np.where(left > 0, ids, -1)
    keys, first_nodes, first = [np.zeros(0, np.int64)], [0], vocab_size
    for length in range(2, max_length + 1):
        starts = np.flatnonzero(left >= length)
        before = nodes[length - 2, starts].astype(np.int64)
        new, numbers, *_ = number_keys(before * vocab_size + ids[starts + length - 1])
        nodes[length - 1, starts] = first + numbers
        keys.append(new)
        first_nodes.append(first)
        first += new.size
    return Trie(vocab_size, np.concatenate(keys), [*first_nodes, first]), nodes


def lexical_weights(
    corpus: EncodedCorpus, counts: np.ndarray, links: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the log-probability of every word given the words that it is linked to.

    Arguments are as of `link_text`. Returns `[N]` and `[M]` float64, for source and target words:
    the mean of w(word | linked word) over its links, or w(word | NULL) without links, where w are
    relative frequencies of links. The sum over a phrase is its lexical weight, Koehn et al. 2003,
    equation 4, because words of a phrase pair are linked to words of the pair alone.
    """
    text = link_text(corpus, counts, links)
    ends = text.source_ends, text.target_ends
    result = []
    for side, (positions, others) in enumerate(
        ((text.sources, text.targets), (text.targets, text.sources))
    ):
        words, other_words = corpus[side].ids.astype(np.int64), corpus[1 - side].ids
        size = int(words.max(initial=0)) + 1
        _, numbers, _, num_equal = number_keys(other_words[others] * size + words[positions])
        totals = np.bincount(other_words[others])
        weights = num_equal[numbers] / totals[other_words[others]]
        num_links = np.bincount(positions, minlength=words.size)
        sums = np.bincount(positions, weights, minlength=words.size)
        free = (num_links == 0) & (np.arange(words.size) != ends[side])
        alone = np.bincount(words[free], minlength=size)
        share = alone[words] / max(alone.sum(), 1)
        mean = np.where(num_links > 0, sums / np.maximum(num_links, 1), share)
        result.append(np.log(np.maximum(mean, 1e-12)))
    return result[0], result[1]


def count_pairs(
    corpus: EncodedCorpus,
    counts: np.ndarray,
    links: np.ndarray,
    nodes: tuple[np.ndarray, np.ndarray],
    num_target_nodes: int,
    max_length: int,
) -> PairCounts:
    """Counts phrase pairs, a part of the text at a time.

    Arguments are as of `link_text`; `nodes` are those of both sides, from `number_phrases`.
    """
    sums = [np.append(0.0, np.cumsum(w)) for w in lexical_weights(corpus, counts, links)]

    def count(part, begin):
        return _count(part, begin, nodes, num_target_nodes, sums, max_length)

    text = link_text(corpus, counts, links)
    return count_in_parts(corpus, text, count, "phrases", _PAIRS_AT_ONCE)


def _count(text, begin, nodes, num_target_nodes, lexical, max_length):
    """Counts the phrase pairs of a part of the text that begins at the positions `begin`."""
    pairs = extract(text, max_length)
    kinds = orientations(text, pairs)
    starts = pairs.source_start + begin[0], pairs.target_start + begin[1]
    lengths = pairs.source_end - pairs.source_start, pairs.target_end - pairs.target_start
    source, target = (
        of_side[length - 1, start].astype(np.int64)
        for of_side, length, start in zip(nodes, lengths, starts, strict=True)
    )
    weights = [
        sums[start + length] - sums[start]
        for sums, start, length in zip(lexical, starts, lengths, strict=True)
    ]
    rows = np.arange(kinds.shape[0])
    by_kind = np.zeros((rows.size, 6), np.int32)
    by_kind[rows, kinds[:, 0]] = 1
    by_kind[rows, 3 + kinds[:, 1]] = 1
    keys = source * num_target_nodes + target
    occurrences = PairCounts(
        keys,
        np.ones(rows.size, np.int32),
        by_kind,
        np.stack(weights, 1).astype(np.float32),
        np.stack(starts, 1).astype(np.int32),
    )
    return add_up([occurrences])
