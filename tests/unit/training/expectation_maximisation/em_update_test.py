"""Alignment models trained by expectation maximisation, and by gradient."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.model_directory.directory import restore
from nmt_zoo.training.ways.expectation_maximisation import chunks
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    expected_fertilities,
    first_posteriors,
    log_ratios,
    others_translation,
)
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    POSITIONS,
    agreeing_posteriors,
    count_links,
    maximise_translation,
    posteriors_of,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.preparation import WordTable, length_model
from tests.unit.data_pipeline.small import rows_of
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.textbook import (
    Estimate,
    expect,
    first_estimate,
    index,
    index_directions,
)


@pytest.fixture
def pieces(monkeypatch):
    """Works on chunks and tables in pieces of few cells and word pairs."""
    monkeypatch.setattr(chunks, "_CHUNK_CELLS", 60)
    monkeypatch.setattr(chunks, "_WORD_PAIRS", 30)


def random_corpus(count=40, seed=1, **sizes):
    return textbook.corpus_of(textbook.random_pairs(count, seed, **sizes))


def create(prepared, preset="ibm1", **settings):
    """Makes a model whose vocabularies are the words 0 to 39."""
    settings = {"smoothing": 0.0, "null_probability": 0.2, **settings}
    return models.create(preset, 40, 40, **prepared.sizes, **settings)


def new_model(corpus, positions, **settings):
    """Makes a prepared model."""
    prepared = WordTable(corpus)
    model = create(prepared, positions=positions, **{"max_positions": 8, **settings})
    prepared.fill(model)
    return model


def new_way(corpus, settings, *, both=False, **options):
    """Prepares the training of new models of one direction or of both."""
    prepared = WordTable(corpus)
    twins = [create(prepared, **settings) for _ in range(1 + both)]
    prepared.fill(twins[0])
    if both:
        prepared.fill_reverse(twins[1])
    return ExpectationMaximisation(twins, prepared.text, **options)


def padded(side):
    return tf.ragged.constant(rows_of(side), tf.int32).to_tensor(PAD_ID)


def log_likelihood(model, corpus):
    target_ids = padded(corpus.target)
    scores = model.score(padded(corpus.source), target_ids)
    return tf.reduce_sum(scores[target_ids != PAD_ID])


@pytest.mark.parametrize(
    ("name", "max_positions"), [*((name, 8) for name in POSITIONS), ("table", 3), ("shared", 3)]
)
def test_a_model_has_the_likelihood_its_gradient_and_posteriors_of_its_estimate(
    name, max_positions
):
    """The gradient by a logit of the table is its pair's expected count, less that of its row."""
    corpus = random_corpus(words=8)
    words = index(corpus)
    sizes = tuple(min(int(side.lengths.max()), max_positions) for side in corpus[::-1])
    positions = POSITIONS[name].first(sizes=sizes, null_probability=0.2)
    values = np.random.default_rng(1).random(words.num_pairs)
    estimate = Estimate(maximise_translation(words, values), positions)
    estimate, _ = textbook.fit(words, estimate, 2)
    model = new_model(corpus, name, max_positions=max_positions)
    model.table.set_probabilities(estimate.translation)
    model.positions.set_parameters(*estimate.positions.arrays())
    counts, _, expected = expect(words, estimate)
    with tf.GradientTape() as tape:
        found = log_likelihood(model, corpus)
    assert float(found) == pytest.approx(expected, rel=1e-6)
    of_table, *others = tape.gradient(found, model.trainable_variables)
    wanted = counts - estimate.translation * words.spread(words.source_sums(counts))
    np.testing.assert_allclose(of_table, wanted, atol=1e-4)
    for weight, gradient in zip(model.trainable_variables[1:], others, strict=True):
        move = tf.constant(np.random.default_rng(2).normal(0, 0.01, weight.shape), tf.float32)
        ends = []
        for change in (move, -2 * move, move):
            weight.assign_add(change)
            ends.append(log_likelihood(model, corpus))
        wanted = 2 * tf.reduce_sum(gradient * move)
        assert float(ends[0] - ends[1]) == pytest.approx(float(wanted), abs=3e-3)
    alignments = model.align(padded(corpus.source), padded(corpus.target)).numpy()
    for found, posterior in zip(alignments, textbook.soft_alignments(words, estimate), strict=True):
        rows, columns = posterior.shape
        np.testing.assert_allclose(found[:rows, :columns], posterior, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "both"), [*((name, True) for name in POSITIONS), ("diagonal", False)]
)
def test_iterations_over_chunks_are_those_of_the_whole_text(name, both, pieces):
    """And the models have their result."""
    corpus = random_corpus(seed=3)
    settings = {"positions": name, "max_positions": 8}
    way = new_way(corpus, settings, both=both, model1_steps=2, model2_steps=2)
    ways = (corpus, EncodedCorpus(*corpus[::-1]))[: 1 + both]
    directions = list(map(index, ways))
    estimates = list(map(first_estimate, directions))
    first = {
        2: DiagonalEstimate(),
        4: POSITIONS[name].first(sizes=(8, 8), null_probability=0.2),
    }
    for step in range(7):
        estimates = [e._replace(positions=first.get(step, e.positions)) for e in estimates]
        estimates, expected = textbook.em_steps(directions, estimates)
        values = way.step(None)
        names = ("log_likelihood", "reverse_log_likelihood")[: 1 + both]
        np.testing.assert_allclose([values[name][0] for name in names], expected)
    for model, words, estimate, own in zip(way.models, directions, estimates, ways, strict=True):
        *_, expected = expect(words, estimate)
        assert float(log_likelihood(model, own)) == pytest.approx(expected, rel=1e-6)


