"""The rules with gaps that may translate spans of sentences."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.models.phrases import sentence_options
from nmt_zoo.models.phrases.arrays import joined, ranges, take
from nmt_zoo.models.phrases.sentence_options import (
    LONGEST,
    STATIC,
    Options,
    PhraseTable,
    made_up,
)

GAPS = (-2, -3)  # Symbols of the first gap of a source side, and of the second.

# The features of a derivation, whose weighted sum is its score: Chiang 2007, section 4.1.
FEATURES = (
    *sentence_options.FEATURES[:5],  # of both sides of a rule
    "rules",  # number of rules
    "words",  # number of target words
    "glue",  # minus the parts of the sentence that are put side by side
    "unknown",  # words that the table cannot translate
)
GLUE, UNKNOWN = FEATURES.index("glue"), FEATURES.index("unknown")
FIRST_WEIGHTS = (0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3, 100.0)


class Rules(NamedTuple):
    """R target sides; those of a source side are next to each other."""

    sources: np.ndarray  # [R] int64, equal numbers for equal source sides
    symbols: np.ndarray  # [R, LONGEST] int64, target words and `GAPS`, then `NOTHING`
    features: np.ndarray  # [R, len(FEATURES)]
    links: np.ndarray  # [R] int64, bit 7 i + j: symbols i and j of both sides are linked


class Matches(NamedTuple):
    """M ways in which a source side covers a span of a sentence."""

    sentences: np.ndarray  # [M] int64
    starts: np.ndarray  # [M] int64, first source word
    ends: np.ndarray  # [M] int64, after the last source word
    gaps: np.ndarray  # [M, 4] int64, start and end of the first gap, and of the second; -1: none
    first: np.ndarray  # [M] int64, the first of its `Rules`
    counts: np.ndarray  # [M] int64, number of its rules


class _Walk(NamedTuple):
    """Beginnings of source sides, each at some place of a sentence."""

    sentences: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    gaps: np.ndarray
    nodes: np.ndarray  # in the trie of source sides


def matches_of(
    table: PhraseTable, sources: Sequence[np.ndarray], span_limit: int, unknown_id: int
) -> tuple[Rules, Matches]:
    """Finds the rules for each span of up to `span_limit` words of sentences, `[S]` int each.

    `table` has words and a gap as source symbols: the gap is the last of them. Target words from
    `table.target_size` on are gaps. A word that no rule translates alone can be copied: it becomes
    `unknown_id`.
    """
    walk = _walked(table, sources, span_limit)
    sizes = np.diff(table.first_pairs)
    walk = take(walk, sizes[walk.nodes] > 0)
    nodes, which = np.unique(walk.nodes, return_inverse=True)
    sizes = sizes[nodes]
    pairs = ranges(table.first_pairs[nodes], sizes)
    symbols, lengths = table.targets_of(pairs)
    is_gap = symbols >= table.target_size
    features = table.features_of(pairs, lengths - is_gap.sum(axis=1), len(FEATURES))
    symbols = np.where(is_gap, GAPS[0] - (symbols - table.target_size), symbols)
    numbers = np.repeat(np.arange(nodes.size), sizes)
    rules = Rules(numbers, symbols, features, table.links[pairs])
    matches = Matches(*walk[:4], (np.cumsum(sizes) - sizes)[which], sizes[which])
    alone = matches.ends - matches.starts == 1
    places = matches.sentences[alone].tolist(), matches.starts[alone].tolist()
    translated = set(zip(*places, strict=True))
    copied = (
        (sentence, made_up(position, position + 1, [unknown_id], 1))
        for sentence, source in enumerate(sources)
        for position in range(source.size)
        if (sentence, position) not in translated
    )
    return with_options(rules, matches, copied)


def with_options(
    rules: Rules, matches: Matches, more: Iterable[tuple[int, Options]]
) -> tuple[Rules, Matches]:
    """Adds phrases without gaps, (number of the sentence, one option) each."""
    more = list(more)
    if not more:
        return rules, matches
    sentences, options = zip(*more, strict=True)
    added = joined(*options)
    rows, ones = rules.links.size + np.arange(len(options)), np.ones(len(options), np.int64)
    features = np.zeros((rows.size, len(FEATURES)))
    features[:, STATIC], features[:, UNKNOWN] = added.features[:, STATIC], added.features[:, -1]
    numbers = int(rules.sources.max(initial=-1)) + 1 + np.arange(rows.size)
    gaps = np.full((rows.size, 4), -1)
    return (
        joined(rules, Rules(numbers, added.words, features, added.links)),
        joined(matches, Matches(np.array(sentences), added.starts, added.ends, gaps, rows, ones)),
    )


def _walked(table, sources, span_limit):
    """Returns all source sides of the table that cover spans of sentences."""
    gap = table.vocab_size - 1
    lengths = np.array([source.size for source in sources])
    words = np.full((lengths.size, int(lengths.max()) + 1), -1)
    for row, source in zip(words, sources, strict=True):
        row[: source.size] = source
    sentences = np.repeat(np.arange(lengths.size), lengths)
    starts = np.concatenate([np.arange(length) for length in lengths])
    gaps = np.full((starts.size, 4), -1)
    walk = _Walk(sentences, starts, starts + 1, gaps, words[sentences, starts])
    opened = walk._replace(ends=starts, nodes=np.full(starts.size, gap))
    walks = [joined(walk, _over_gap(opened, lengths, span_limit))]
    for _ in range(LONGEST - 1):
        walk = walks[-1]
        limits = np.minimum(walk.starts + span_limit, lengths[walk.sentences])
        walk = take(walk, walk.ends < limits)
        by_word = _follow(table, walk, words[walk.sentences, walk.ends])
        by_word = by_word._replace(ends=by_word.ends + 1)
        opened = take(walk, (walk.gaps[:, 3] < 0) & (walk.gaps[:, 1] != walk.ends))
        opened = _follow(table, opened, np.full(opened.ends.size, gap))
        walks.append(joined(by_word, _over_gap(opened, lengths, span_limit)))
    return joined(*walks)


def _follow(table, walk, symbols):
    """Extends beginnings by a symbol; drops those that no source side begins with."""
    keys = walk.nodes * table.vocab_size + symbols
    index = np.searchsorted(table.source_keys, keys)
    exists = table.source_keys[index] == keys
    return take(walk, exists)._replace(nodes=index[exists] + table.vocab_size)


def _over_gap(walk, lengths, span_limit):
    """Puts the ends of beginnings behind a gap, of every size that a span has room for."""
    counts = np.minimum(walk.starts + span_limit, lengths[walk.sentences]) - walk.ends
    sizes = ranges(np.ones_like(counts), counts)
    walk = take(walk, np.repeat(np.arange(counts.size), counts))
    gaps, number = walk.gaps.copy(), np.where(walk.gaps[:, 1] < 0, 0, 2)
    rows = np.arange(sizes.size)
    gaps[rows, number], gaps[rows, number + 1] = walk.ends, walk.ends + sizes
    return walk._replace(ends=walk.ends + sizes, gaps=gaps)
