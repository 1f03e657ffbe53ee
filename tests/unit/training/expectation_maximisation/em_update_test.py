"""Alignment models trained by expectation maximisation, and by gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import batches
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.model_directory.directory import restore
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    POSITIONS,
    Estimate,
    expect,
    first_estimate,
    maximise_translation,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    PositionTableEstimate,
    SharedEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import index_word_pairs
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.preparation import WordTable, length_model
from tests.unit.training.expectation_maximisation import textbook


def random_corpus(count=40, seed=1, **sizes):
    return textbook.corpus_of(textbook.random_pairs(count, seed, **sizes))


def create(words, corpus, positions="uniform", **settings):
    """Makes a prepared model whose vocabularies are the words 0 to 39."""
    settings = {"smoothing": 0.0, "max_positions": 8, "null_probability": 0.2, **settings}
    model = models.create(
        "ibm1", 40, 40, positions=positions, num_word_pairs=words.source_words.size, **settings
    )
    WordTable(corpus).fill(model)
    return model


def trained(corpus, positions, steps, **options):
    """Returns (update, its log-likelihoods) after some iterations."""
    words = index_word_pairs(corpus)
    update = ExpectationMaximisation(create(words, corpus, positions), words, **options)
    history = [update.step(words)["log_likelihood"][0] for _ in range(steps)]
    return update, history


def padded(side):
    rows = np.split(side.ids, np.cumsum(side.lengths)[:-1])
    return tf.ragged.constant([row.tolist() for row in rows], tf.int32).to_tensor(PAD_ID)


def log_likelihood(model, corpus):
    target_ids = padded(corpus.target)
    scores = model.score(padded(corpus.source), target_ids).numpy()
    return float(scores[target_ids.numpy() != PAD_ID].sum())


def random_positions(name, words, max_positions):
    """Returns arbitrary parameters of a position model."""
    rng = np.random.default_rng(2)
    if name == "jumps":
        return JumpsEstimate(rng.random(41) + 0.1, rng.random(20) + 0.1, 0.2)
    if name == "diagonal":
        return DiagonalEstimate(2.5, 0.2)
    if name == "uniform":
        return UniformEstimate()
    if name == "shared":
        return SharedEstimate(SharedEstimate(rng.random((9, 9)) + 0.1).pack(words, max_positions))
    tables = {}
    for block in words.blocks:
        if block.source_length <= max_positions:
            table = rng.random([min(block.active.size, max_positions), block.source_length])
            tables[block.source_length] = table / table.sum(axis=1, keepdims=True)
    return PositionTableEstimate(tables)


@pytest.mark.parametrize("max_positions", [3, 8])
@pytest.mark.parametrize("name", POSITIONS)
def test_a_model_has_the_likelihood_and_posteriors_of_its_estimate(name, max_positions):
    """Compares forward, backward, priors and bisection with expectation maximisation in NumPy."""
    corpus = random_corpus(words=8)
    words = index_word_pairs(corpus)
    values = np.random.default_rng(1).random(words.source_words.size)
    positions = random_positions(name, words, max_positions)
    estimate = Estimate(maximise_translation(words, values), positions)
    model = create(words, corpus, name, max_positions=max_positions)
    model.table.set_probabilities(estimate.translation)
    model.positions.unpack(positions.pack(words, max_positions))
    expected = expect(words, estimate).log_likelihood
    assert log_likelihood(model, corpus) == pytest.approx(expected, rel=1e-6)
    alignments = model.align(padded(corpus.source), padded(corpus.target)).numpy()
    for found, posterior in zip(alignments, textbook.soft_alignments(words, estimate), strict=True):
        rows, columns = posterior.shape
        np.testing.assert_allclose(found[:rows, :columns], posterior, atol=1e-6)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_unpacked_as_they_were_packed(name):
    words = index_word_pairs(random_corpus())
    positions = random_positions(name, words, 8)
    array = positions.pack(words, 8)
    again = POSITIONS[name].first(max_jump=20, null_probability=0.2).unpack(array)
    np.testing.assert_array_equal(again.pack(words, 8), array)
    keras.tree.map_structure(np.testing.assert_array_equal, again, positions)


@pytest.mark.parametrize("name", POSITIONS)
def test_iterations_are_those_of_the_numeric_core_and_the_model_has_their_result(name):
    corpus = random_corpus(seed=3)
    words = index_word_pairs(corpus)
    update, history = trained(corpus, name, 7, model1_steps=2, model2_steps=2)
    estimate, first_part = textbook.fit(words, first_estimate(words), 2)
    estimate, second_part = textbook.fit(words, estimate._replace(positions=DiagonalEstimate()), 2)
    own = POSITIONS[name].first(max_jump=20, null_probability=0.2)
    estimate, last_part = textbook.fit(words, estimate._replace(positions=own), 3)
    np.testing.assert_allclose(history, first_part + second_part + last_part)
    expected = expect(words, estimate).log_likelihood
    assert log_likelihood(update.model, corpus) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", POSITIONS)
def test_the_likelihood_never_falls_within_a_model(name):
    """Not even if a position table has no room for the longest sentences."""
    corpus = random_corpus(count=60, seed=4, longest=9)
    _, history = trained(corpus, name, 15)
    assert np.all(np.diff(history) >= -1e-9 * abs(history[0]))
    assert history[-1] > history[0]


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("name", POSITIONS)
def test_a_restored_update_goes_on_bit_for_bit(name, leave_one_out):
    corpus = random_corpus(seed=5)
    options = {"model1_steps": 1, "model2_steps": 2, "alpha": 0.01, "leave_one_out": leave_one_out}
    whole, history = trained(corpus, name, 6, **options)
    for stop in (1, 2, 4):
        part, _ = trained(corpus, name, stop, **options)
        saved = {key: np.array(value) for key, value in part.variables().items()}
        again, _ = trained(corpus, name, 0, **options)
        restore(again.variables(), saved, "checkpoint")
        words = index_word_pairs(corpus)
        rest = [again.step(words)["log_likelihood"][0] for _ in range(6 - stop)]
        assert rest == history[stop:]
        for key, value in whole.variables().items():
            np.testing.assert_array_equal(again.variables()[key], value, err_msg=key)


def test_lengths_are_those_of_the_regression():
    lengths = np.array([2, 4, 7, 9, 5])
    source, target = ([[4] * (n - 1) for n in ns] for ns in (lengths, 2 * lengths + 1))
    found = length_model(EncodedCorpus(textbook.side(source), textbook.side(target)))
    np.testing.assert_allclose(found, (1, 2, 0.01))
    equal = EncodedCorpus(textbook.side([[4, 4]] * 2), textbook.side([[4], [4] * 5]))
    intercept, slope, variance = length_model(equal)
    assert intercept + 3 * slope == pytest.approx(4)
    assert variance == pytest.approx(4 / 3)


# Gradient


def by_gradient(model, corpus, steps):
    """Returns the log-likelihood after gradient descent on the whole corpus at once."""
    update = Gradient(model, keras.optimizers.Adam(0.1), label_smoothing=0.0, clip_norm=0)
    (batch,) = batches(corpus, Batching(10000))
    for _ in range(steps):
        update.step(batch)
    return log_likelihood(model, corpus)


@pytest.mark.parametrize("name", ["uniform", "diagonal"])
def test_gradient_descent_reaches_the_likelihood_of_expectation_maximisation(name):
    """These models have a single maximum, or nearly so."""
    corpus = random_corpus(count=60, seed=6, words=6)
    _, history = trained(corpus, name, 300)
    words = index_word_pairs(corpus)
    found = by_gradient(create(words, corpus, name), corpus, 300)
    assert found == pytest.approx(history[-1], rel=1e-3)


@pytest.mark.parametrize("name", ["table", "jumps"])
def test_gradient_descent_goes_on_where_expectation_maximisation_ends(name):
    """Both methods have the same maxima, so gradient descent hardly moves where the other ended."""
    corpus = random_corpus(count=60, seed=6, words=6)
    update, history = trained(corpus, name, 300, model1_steps=3)
    found = by_gradient(update.model, corpus, 100)
    assert found >= history[-1] - 1e-3 * abs(history[-1])
    assert found == pytest.approx(history[-1], rel=5e-3)


# Small corpora with known answers


def test_the_small_case_of_the_chapter():
    """Model 1 learns that both `por` and `qué` mean `why`, and so translates `qué` wrongly."""
    por, que, why, for_, what = range(4, 9)
    pairs = [([por, que], [why])] * 3 + [([por], [for_]), ([que], [what])]
    update, _ = trained(textbook.corpus_of(pairs), "uniform", 300)
    end = textbook.EOS
    ids = tf.constant([[por, que, end]]), tf.constant([[why, for_, what, end]])
    found = update.model.table.look_up(*ids)[0].numpy()
    expected = [[0.49, 0.49, 0], [0.33, 0, 0], [0, 0.33, 0], [0.18, 0.18, 1]]
    np.testing.assert_allclose(found, expected, atol=0.006)
    inputs = {"source_ids": tf.constant([[que, end]]), "target_in_ids": tf.constant([[2]])}
    probabilities = tf.nn.softmax(update.model(inputs)[0, 0]).numpy()
    assert 4 + probabilities[4:].argmax() == why
    np.testing.assert_allclose(probabilities[[why, what]], [0.245, 0.165], atol=0.005)


# Knight 1997, "Automating Knowledge Acquisition for Machine Translation": an exercise in aligning
# two invented languages by hand.
CENTAURI_ARCTURAN = """\
ok-voon ororok sprok | at-voon bichat dat
ok-drubel ok-voon anok plok sprok | at-drubel at-voon pippat rrat dat
erok sprok izok hihok ghirok | totat dat arrat vat hilat
ok-voon anok drok brok jok | at-voon krat pippat sat lat
wiwok farok izok stok | totat jjat quat cat
lalok sprok izok jok stok | wat dat krat quat cat
lalok farok ororok lalok sprok izok enemok | wat jjat bichat wat dat vat eneat
lalok brok anok plok nok | iat lat pippat rrat nnat
wiwok nok izok kantok ok-yurp | totat nnat quat oloat at-yurp
lalok mok nok yorok ghirok clok | wat nnat gat mat bat hilat
lalok nok crrrok hihok yorok zanzanok | wat nnat arrat mat zanzanat
lalok rarok nok izok hihok mok | wat nnat forat arrat vat gat"""
# The word pairs on which everybody who solves the puzzle agrees.
SOLUTION = """\
ok-voon at-voon|ok-drubel at-drubel|ok-yurp at-yurp|ororok bichat|sprok dat|anok pippat|plok rrat|\
farok jjat|hihok arrat|yorok mat|ghirok hilat|lalok wat|nok nnat|stok cat|clok bat|kantok oloat|\
enemok eneat|zanzanok zanzanat|jok krat|brok lat|mok gat|rarok forat|drok sat"""


def test_a_puzzle_of_two_languages_is_solved_as_by_a_person():
    pairs = [
        [side.split() for side in line.split(" | ")] for line in CENTAURI_ARCTURAN.splitlines()
    ]
    words = [sorted({word for pair in pairs for word in pair[side]}) for side in (0, 1)]
    corpus = textbook.corpus_of(
        [[[4 + words[i].index(w) for w in pair[i]] for i in (0, 1)] for pair in pairs]
    )
    update, _ = trained(corpus, "table", 10, model1_steps=5, alpha=0.1)
    alignments = update.model.align(padded(corpus.source), padded(corpus.target)).numpy()
    solution = dict(reversed(pair.split()) for pair in SOLUTION.split("|"))
    found = 0
    for (source, target), weights in zip(pairs, alignments, strict=True):
        for word, row in zip(target, weights, strict=False):
            if word in solution:
                assert [*source, "NULL"][row[: len(source) + 1].argmax()] == solution[word]
                found += 1
    assert found == 51
