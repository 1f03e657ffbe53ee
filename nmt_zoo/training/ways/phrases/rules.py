"""Extracts and counts the rules of a hierarchical model: phrase pairs with gaps.

Chiang 2007, "Hierarchical Phrase-Based Translation", section 3.2. Rules are found by taking phrase
pairs out of larger ones; those without gaps are the phrase pairs themselves.
"""

from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.models.phrases.arrays import best_of_each, mixed
from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING, PhraseTable
from nmt_zoo.training.ways.phrases.extraction import (
    LinkedText,
    add_up,
    count_in_parts,
    extract,
    inner_links,
    lexical_weights,
    positions_of,
    smallest_targets,
)
from nmt_zoo.training.ways.phrases.phrase_table import scores_of, table_of

MOST_SYMBOLS = 5  # Words and gaps of a source side with gaps.
_SHORTEST_GAP = 2  # Source words; as in Chiang 2005, section 3.
_GAPS = (-2, -3)  # Places of the first gap of the source, and of the second.
_AT_ONCE = 1 << 11  # Sentence pairs whose rules are extracted at once.
_LEAST_COUNT = 2  # Occurrences of a rule with gaps that is kept.


class RuleCounts(NamedTuple):
    """The distinct rules of a text, by rising key."""

    keys: np.ndarray  # [P] int64, hash of both sides
    counts: np.ndarray  # [P] int32, occurrences
    # [P, 2] float32, lexical weights of one occurrence, as of `phrase_table.PairCounts`
    lexical: np.ndarray
    source: np.ndarray  # [P, LONGEST] int32, words, gaps as the id V, then `NOTHING`
    # [P, LONGEST] int32, words, gaps as V and V + 1 in the order of the source, then `NOTHING`
    target: np.ndarray
    links: np.ndarray  # [P] int64, bit 7 i + j: symbols i and j are linked words


def estimate(
    corpus: EncodedCorpus,
    text: LinkedText,
    vocab_sizes: tuple[int, int],
    *,
    max_length: int,
    most: int,
) -> tuple[PhraseTable, int]:
    """Extracts and scores rules; as `phrase_table.estimate`, without orientations.

    `max_length` is the most words of the phrase pairs, on either side, that rules are made of.
    Source nodes are of symbols below V + 1, of which V is a gap; target words V and V + 1 are gaps.
    """
    rules = count_rules(corpus, text, vocab_sizes, max_length)
    hashes = mixed(rules.source.T), mixed(rules.target.T)
    ends = [np.unique(of_side, return_inverse=True)[1] for of_side in hashes]
    scores = scores_of(rules, ends).astype(np.float32)
    is_plain = (rules.source != vocab_sizes[0]).all(axis=1)
    best = np.flatnonzero(is_plain | (rules.counts >= _LEAST_COUNT))
    best = best[best_of_each(ends[0][best], scores[best].sum(axis=1), most)]
    reordering = np.zeros((best.size, 0), np.float32)
    arrays = rules.source[best], rules.target[best], scores[best], reordering, rules.links[best]
    return table_of(*arrays, (vocab_sizes[0] + 1, vocab_sizes[1])), rules.keys.size


def count_rules(
    corpus: EncodedCorpus, text: LinkedText, vocab_sizes: tuple[int, int], max_length: int
) -> RuleCounts:
    """Counts every rule of a text, a part of the text at a time."""
    lexical = lexical_weights(corpus, text)

    def count(part, begin):
        start, end, first, last = extract(part, min(max_length, LONGEST))
        phrases = positions_of(start, end - start), positions_of(first, last - first)
        parts = [phrases, *_rule_places(part, max_length)]
        places = [np.concatenate(side) for side in zip(*parts, strict=True)]
        positions = [
            np.where(side >= 0, side + offset, side).astype(np.int32)
            for side, offset in zip(places, begin, strict=True)
        ]
        return _count(corpus, text, lexical, positions, vocab_sizes)

    return count_in_parts(corpus, text, count, "rules", _AT_ONCE)


