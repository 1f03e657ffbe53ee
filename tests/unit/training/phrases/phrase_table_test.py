import collections
import itertools
import math

import numpy as np
import pytest

from nmt_zoo.training.ways.counting.counting import estimate_discounts
from nmt_zoo.training.ways.phrases import phrase_table
from tests.unit.data_pipeline.small import rows_of
from tests.unit.training.phrases.extraction_test import (
    every_pair,
    linked,
    orientation,
    random_text,
)

_SIZE = 9


def sentences(side):
    """Returns the sentences of an `EncodedSide` without their ends."""
    return [row[:-1] for row in rows_of(side)]


def counted(corpus, links, most):
    """Counts phrase pairs with dictionaries: pair -> list of (orientations, links, place)."""
    found = collections.defaultdict(list)
    for row, (f, e, some) in enumerate(zip(*map(sentences, corpus), links, strict=True)):
        lengths = len(f), len(e)
        for i, i2, j, j2 in every_pair(lengths, some, most):
            kinds = (
                orientation(some, lengths, j - 1, i - 1, i2),
                orientation(some, lengths, j2, i2, i - 1),
            )
            inner = frozenset((s - i, t - j) for s, t in some if i <= s < i2)
            found[tuple(f[i:i2]), tuple(e[j:j2])].append((kinds, inner, (row, i, i2, j, j2)))
    return found


def word_weights(corpus, links, side):
    """Returns w(word of `side` | linked word of the other side), and w(word | NULL)."""
    texts = list(map(sentences, corpus))
    joint, free = collections.Counter(), collections.Counter()
    for row, some in enumerate(links):
        for link in some:
            joint[texts[side][row][link[side]], texts[1 - side][row][link[1 - side]]] += 1
        linked = {link[side] for link in some}
        free.update(w for place, w in enumerate(texts[side][row]) if place not in linked)
    totals = collections.Counter()
    for (_, other), count in joint.items():
        totals[other] += count
    weights = {pair: count / totals[pair[1]] for pair, count in joint.items()}
    return weights, {word: count / free.total() for word, count in free.items()}


def lexical_weight(corpus, links, side, place):
    """Koehn, Och and Marcu 2003, equation 4, for one occurrence of a phrase pair."""
    row, *spans = place
    weights, free = word_weights(corpus, links, side)
    words, others = sentences(corpus[side])[row], sentences(corpus[1 - side])[row]
    total = 1.0
    for position in range(*spans[2 * side : 2 * side + 2]):
        linked = [link[1 - side] for link in links[row] if link[side] == position]
        if linked:
            total *= np.mean([weights[words[position], others[other]] for other in linked])
        else:
            total *= free[words[position]]
    return total


@pytest.mark.parametrize(
    ("density", "most", "count"), [(0.0, 3, 9), (0.05, 7, 9), (0.2, 1, 25), (0.2, 3, 25), (1, 7, 9)]
)
def test_phrases_are_those_of_all_spans_and_have_scores_by_definition(
    density, most, count, monkeypatch
):
    monkeypatch.setattr(phrase_table, "_PAIRS_AT_ONCE", 7)  # The text is counted in parts.
    corpus, links = random_text(np.random.default_rng(most), count, density)
    expected = counted(corpus, links, most)
    table, num_found = phrase_table.estimate(
        corpus, linked(corpus, links), (_SIZE, _SIZE), max_length=most, most=1000
    )
    assert num_found == len(expected) == table.links.size
    counts = {pair: len(some) for pair, some in expected.items()}
    taken, _ = estimate_discounts(np.array(list(counts.values()), int))
    usual = np.ones((2, 3))
    for kinds, *_ in itertools.chain(*expected.values()):
        usual[[0, 1], kinds] += 1
    usual /= usual.sum(axis=1, keepdims=True)
    for (f, e), some in expected.items():
        starts, ends, pairs = table.pairs_of(np.array(f), most)
        whole = pairs[(starts == 0) & (ends == len(f))]
        texts = {
            tuple(table.target_words[slice(*table.target_starts[p : p + 2])]): p for p in whole
        }
        pair = texts[e]
        scores = np.exp(table.pair_scores[pair].astype(float))
        for column, given in ((0, 1), (2, 0)):
            same = [n for key, n in counts.items() if key[given] == (f, e)[given]]
            other = (f, e)[1 - given]
            lower = sum(key[1 - given] == other for key in counts) / len(counts)
            off = [min(taken[min(n, 3) - 1], n) for n in same]
            n = len(some)
            value = n - min(taken[min(n, 3) - 1], n) + sum(off) * lower
            assert scores[column] == pytest.approx(value / sum(same), rel=1e-4)
        both = [
            [lexical_weight(corpus, links, side, place) for side in (0, 1)] for *_, place in some
        ]
        best = max(math.log(a) + math.log(b) for a, b in both)
        assert np.log(scores[[1, 3]]).sum() == pytest.approx(best, abs=1e-4)
        inner = frozenset(
            (i, j) for i in range(7) for j in range(7) if int(table.links[pair]) >> (7 * i + j) & 1
        )
        assert inner in {links for _, links, _ in some}
        for side in (0, 1):
            found = 0.5 * usual[side]
            for kinds, *_ in some:
                found[kinds[side]] += 1
            columns = table.reordering[pair, 3 * side : 3 * side + 3]
            np.testing.assert_allclose(np.exp(columns), found / found.sum(), rtol=1e-5)


def test_only_the_best_translations_of_a_phrase_are_kept():
    corpus, links = random_text(np.random.default_rng(0), 60, 0.2)
    common = corpus, linked(corpus, links), (_SIZE, _SIZE)
    every, _ = phrase_table.estimate(*common, max_length=3, most=1000)
    some, num_found = phrase_table.estimate(*common, max_length=3, most=2)
    assert num_found == every.links.size > some.links.size
    counts = np.diff(some.first_pairs)
    assert counts.max() == 2
    nodes = np.repeat(np.arange(counts.size), counts)
    assert (np.diff(some.pair_scores.sum(axis=1))[np.diff(nodes) == 0] <= 1e-6).all()
