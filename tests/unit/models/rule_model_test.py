import itertools

import numpy as np
import pytest

from nmt_zoo.models.phrases.rule_matches import FEATURES, GAPS, GLUE, matches_of
from nmt_zoo.models.phrases.table_decoder import EVERY
from nmt_zoo.models.phrases.table_model import RuleModel
from nmt_zoo.training.ways.phrases import rules as rule_tables
from tests.unit.models.phrase_model_test import assert_best, filled_model, language_scores
from tests.unit.models.phrase_model_test import random_model as random_phrase_model
from tests.unit.training.expectation_maximisation.textbook import corpus_of
from tests.unit.training.phrases.extraction_test import linked

_BOS, _EOS, _SIZE = 2, 3, 9


def swapped_text(draw, num_pairs):
    """Returns (`EncodedCorpus`, links): few different words, parts of sentences swapped."""
    sources, targets, links = [], [], []
    for _ in range(num_pairs):
        order = np.arange(draw.integers(1, 8))
        for _ in range(2):
            first, middle, last = np.sort(draw.integers(0, order.size + 1, 3))
            order = np.concatenate(
                [order[:first], order[middle:last], order[first:middle], order[last:]]
            )
        source = draw.choice([1, 4, 5], order.size, p=[0.1, 0.5, 0.4])
        sources.append(source)
        targets.append((source[order] + draw.integers(0, 3, order.size)).clip(4))
        links.append({(int(i), j) for j, i in enumerate(order) if draw.random() < 0.9})
    return corpus_of(zip(sources, targets, strict=True)), links


def random_model(seed, *, order=3, max_length=6, num_pairs=40, translations=3):
    """Returns a `RuleModel` of a random text with random links and random weights."""
    draw = np.random.default_rng(seed)
    corpus, links = swapped_text(draw, num_pairs)
    table, _ = rule_tables.estimate(
        corpus, linked(corpus, links), (_SIZE, _SIZE), max_length=max_length, most=translations
    )
    settings = {"max_phrase_length": max_length, "translations": translations}
    return filled_model(RuleModel, draw, corpus, table, order, **settings)


def random_source(seed, length):
    source = np.random.default_rng(seed).choice([1, 4, 5], length, p=[0.1, 0.5, 0.4])
    return source.astype(np.int64)


def spans_by_rules(rules, matches):
    """Returns a function of a span, which lists (target words, features) of its derivations."""

    def filled(rule, parts):
        words: list = []
        for symbol in rules.symbols[rule].tolist():
            if symbol in GAPS:
                words += parts[GAPS.index(symbol)][0]
            elif symbol >= 0:
                words.append(symbol)
        return words, rules.features[rule] + sum(part[1] for part in parts)

    def of_span(start, end):
        found = []
        for match in np.flatnonzero((matches.starts == start) & (matches.ends == end)):
            gaps = matches.gaps[match].reshape(2, 2).tolist()
            inner = [of_span(*gap) for gap in gaps if gap[0] >= 0]
            for rule in np.arange(matches.counts[match]) + matches.first[match]:
                found += [filled(rule, parts) for parts in itertools.product(*inner)]
        return found

    return of_span


def every_translation(rules, matches, num_source):
    """Lists (target words, features) of all derivations of a sentence, by recursion."""
    of_span = spans_by_rules(rules, matches)
    glue = np.eye(len(FEATURES))[GLUE]

    def of_start(end):
        if end == 0:
            return [([], np.zeros(len(FEATURES)))]
        return [
            (words + more, some + others - glue)
            for middle in range(end)
            for (words, some), (more, others) in itertools.product(
                of_start(middle), of_span(middle, end)
            )
        ]

    return of_start(num_source)


def best_of_all(model, source):
    """Returns {target ids: best score}, from all derivations."""
    found_rules, matches = matches_of(
        model.decoder().table, [source], model.settings["max_phrase_length"], model.unknown_id
    )
    weights = np.asarray(model.feature_weights, np.float64)
    derivations = every_translation(found_rules, matches, source.size)
    spoken = language_scores(model, sorted({(*words, _EOS) for words, _ in derivations}))
    found: dict = {}
    for words, features in derivations:
        ids = (*words, _EOS)
        score = float(features @ weights + spoken[ids] * weights[0])
        found[ids] = max(found.get(ids, -np.inf), score)
    return found, any(gaps[0] >= 0 for gaps in matches.gaps.tolist())