def _rule_places(text, max_length):
    """Yields the places of all rules with gaps, `[P, LONGEST]` int64 for source and target.

    A place is the position of a word in the text, a number of `_GAPS`, or, after the end,
    `NOTHING`. A rule comes from a phrase pair of up to `max_length` words on either side, by taking
    out one or two phrase pairs of two or more source words; words at the edges of all of them are
    linked. Its gaps are not side by side in the source, and some words of it are linked.
    """
    is_linked = np.zeros(text.source_ends.size, bool)
    is_linked[text.sources] = True
    target_linked = np.zeros(text.target_ends.size, bool)
    target_linked[text.targets] = True
    # Start and end of the target phrase, by length and start of the source phrase; -1: none.
    lefts, rights = np.full((2, max_length + 1, text.source_ends.size), -1)
    for length, starts, left, right in smallest_targets(text, max_length):
        tight = is_linked[starts] & is_linked[starts + length - 1]
        lefts[length, starts[tight]], rights[length, starts[tight]] = left[tight], right[tight]
    whole = [np.flatnonzero(left >= 0) for left in lefts]
    for length, gaps in _shapes(max_length):
        starts = whole[length]
        for offset, size in gaps:
            starts = starts[lefts[size, starts + offset] >= 0]
        if not starts.size:
            continue
        inner = [(lefts[size, starts + at], rights[size, starts + at]) for at, size in gaps]
        target, fits = _target_places(lefts[length, starts], rights[length, starts], inner)
        source = np.full((starts.size, LONGEST), NOTHING)
        for column, offset in enumerate(_source_symbols(length, gaps)):
            source[:, column] = offset if offset < 0 else starts + offset
        fits &= (is_linked[source] & (source >= 0)).any(axis=1)
        yield source[fits], target[fits]


def _shapes(max_length):
    """Yields (source words of a phrase, (first word, number of words) of each of its gaps)."""
    for length in range(_SHORTEST_GAP + 1, max_length + 1):
        for size in range(_SHORTEST_GAP, length):
            for at in range(length - size + 1):
                if length - size + 1 <= MOST_SYMBOLS:
                    yield length, ((at, size),)
                for more in range(_SHORTEST_GAP, length - size):
                    for second in range(at + size + 1, length - more + 1):
                        if length - size - more + 2 <= MOST_SYMBOLS:
                            yield length, ((at, size), (second, more))


def _source_symbols(length, gaps):
    """Lists the offsets of words and the numbers of gaps of a source side."""
    symbols, position = [], 0
    for (at, size), number in zip(gaps, _GAPS, strict=False):
        symbols += [*range(position, at), number]
        position = at + size
    return [*symbols, *range(position, length)]


def _target_places(left, right, inner):
    """Returns the places of target sides, and which of them are short enough."""
    target = np.full((left.size, LONGEST), NOTHING)
    position = left.copy()
    for column in target.T:
        more = position < right
        column[more] = position[more]
        after = position + more
        for (first, last), number in zip(inner, _GAPS, strict=False):
            opens = more & (position == first)
            column[opens] = number
            after[opens] = last[opens]
        position = after
    return target, position >= right


def _count(corpus, text, lexical, places, vocab_sizes):
    """Counts rules at some places, `[P, LONGEST]` int32 for each side."""
    symbols, weights = [], []
    for side, (at, size) in enumerate(zip(places, vocab_sizes, strict=True)):
        words = corpus[side].ids[np.maximum(at, 0)]
        words = np.where(at >= 0, words, NOTHING)
        for number, gap in enumerate(_GAPS):
            words[at == gap] = size if side == 0 else size + number
        symbols.append(words)
        weights.append(np.where(at >= 0, lexical[side][np.maximum(at, 0)], 0.0).sum(axis=1))
    keys = mixed(np.concatenate(symbols, axis=1).T).view(np.int64)
    counts = np.ones(keys.size, np.int32)
    both = np.stack(weights, axis=1).astype(np.float32)
    # Numbers of occurrences stand for the links until it is known which occurrences are kept.
    rules = add_up([RuleCounts(keys, counts, both, *symbols, np.arange(keys.size))])
    return rules._replace(links=inner_links(text, *(at[rules.links] for at in places)))
