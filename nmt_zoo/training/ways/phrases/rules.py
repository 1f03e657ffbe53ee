"""Extracts and counts the rules of a hierarchical model: phrase pairs with gaps.

Chiang 2007, "Hierarchical Phrase-Based Translation", section 3.2. Rules are found by taking phrase
pairs out of larger ones; those without gaps are the phrase pairs themselves.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.models.phrases.arrays import best_of_each, mixed
from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING
from nmt_zoo.training.ways.counting.counting import number_keys
from nmt_zoo.training.ways.phrases.extraction import (
    LinkedText,
    extract,
    link_text,
    smallest_targets,
)
from nmt_zoo.training.ways.phrases.phrase_counts import lexical_weights
from nmt_zoo.training.ways.phrases.phrase_table import PhraseTable, conditional

MOST_SYMBOLS = 5  # Words and gaps of a source side with gaps.
_SHORTEST_GAP = 2  # Source words; as in Chiang 2005, section 3.
_GAPS = (-2, -3)  # Places of the first gap of the source, and of the second.
_AT_ONCE = 1 << 11  # Sentence pairs whose rules are extracted at once.
_LEAST_COUNT = 2  # Occurrences of a rule with gaps that is kept.


class RuleCounts(NamedTuple):
    """The distinct rules of a text, by rising key."""

    keys: np.ndarray  # [P] int64, hash of both sides
    counts: np.ndarray  # [P] int32, occurrences
    # [P, 2] float32, lexical weights of one occurrence, as of `phrase_counts.PairCounts`
    lexical: np.ndarray
    source: np.ndarray  # [P, LONGEST] int32, words, gaps as the id V, then `NOTHING`
    # [P, LONGEST] int32, words, gaps as V and V + 1 in the order of the source, then `NOTHING`
    target: np.ndarray
    links: np.ndarray  # [P] int64, bit 7 i + j: symbols i and j are linked words


def estimate(
    corpus: EncodedCorpus,
    counts: np.ndarray,
    links: np.ndarray,
    vocab_sizes: tuple[int, int],
    *,
    max_length: int,
    most: int,
) -> PhraseTable:
    """Extracts and scores rules; as `phrase_table.estimate`, without orientations.

    `max_length` is the most words of the phrase pairs, on either side, that rules are made of.
    Source nodes are of symbols below V + 1, of which V is a gap; target words V and V + 1 are gaps.
    """
    rules = count_rules(corpus, counts, links, vocab_sizes, max_length)
    ends = [number_keys(mixed(side.T).view(np.int64))[1] for side in (rules.source, rules.target)]
    given_target, given_source = (
        conditional(rules.counts, ends[1 - side], ends[side]) for side in (0, 1)
    )
    scores = np.stack(
        [np.log(given_target), rules.lexical[:, 0], np.log(given_source), rules.lexical[:, 1]], 1
    ).astype(np.float32)
    is_plain = (rules.source != vocab_sizes[0]).all(axis=1)
    kept = np.flatnonzero(is_plain | (rules.counts >= _LEAST_COUNT))
    kept = kept[best_of_each(ends[0][kept], scores[kept].sum(axis=1), most)]
    source_keys, nodes = _number(rules.source[kept].astype(np.int64), vocab_sizes[0] + 1)
    order = np.lexsort((-scores[kept].sum(axis=1), nodes))
    kept, nodes = kept[order], nodes[order]
    target = rules.target[kept]
    sizes = np.bincount(nodes, minlength=vocab_sizes[0] + 1 + source_keys.size)
    return PhraseTable(
        source_keys,
        np.append(0, np.cumsum(sizes)).astype(np.int32),
        np.append(0, np.cumsum((target != NOTHING).sum(axis=1))).astype(np.int32),
        target[target != NOTHING],
        scores[kept],
        np.zeros((kept.size, 0), np.float32),
        rules.links[kept],
        rules.keys.size,
    )


def count_rules(
    corpus: EncodedCorpus,
    counts: np.ndarray,
    links: np.ndarray,
    vocab_sizes: tuple[int, int],
    max_length: int,
) -> RuleCounts:
    """Counts every rule of a text, a part of the text at a time."""
    lexical = lexical_weights(corpus, counts, links)
    text = link_text(corpus, counts, links)
    starts = [np.append(0, np.cumsum(side.lengths, dtype=np.int64)) for side in corpus]
    found: list[RuleCounts] = []
    with Progress("extracting rules", corpus.num_pairs, "sentence pairs") as progress:
        for first in range(0, corpus.num_pairs, _AT_ONCE):
            last = min(first + _AT_ONCE, corpus.num_pairs)
            part, shift = _part(text, starts, first, last)
            places = [
                np.where(side >= 0, side + more, side).astype(np.int32)
                for side, more in zip(_joined(part, max_length), shift, strict=True)
            ]
            found.append(_count(corpus, text, lexical, places, vocab_sizes))
            # Merged like the digits of a counter: each rule is copied a few times only.
            while len(found) > 1 and found[-1].keys.size >= found[-2].keys.size:
                found[-2:] = [_merged(found[-2:])]
            progress.update(last - first)
    return _merged(found)


def _part(text: LinkedText, starts, first, last):
    """Returns some sentence pairs of a text as a text of its own, and where it was on each side."""
    begin, end = [each[first] for each in starts], [each[last] for each in starts]
    rows = slice(*np.searchsorted(text.sources, (begin[0], end[0])))
    part = LinkedText(
        text.source_ends[begin[0] : end[0]] - begin[0],
        text.target_ends[begin[1] : end[1]] - begin[1],
        text.target_starts[begin[0] : end[0]] - begin[1],
        text.sources[rows] - begin[0],
        text.targets[rows] - begin[1],
    )
    return part, begin


def _joined(text, max_length):
    """Returns the places of all rules, `[P, LONGEST]` for each side."""
    parts = [phrase_places(text, min(max_length, LONGEST)), *rule_places(text, max_length)]
    return [np.concatenate([part[side] for part in parts]) for side in (0, 1)]


def phrase_places(text: LinkedText, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the words of phrase pairs, as `rule_places` those of rules."""
    pairs = extract(text, max_length)
    offsets = np.arange(LONGEST)
    both = (pairs.source_start, pairs.source_end), (pairs.target_start, pairs.target_end)
    source, target = (
        np.where(offsets < (end - start)[:, None], start[:, None] + offsets, NOTHING)
        for start, end in both
    )
    return source, target


