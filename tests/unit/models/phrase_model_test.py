import itertools

import numpy as np
import pytest

from nmt_zoo.models.phrases.sentence_options import NOTHING, options_of
from nmt_zoo.models.phrases.table_decoder import EVERY
from nmt_zoo.models.phrases.table_model import PhraseModel
from nmt_zoo.training.ways.counting import counting
from nmt_zoo.training.ways.phrases import phrase_table
from tests.unit.training.phrases.extraction_test import linked, random_text

_BOS, _EOS, _SIZE = 2, 3, 9


def filled_model(model_class, draw, corpus, table, order, **settings):
    """Makes a model of a table and of the n-grams of a corpus, with random weights."""
    ngrams = counting.estimate(corpus.target, _SIZE, order)
    model = model_class(
        _SIZE,
        _SIZE,
        order=order,
        num_source_phrases=table.source_keys.size - 1,
        num_phrase_pairs=table.links.size,
        num_target_words=table.target_words.size,
        num_ngrams=ngrams.keys.size,
        **settings,
    )
    model.fill(table, ngrams)
    weights = draw.normal(0, 1, model.feature_weights.shape)
    weights[-1] = 10
    model.feature_weights.assign(weights)
    return model


def random_model(seed, *, order=3, distortion_limit=6, max_length=3, num_pairs=12, translations=5):
    """Returns a `PhraseModel` of a random text with random links and random weights."""
    draw = np.random.default_rng(seed)
    corpus, links = random_text(draw, num_pairs, 0.2)
    table, _ = phrase_table.estimate(
        corpus, linked(corpus, links), (_SIZE, _SIZE), max_length=max_length, most=translations
    )
    settings = {"max_phrase_length": max_length, "translations": translations}
    settings |= {"order": order, "distortion_limit": distortion_limit}
    return filled_model(PhraseModel, draw, corpus, table, **settings)


def every_derivation(options, num_source, limit):
    """Yields tuples of options that translate every source word once, in every order."""
    spans = list(zip(options.starts.tolist(), options.ends.tolist(), strict=True))

    def extend(used, covered, last_end):
        if len(covered) == num_source:
            yield used
            return
        gap = min(set(range(num_source)) - covered)
        for row, (start, end) in enumerate(spans):
            words = set(range(start, end))
            near = abs(start - last_end) <= limit and (start == gap or end - gap <= limit)
            if not words & covered and (limit < 0 or near):
                yield from extend((*used, row), covered | words, end)

    yield from extend((), frozenset(), 0)


def features_of(options, rows, num_source):
    """Returns (features of a derivation but the language model's, by definition; its ids)."""
    ids = [int(w) for row in rows for w in options.words[row] if w != NOTHING] + [_EOS]
    values = options.features[list(rows)].sum(axis=0)
    places = [(-1, 0), *((options.starts[r], options.ends[r]) for r in rows), (num_source, -2)]
    for number, ((start, end), (start2, end2)) in enumerate(itertools.pairwise(places)):
        kind = 0 if start2 == end else 1 if end2 == start else 2
        if number < len(rows):
            values[7] -= abs(start2 - end)
            values[8 + kind] += options.orientations[rows[number], kind]
        if number:
            values[11 + kind] += options.orientations[rows[number - 1], 3 + kind]
    return values, tuple(ids)


def language_scores(model, texts):
    """Returns the log-probability of each of some texts."""
    rows = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row, ids in zip(rows, texts, strict=True):
        row[: len(ids)] = ids
    log_probs = np.asarray(model.language_model.score(rows, rows), np.float64)
    return dict(zip(texts, np.where(rows > 0, log_probs, 0).sum(axis=1), strict=True))


def best_of_all(model, source):
    options = options_of(
        model.decoder().table,
        np.array(source),
        model.settings["max_phrase_length"],
        model.unknown_id,
    )
    weights = np.asarray(model.feature_weights, np.float64)
    limit = model.settings["distortion_limit"]
    derivations = every_derivation(options, len(source), limit)
    described = [features_of(options, rows, len(source)) for rows in derivations]
    spoken = language_scores(model, sorted({ids for _, ids in described})) if described else {}
    found = {}
    for values, ids in described:
        score = float(values @ weights + spoken[ids] * weights[0])
        found[ids] = max(found.get(ids, -np.inf), score)
    return sorted(found.items(), key=lambda item: -item[1])


def assert_best(hypotheses, expected, model, seed):
    """Asserts that hypotheses are the best of all, {ids: score}, and have their scores."""
    scores = sorted(expected.values(), reverse=True)[: len(hypotheses)]
    assert [h.score for h in hypotheses] == pytest.approx(scores, abs=1e-4), seed
    weights = np.asarray(model.feature_weights, np.float64)
    for hypothesis in hypotheses:
        assert expected[tuple(hypothesis.ids)] == pytest.approx(hypothesis.score, abs=1e-4)
        assert hypothesis.features @ weights == pytest.approx(hypothesis.score)


def test_unlimited_search_finds_the_best_of_all_segmentations_and_orders():
    for seed in range(36):
        draw = np.random.default_rng(seed)
        length = 1 + seed % 6
        model = random_model(
            seed,
            order=int(draw.integers(1, 4)),
            distortion_limit=int(draw.choice([-1, 0, 1, 2, 6])),
            translations=(5, 4, 3, 2, 1, 1)[length - 1],
        )
        source = draw.integers(1, _SIZE, length)
        source[source == _EOS] = 4
        expected = best_of_all(model, source)
        size = (EVERY, 50_000)[seed % 2]  # A search that is wide enough loses nothing either.
        found = model.decoder().search([source.tolist()], n_best=5, beam_size=size)[0]
        assert len(found) == min(5, len(expected))
        assert_best(found, dict(expected), model, seed)