FERTILE = {"alpha": 0.01, "model1_steps": 1, "hmm_steps": 2, "leave_one_out": True}
STAGES = ["Model 1", *["positions: jumps"] * 2, *["HMM with fertilities"] * 2]


def collapsed_steps(directions):
    """Returns (posteriors, counted) of each direction after the iterations of `STAGES`."""
    posteriors = counted = list(map(first_posteriors, directions))
    positions = [UniformEstimate() for _ in directions]
    for number, stage in enumerate(STAGES):
        if number == FERTILE["model1_steps"]:
            positions = [JumpsEstimate.first(null_probability=0.08) for _ in directions]
        found = []
        for words, *links, model in zip(directions, posteriors, counted, positions, strict=True):
            counts = count_links(words, links[1]) + FERTILE["alpha"]
            ratios = log_ratios(expected_fertilities(words, links[0]))[:, :-1]
            ratios = ratios if "ferti" in stage else None
            sums = counts, words.source_sums(counts), ratios
            translation = others_translation(words, *sums, links[1], links[0])
            found.append(posteriors_of(words, model, translation, np.float32))
        posteriors = [links for links, *_ in found]
        counted = agreeing_posteriors(directions, posteriors)
        positions = [m.maximise(s) for m, (_, s, _) in zip(positions, found, strict=True)]
    return zip(posteriors, counted, strict=True)


@pytest.mark.parametrize("both", [False, True])
def test_iterations_that_leave_one_out_are_those_of_the_whole_text(both, pieces):
    """And the models have their fertilities, and the translations that all counts give."""
    corpus = random_corpus(seed=3, words=6)
    settings = {"preset": "hmm_fertility", "null_probability": 0.08}
    way = new_way(corpus, settings, both=both, **FERTILE)
    for number, stage in enumerate(STAGES):
        assert way.stage(number).name == stage
        values = way.step(None)
        line = way.progress_line(number + 1, {n: total / c for n, (total, c) in values.items()})
        # The likelihood with fertilities is known up to a factor only.
        assert ("perplexity" in line) == (not stage.endswith("fertilities"))
    directions = index_directions(corpus)[: 1 + both]
    results = collapsed_steps(directions)
    for model, words, (posteriors, counted) in zip(way.models, directions, results, strict=True):
        ratios = log_ratios(expected_fertilities(words, posteriors))[:-1].T
        expected = np.repeat(ratios[-1:], 40, axis=0)  # Of words that do not occur.
        expected[words.source_words] = ratios[:-1]
        np.testing.assert_allclose(model.log_ratios, expected, rtol=1e-3, atol=1e-4)
        counts = count_links(words, counted) + FERTILE["alpha"]
        wanted = counts / words.spread(words.source_sums(counts))
        found = model.table.look_up(words.pair_sources[:, None], words.pair_targets[:, None])
        np.testing.assert_allclose(np.ravel(found), wanted, rtol=1e-3, atol=1e-5)