def test_unlimited_search_finds_the_best_of_all_derivations():
    with_gaps = 0
    for seed in range(24):
        model = random_model(seed, order=1 + seed % 4, translations=1 + seed % 3)
        source = random_source(seed, 1 + seed % 5)
        expected, has_gaps = best_of_all(model, source)
        with_gaps += has_gaps
        size = (EVERY, 2000)[seed % 2]  # A search that is wide enough loses nothing either.
        found = model.decoder().search([source.tolist()], n_best=3, beam_size=size)[0]
        assert len(found) == min(3, len(expected))
        assert_best(found, expected, model, seed)
    assert with_gaps > 8


def test_rules_are_found_wherever_they_match():
    model = random_model(3)
    table = model.decoder().table
    source = random_source(3, 7)
    _, matches = matches_of(table, [source], 6, model.unknown_id)
    found = {
        (start, end, *gaps)
        for start, end, gaps in zip(
            matches.starts.tolist(), matches.ends.tolist(), matches.gaps.tolist(), strict=True
        )
    }

    def has_rules(symbols):
        node = symbols[0]
        for symbol in symbols[1:]:
            key = node * (_SIZE + 1) + symbol
            index = np.searchsorted(table.source_keys, key)
            if table.source_keys[index] != key:
                return False
            node = _SIZE + 1 + index
        return table.first_pairs[node] < table.first_pairs[node + 1]

    expected = {(place, place + 1, -1, -1, -1, -1) for place in range(source.size)}
    for start, end in itertools.combinations(range(source.size + 1), 2):
        spans = list(itertools.combinations(range(start, end + 1), 2))
        ways = [(), *((one,) for one in spans), *itertools.combinations(spans, 2)]
        for gaps in ways:
            if end - start > 6 or (len(gaps) == 2 and gaps[0][1] >= gaps[1][0]):
                continue
            symbols, place = [], start
            for first, last in (*gaps, (end, None)):
                symbols += [*source[place:first].tolist(), *([_SIZE] if last else [])]
                place = last
            if has_rules(symbols):
                flat = [place for gap in gaps for place in gap]
                expected.add((start, end, *flat, *[-1] * (4 - len(flat))))
    assert found == expected


@pytest.mark.parametrize("make", [random_model, random_phrase_model])
def test_neighbours_in_a_batch_change_nothing(make):
    model = make(4)
    sources = [random_source(seed, 1 + seed).tolist() for seed in range(8)]
    together = model.decoder().search([*sources, []], n_best=5, beam_size=20)
    assert together.pop() == []
    for source, expected in zip(sources, together, strict=True):
        (alone,) = model.decoder().search([source], n_best=5, beam_size=20)
        assert [one[:2] for one in alone] == [one[:2] for one in expected]


@pytest.mark.parametrize("make", [random_model, random_phrase_model])
def test_every_translation_can_be_explained_at_the_price_of_unknown_words(make):
    decoder = make(2).decoder()
    found = decoder.explain([4, 5, 4], [8, 8, 8, 8, 1, _EOS])
    assert found.ids == [8, 8, 8, 8, 1, _EOS]
    assert found.features[-1] < 0
    assert sorted(place for one in found.phrases for place in one.target) == [0, 1, 2, 3, 4]
    assert sorted(place for one in found.phrases for place in one.source) == [0, 1, 2]
    for source, target in ([_BOS], [8] * 3), ([_BOS] * 3, [8]):  # No pair has this source word.
        assert decoder.explain(source, target).features[-1] == -3
    assert decoder.explain([4, 5], []) is None
    assert decoder.explain([], []).score == 0


def test_what_was_found_is_explained_and_every_word_belongs_to_one_rule_of_the_tree():
    nested = 0
    for seed in range(10):
        model = random_model(seed)
        source = random_source(seed, 6)
        for one in model.decoder().search([source.tolist()], n_best=3)[0]:
            explained = model.decoder().explain(source, one.ids)
            assert explained.score == pytest.approx(one.score, abs=1e-6)
            assert explained.ids == one.ids
            targets = [place for phrase in one.phrases for place in phrase.target]
            assert sorted(targets) == list(range(len(one.ids) - 1))
            sources = [place for phrase in one.phrases for place in phrase.source]
            assert sorted(sources) == list(range(source.size))
            for number, phrase in enumerate(one.phrases):
                assert phrase.parent < number
                nested += phrase.parent >= 0
                assert {i for i, _ in phrase.links} <= {*phrase.source}
                assert {j for _, j in phrase.links} <= {*phrase.target}
    assert nested > 0
