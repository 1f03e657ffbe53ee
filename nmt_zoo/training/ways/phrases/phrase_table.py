"""Counts the phrase pairs of an aligned text, and estimates a phrase table from them."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.models.phrases.arrays import best_of_each
from nmt_zoo.models.phrases.sentence_options import LONGEST, NO_KEY, NOTHING, PhraseTable
from nmt_zoo.training.ways.counting.counting import estimate_discounts
from nmt_zoo.training.ways.phrases.extraction import (
    LinkedText,
    add_up,
    count_in_parts,
    extract,
    inner_links,
    lexical_weights,
    orientations,
    positions_of,
)

_PAIRS_AT_ONCE = 1 << 13  # Sentence pairs whose phrase pairs are extracted at once.
_PRIOR = 0.5  # Occurrences of the usual orientations that are added to those of each phrase pair.


class PairCounts(NamedTuple):
    """The distinct phrase pairs of a text, by rising key."""

    keys: np.ndarray  # [P] int64, source number times the count of target numbers, plus target
    counts: np.ndarray  # [P] int32, occurrences
    orientations: np.ndarray  # [P, 6] int32, occurrences by orientation before, and behind
    # [P, 2] float32: sums of `LexicalWeights` of source and target of one occurrence, the one with
    # the largest sum of both, as Koehn et al. 2003, equation 5, takes the largest.
    lexical: np.ndarray
    starts: np.ndarray  # [P, 2] int32, start of that occurrence in source and target text


def number_phrases(side: EncodedSide, vocab_size: int, max_length: int) -> tuple[list, np.ndarray]:
    """Numbers the phrases of a text of up to `max_length` words; words keep their ids.

    Returns (for each length from 1, the first number of that length, then the count of all numbers;
    `[max_length, N]` int32, in row n - 1 the number of the phrase of n words that begins at each
    position, or -1 if the sentence ends before).
    """
    ids = side.ids.astype(np.int64)
    left = np.repeat(np.cumsum(side.lengths, dtype=np.int64), side.lengths) - 1
    left -= np.arange(ids.size)  # Words from each position to the end of its sentence.
    phrases = np.full((max_length, ids.size), -1, np.int32)
    phrases[0] = np.where(left > 0, ids, -1)
    firsts = [0, vocab_size]
    for length in range(2, max_length + 1):
        starts = np.flatnonzero(left >= length)
        before = phrases[length - 2, starts].astype(np.int64)
        keys = before * vocab_size + ids[starts + length - 1]
        keys, numbers = np.unique(keys, return_inverse=True)
        phrases[length - 1, starts] = firsts[-1] + numbers
        firsts.append(firsts[-1] + keys.size)
    return firsts, phrases


def estimate(
    corpus: EncodedCorpus,
    text: LinkedText,
    vocab_sizes: tuple[int, int],
    *,
    max_length: int,
    most: int,
) -> tuple[PhraseTable, int]:
    """Extracts and scores phrase pairs; returns (their table, how many different ones there are).

    Args:
        corpus, text: sentence pairs that end in `</s>`, and their links.
        vocab_sizes: numbers of source and target ids.
        max_length: most words of a phrase, at most 7.
        most: most target phrases kept for each source phrase.

    Relative frequencies are smoothed by modified Kneser-Ney discounts, as in Foster, Kuhn and
    Johnson 2006, "Phrasetable Smoothing for Statistical Machine Translation", section 3.
    """
    numbered = map(number_phrases, corpus, vocab_sizes, [max_length] * 2)
    firsts, phrases = zip(*numbered, strict=True)
    num_targets = firsts[1][-1]
    sums = [np.append(0.0, np.cumsum(w)) for w in lexical_weights(corpus, text)]
    pairs = count_in_parts(
        corpus,
        text,
        partial(_count, phrases=phrases, num_targets=num_targets, sums=sums, most=max_length),
        "phrases",
        _PAIRS_AT_ONCE,
    )
    del phrases
    ends = pairs.keys // num_targets, pairs.keys % num_targets
    scores = scores_of(pairs, ends)
    best = best_of_each(ends[0], scores.sum(axis=1), most)
    lengths = [
        np.searchsorted(of_side, numbers[best], side="right")
        for of_side, numbers in zip(firsts, ends, strict=True)
    ]
    starts = pairs.starts[best].astype(np.int64)
    positions = list(map(positions_of, starts.T, lengths))
    words = [
        np.where(at >= 0, side.ids[at], NOTHING) for side, at in zip(corpus, positions, strict=True)
    ]
    of_pairs = scores[best], _orientation_scores(pairs, best), inner_links(text, *positions)
    return table_of(*words, *of_pairs, vocab_sizes), pairs.keys.size


def _count(text, begin, *, phrases, num_targets, sums, most):
    """Counts the phrase pairs of a part of the text that begins at the positions `begin`.

    `phrases` are the numbers of both sides from `number_phrases`.
    """
    pairs = extract(text, most)
    kinds = orientations(text, pairs)
    starts = pairs.source_start + begin[0], pairs.target_start + begin[1]
    lengths = pairs.source_end - pairs.source_start, pairs.target_end - pairs.target_start
    source, target = (
        of_side[length - 1, start].astype(np.int64)
        for of_side, length, start in zip(phrases, lengths, starts, strict=True)
    )
    weights = [
        of_side[start + length] - of_side[start]
        for of_side, start, length in zip(sums, starts, lengths, strict=True)
    ]
    rows = np.arange(kinds.shape[0])
    by_kind = np.zeros((rows.size, 6), np.int32)
    by_kind[rows, kinds[:, 0]] = 1
    by_kind[rows, 3 + kinds[:, 1]] = 1
    keys = source * num_targets + target
    occurrences = PairCounts(
        keys,
        np.ones(rows.size, np.int32),
        by_kind,
        np.stack(weights, 1).astype(np.float32),
        np.stack(starts, 1).astype(np.int32),
    )
    return add_up([occurrences])


def table_of(
    source: np.ndarray,
    target: np.ndarray,
    scores: np.ndarray,
    reordering: np.ndarray,
    links: np.ndarray,
    vocab_sizes: tuple[int, int],
) -> PhraseTable:
    """Makes the table of P pairs in any order; the last three arrays are as of `PhraseTable`.

    `source` and `target` are `[P, LONGEST]`: symbols, those of the source below the first of the
    `vocab_sizes`, then `NOTHING`.
    """
    source_keys, nodes = source_nodes(source, vocab_sizes[0])
    order = np.lexsort((-scores.sum(axis=1), nodes))
    num_pairs = np.bincount(nodes, minlength=vocab_sizes[0] + source_keys.size - 1)
    target = target[order]
    ends = np.cumsum(num_pairs), np.cumsum((target != NOTHING).sum(axis=1))
    return PhraseTable(
        *vocab_sizes,
        source_keys,
        *(np.append(0, of_kind).astype(np.int32) for of_kind in ends),
        target[target != NOTHING].astype(np.int32),
        scores[order].astype(np.float32),
        reordering[order],
        links[order],
    )


def source_nodes(symbols: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the source sides of P pairs as the nodes of a `PhraseTable`.

    `symbols` are `[P, LONGEST]`, below `size`; then `NOTHING`. Returns (`source_keys` of the table,
    the node of each pair `[P]` int64).
    """
    symbols = symbols.astype(np.int64)
    nodes, keys, num_nodes = symbols[:, 0].copy(), [], size
    for column in range(1, LONGEST):
        rows = np.flatnonzero(symbols[:, column] >= 0)
        new = nodes[rows] * size + symbols[rows, column]
        new, numbers = np.unique(new, return_inverse=True)
        nodes[rows] = num_nodes + numbers
        keys.append(new)
        num_nodes += new.size
    return np.concatenate([*keys, [NO_KEY]]), nodes


def scores_of(pairs: Any, ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Returns the scores of a `PhraseTable`, `[P, 4]` float64, by `PairCounts` or `RuleCounts`.

    `ends` are `[P]` int64, numbers of the source sides and of the target sides.
    """
    given_target, given_source = (
        conditional(pairs.counts, ends[1 - side], ends[side]) for side in (0, 1)
    )
    columns = np.log(given_target), pairs.lexical[:, 0], np.log(given_source), pairs.lexical[:, 1]
    return np.stack(columns, axis=1)


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