def test_with_a_sparse_prior_iterations_begin_with_what_the_models_have():
    corpus = random_corpus(seed=4, words=8)
    settings = {"positions": "jumps", "smoothing": 0.02}
    way = new_way(corpus, settings, both=True, alpha=0.1)
    way.step(None)
    for _ in range(2):
        expected = [
            log_likelihood(model, own)
            for model, own in zip(way.models, (corpus, EncodedCorpus(*corpus[::-1])), strict=True)
        ]
        values = way.step(None)
        found = [values[f"{prefix}log_likelihood"][0] for prefix in ("", "reverse_")]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.any(way.model.table.spread > 0.2)


IBM = {"model1_steps": 1, "model2_steps": 2, "alpha": 0.01}
RESUMED = {
    **{name: ({"positions": name, "max_positions": 8}, IBM) for name in list(POSITIONS)[1:]},
    "fertilities": ({"preset": "hmm_fertility"}, FERTILE),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_restored_run_goes_on_bit_for_bit(name, pieces):
    """Whether it stopped before, within or after the stages of simpler models."""
    corpus, (settings, options) = random_corpus(count=25, seed=5), RESUMED[name]
    whole, saved = new_way(corpus, settings, both=True, **options), []
    for _ in range(6):
        saved.append({key: np.array(value) for key, value in whole.variables().items()})
        whole.step(None)
    for stop in (1, 2, 4):
        again = new_way(corpus, settings, both=True, **options)
        restore(again.variables(), saved[stop], "checkpoint")
        for _ in range(stop, 5):
            again.step(None)
        for key, value in again.variables().items():
            np.testing.assert_array_equal(value, saved[5][key], err_msg=key)


def test_a_word_that_becomes_two_is_linked_to_two_unknown_words():
    """Word 9 always becomes two words, others one; words 30 and 31 are not in the training text."""
    rng = np.random.default_rng(1)
    sources = [rng.permutation([4, 5, 6, 7, 8, 9])[:4].tolist() for _ in range(100)]
    two = {9: [19, 20]}
    pairs = [(s, [e for f in s for e in two.get(f, [f + 10])]) for s in sources]
    settings = {"preset": "hmm_fertility", "null_probability": 0.08, "smoothing": 0.02}
    way = new_way(textbook.corpus_of(pairs), settings, **FERTILE)
    for _ in STAGES:
        way.step(None)
    new = textbook.corpus_of([([4, 9, 5], [14, 30, 31, 15]), ([9, 4, 5], [30, 31, 14, 15])])
    links = way.model.align(padded(new.source), padded(new.target)).numpy().argmax(axis=2)
    assert links[:, :4].tolist() == [[0, 1, 1, 2], [0, 0, 1, 2]]


def test_lengths_are_those_of_the_regression():
    lengths = np.array([2, 4, 7, 9, 5])
    source, target = ([[4] * (n - 1) for n in ns] for ns in (lengths, 2 * lengths + 1))
    found = length_model(EncodedCorpus(textbook.side(source), textbook.side(target)))
    np.testing.assert_allclose(found, (1, 2, 0.01))
    equal = EncodedCorpus(textbook.side([[4, 4]] * 2), textbook.side([[4], [4] * 5]))
    intercept, slope, variance = length_model(equal)
    assert intercept + 3 * slope == pytest.approx(4)
    assert variance == pytest.approx(4 / 3)


def test_the_small_case_of_the_chapter():
    """Model 1 learns that both `por` and `qué` mean `why`, and so translates `qué` wrongly."""
    por, que, why, for_, what = range(4, 9)
    pairs = [([por, que], [why])] * 3 + [([por], [for_]), ([que], [what])]
    way = new_way(textbook.corpus_of(pairs), {"positions": "uniform"})
    for _ in range(100):
        way.step(None)
    end = textbook.EOS
    ids = tf.constant([[por, que, end]]), tf.constant([[why, for_, what, end]])
    found = way.model.table.look_up(*ids)[0].numpy()
    expected = [[0.49, 0.49, 0], [0.33, 0, 0], [0, 0.33, 0], [0.18, 0.18, 1]]
    np.testing.assert_allclose(found, expected, atol=0.006)
    inputs = {"source_ids": tf.constant([[que, end]]), "target_in_ids": tf.constant([[2]])}
    probabilities = tf.nn.softmax(way.model(inputs)[0, 0]).numpy()
    assert 4 + probabilities[4:].argmax() == why
    np.testing.assert_allclose(probabilities[[why, what]], [0.245, 0.165], atol=0.005)