def rule_places(text: LinkedText, max_length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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
        for place, offset in enumerate(_source_symbols(length, gaps)):
            source[:, place] = offset if offset < 0 else starts + offset
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
    symbols, place = [], 0
    for (at, size), number in zip(gaps, _GAPS, strict=False):
        symbols += [*range(place, at), number]
        place = at + size
    return [*symbols, *range(place, length)]


def _target_places(left, right, inner):
    """Returns the places of target sides, and which of them are short enough."""
    target = np.full((left.size, LONGEST), NOTHING)
    place = left.copy()
    for column in target.T:
        more = place < right
        column[more] = place[more]
        after = place + more
        for (first, last), number in zip(inner, _GAPS, strict=False):
            here = more & (place == first)
            column[here] = number
            after[here] = last[here]
        place = after
    return target, place >= right


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
    # The places take the room of the links until it is known which occurrences are kept.
    found = _merged([RuleCounts(keys, counts, both, *symbols, np.arange(keys.size))])
    return found._replace(links=_links(text, *(at[found.links] for at in places)))


def _links(text, sources, targets):
    """Returns the links of rules at places, as bits."""
    result = np.zeros(sources.shape[0], np.int64)
    firsts = np.searchsorted(text.sources, np.arange(text.source_ends.size + 1))
    for i, places in enumerate(sources.T):
        rows = np.flatnonzero(places >= 0)
        begin, end = firsts[places[rows]], firsts[places[rows] + 1]
        for n in range(int((end - begin).max(initial=0))):
            here = begin + n < end
            to = text.targets[begin[here] + n]
            row, j = np.nonzero(targets[rows[here]] == to[:, None])
            result[rows[here][row]] |= np.int64(1) << (LONGEST * i + j)
    return result


def _merged(parts):
    """Adds up the counts of equal rules."""
    joined = RuleCounts(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.lexsort((-joined.lexical.sum(axis=1), joined.keys))
    keys = joined.keys[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    if not firsts.size:
        return joined
    some = order[firsts]
    counts = np.add.reduceat(joined.counts[order], firsts)
    return RuleCounts(keys[firsts], counts, *(array[some] for array in joined[2:]))


def _number(symbols, size):
    """Numbers sequences as the nodes of a trie; returns (keys, the node of each sequence)."""
    nodes, keys, first = symbols[:, 0].copy(), [np.zeros(0, np.int64)], size
    for place in range(1, LONGEST):
        rows = np.flatnonzero(symbols[:, place] >= 0)
        found, numbers, *_ = number_keys(nodes[rows] * size + symbols[rows, place])
        nodes[rows] = first + numbers
        keys.append(found)
        first += found.size
    return np.concatenate(keys), nodes
