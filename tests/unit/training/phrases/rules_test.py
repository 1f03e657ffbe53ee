import collections
import itertools

import numpy as np
import pytest

from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING
from nmt_zoo.training.ways.phrases import rules
from tests.unit.data_pipeline.small import rows_of
from tests.unit.training.phrases.extraction_test import every_pair, linked, random_text

_SIZE = 9  # Of both vocabularies; the id of a gap.


def every_rule(lengths, links, most):
    """Yields (source, target) of all rules with gaps, by looking at all pairs of phrase pairs.

    Both are tuples of positions, and of "x" and "y" for the gaps in the order of the source.
    """
    tight = [
        (i, i2, j, j2)
        for i, i2, j, j2 in every_pair(lengths, links, most)
        if all(any(s == word for s, _ in links) for word in (i, i2 - 1))
        and all(any(t == word for _, t in links) for word in (j, j2 - 1))
    ]
    for outer in tight:
        inner = [one for one in tight if one != outer and one[1] - one[0] >= 2]
        inner = [one for one in inner if outer[0] <= one[0] and one[1] <= outer[1]]
        for gaps in [(one,) for one in inner] + list(itertools.combinations(sorted(inner), 2)):
            if len(gaps) == 2 and gaps[0][1] >= gaps[1][0]:
                continue
            source, target = list(range(*outer[:2])), list(range(*outer[2:]))
            for name, (i, i2, j, j2) in zip("xy", gaps, strict=False):
                source = [p for p in source if not isinstance(p, int) or not i < p < i2]
                source[source.index(i)] = name
                target = [p for p in target if not isinstance(p, int) or not j < p < j2]
                target[target.index(j)] = name
            if len(source) > rules.MOST_SYMBOLS or len(target) > LONGEST:
                continue
            if any(s in source and t in target for s, t in links):
                yield tuple(source), tuple(target)


def words_of(side, ids, offsets):
    return tuple(ids[p] if isinstance(p, int) else offsets[p] for p in side)


def all_rules(corpus, links, most):
    """Counts (source symbols, target symbols) by looking at each sentence pair."""
    found = collections.Counter()
    for *texts, some in zip(*map(rows_of, corpus), links, strict=True):
        lengths = [len(text) - 1 for text in texts]
        pairs = [
            (tuple(range(i, i2)), tuple(range(j, j2)))
            for i, i2, j, j2 in every_pair(lengths, some, min(most, LONGEST))
        ]
        for source, target in [*pairs, *every_rule(lengths, some, most)]:
            key = words_of(source, texts[0], {"x": _SIZE, "y": _SIZE})
            found[key, words_of(target, texts[1], {"x": _SIZE, "y": _SIZE + 1})] += 1
    return found


def plain(row):
    return tuple(int(symbol) for symbol in row if symbol != NOTHING)


@pytest.mark.parametrize("most", [2, 5, 8])
def test_rules_equal_all_ways_to_take_phrase_pairs_out_of_others(most, monkeypatch):
    monkeypatch.setattr(rules, "_AT_ONCE", 3)
    num_gaps = 0
    for seed in range(6):
        draw = np.random.default_rng(seed)
        corpus, links = random_text(draw, 7, (0.1, 0.2)[seed % 2])
        found = rules.count_rules(corpus, linked(corpus, links), (_SIZE, _SIZE), most)
        both = zip(found.source, found.target, found.counts, strict=True)
        assert {(plain(s), plain(t)): n for s, t, n in both} == all_rules(corpus, links, most)
        num_gaps += (found.source == _SIZE).any(axis=1).sum()
    assert num_gaps > 0 or most == 2


def test_words_of_a_rule_are_linked_as_in_a_place_where_it_occurs():
    draw = np.random.default_rng(1)
    corpus, links = random_text(draw, 30, 0.15)
    # Different words everywhere, so that each rule has one place.
    corpus = corpus._replace(
        **{
            name: side._replace(ids=np.where(side.ids == 3, 3, np.arange(side.ids.size) + 4))
            for name, side in corpus._asdict().items()
        }
    )
    size = 500
    found = rules.count_rules(corpus, linked(corpus, links), (size, size), 8)
    starts = [np.append(0, np.cumsum(side.lengths)) for side in corpus]
    flat = {
        (i + int(starts[0][row]) + 4, j + int(starts[1][row]) + 4)
        for row, some in enumerate(links)
        for i, j in some
    }
    for source, target, bits in zip(found.source, found.target, found.links, strict=True):
        inside = {
            (int(s), int(t))
            for i, s in enumerate(source)
            for j, t in enumerate(target)
            if int(bits) >> (LONGEST * i + j) & 1
        }
        assert inside == {(s, t) for s, t in flat if s in source and t in target}
        assert inside


def test_kept_rules_can_be_found_by_their_source_side():
    draw = np.random.default_rng(5)
    corpus, links = random_text(draw, 60, 0.15)
    counts = rules.count_rules(corpus, linked(corpus, links), (_SIZE, _SIZE), 8)
    table, _ = rules.estimate(corpus, linked(corpus, links), (_SIZE, _SIZE), max_length=8, most=3)
    expected = collections.Counter()
    for source, n in zip(counts.source, counts.counts, strict=True):
        if _SIZE not in source or n >= 2:
            expected[plain(source)] += 1
    total = 0
    for source, n in expected.items():
        node = source[0]
        for symbol in source[1:]:
            index = np.searchsorted(table.source_keys, node * (_SIZE + 1) + symbol)
            assert table.source_keys[index] == node * (_SIZE + 1) + symbol
            node = _SIZE + 1 + index
        kept = int(table.first_pairs[node + 1] - table.first_pairs[node])
        assert kept <= min(n, 3)
        total += kept
    assert total == table.links.size == table.target_starts.size - 1
    assert np.isfinite(table.pair_scores).all() and (table.pair_scores <= 0).all()
