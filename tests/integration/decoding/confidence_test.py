"""How sure a model is: probabilities at a temperature that is fitted to validation text."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.decoding.confidence import Abstaining, ConfidenceScorer
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.text.usual_form import UsualForm, in_capitals
from nmt_zoo.decoding.translator import EMPTY, UNSURE, Translator
from nmt_zoo.models.base import shift_right
from nmt_zoo.training.validation.temperature import calibration_error, temperature_choice
from tests.integration.decoding.conftest import TEXT
from tests.integration.models.contract_test import randomised
from tests.tiny import SMALL

LINES = TEXT[0][:6]


@pytest.fixture(scope="module")
def model(words):
    keras.utils.set_random_seed(3)
    sizes = len(words.source), len(words.target)
    settings = {**SMALL, "tie_embeddings": "none"}
    return randomised(models.create("transformer_tiny", *sizes, **settings))


def test_a_temperature_divides_the_logits(model):
    source, target = tf.constant([[5, 6, 3]]), tf.constant([[7, 4, 3]])
    logits = model({"source_ids": source, "target_in_ids": shift_right(target, model.bos_id)})
    for temperature in (1.0, 0.5, 3.0):
        found = make_scorer(model, temperature=temperature)(source, target)
        expected = tf.gather(tf.nn.softmax(logits / temperature), target, batch_dims=2)
        np.testing.assert_allclose(found.confidence, expected, rtol=1e-4)
        np.testing.assert_allclose(
            found.log_probs,
            tf.gather(tf.nn.log_softmax(logits), target, batch_dims=2),
            rtol=1e-4,
            atol=1e-5,
        )


def test_tokens_make_words_and_words_make_the_sentence(model, words):
    results = Translator.of(model, words).translate(LINES)
    best = [translation for translation, *_ in results]
    found = ConfidenceScorer(model, words, 1.0, 100)(LINES, best)
    for translation, sure in zip(best, found, strict=True):
        searched = sure.log_probs if translation.finished else sure.log_probs[:-1]
        assert sum(searched) == pytest.approx(translation.log_prob, abs=1e-2)
        assert len(sure.words) == len(translation.text.split())
        assert sure.sentence == pytest.approx(np.exp(np.mean(sure.log_probs)), abs=1e-3)
        without_end = np.exp(sum(sure.log_probs[:-1]))
        assert np.prod(sure.words) == pytest.approx(without_end, rel=0.1, abs=1e-3)
    (nothing,) = ConfidenceScorer(model, words, 1.0, 100)([""], [EMPTY])
    assert nothing is None


def test_lines_in_capitals_are_translated_and_sure_as_in_small_letters(model, words):
    usual_form = UsualForm(words.source)
    lines = [line.upper() for line in LINES]
    small = [usual_form.of(line)[0] for line in lines]
    assert sum(a != b for a, b in zip(lines, small, strict=True)) >= 3
    scorer, translator = ConfidenceScorer(model, words, 1.0, 100), Translator.of
    found = [x for x, *_ in translator(model, words, usual_form=usual_form).translate(lines)]
    expected = [x for x, *_ in translator(model, words).translate(small)]
    for line, a, b in zip(lines, found, expected, strict=True):
        assert a.text == (b.text if a.usual is None else in_capitals(b.text))
        assert a.usual is None or a.usual == (usual_form.of(line)[0], b.text)
    for a, b in zip(scorer(lines, found), scorer(small, expected), strict=True):
        assert a.words == pytest.approx(b.words, abs=1e-3)


def test_neighbours_and_their_lengths_change_no_confidence(model, words, monkeypatch):
    best = [of_line[0] for of_line in Translator.of(model, words).translate(LINES)]
    scorer = ConfidenceScorer(model, words, 1.0, 100)
    expected = [
        scorer([line], [translation])[0] for line, translation in zip(LINES, best, strict=True)
    ]
    for most_weights in (1, 100, 1 << 21):  # Groups of one, of some, and of all.
        monkeypatch.setattr("nmt_zoo.decoding.scoring.MAX_SOURCE_WEIGHTS", most_weights)
        for found, alone in zip(scorer(LINES, best), expected, strict=True):
            assert found.sentence == pytest.approx(alone.sentence, abs=2e-4)
            np.testing.assert_allclose(found.log_probs, alone.log_probs, atol=2e-4)


def test_translations_below_the_least_confidence_are_left_out_and_no_others(model, words):
    results = Translator.of(model, words).translate(LINES)
    scorer = ConfidenceScorer(model, words, 1.0, 100)
    sure = [found.sentence for found in scorer(LINES, [best for best, *_ in results])]
    middle = float(np.median(sure))
    kept = Abstaining(scorer, middle)(LINES, results)
    for before, after, confidence in zip(results, kept, sure, strict=True):
        assert after == before if confidence >= middle else after[0].problem == UNSURE
    assert Abstaining(scorer, 0.0)(LINES, results) == results


def test_text_drawn_from_the_model_has_a_temperature_of_1(model, words):
    kernel, sources = model.output_layer.kernel, TEXT[0] * 3
    kernel.assign(kernel * 2)  # The probabilities of a random model are almost equal.
    draws = Translator.of(model, words, beam_size=1, sample=True).translate(sources)
    lines = sources, [drawn.text for drawn, *_ in draws]

    def chosen():
        line, entries = temperature_choice(model, words, lines)(lambda: False)
        assert f"temperature of {entries['temperature']:g}" in line
        return entries["temperature"]

    before = chosen()
    kernel.assign(kernel / 1.3)
    assert 0.6 < before < 1.6  # Not quite 1: `<pad>`, `<s>` and `<unk>` are never drawn.
    assert before / chosen() == pytest.approx(1.3, rel=0.05)
    assert temperature_choice(model, words, [side[:5] for side in lines]) is None
    assert temperature_choice(model, words, lines)(lambda: True) is None


def test_the_calibration_error_of_an_example_by_hand():
    sure, hits = np.array([0.9, 0.9, 0.9, 0.9, 0.2]), np.array([True, True, True, False, False])
    assert calibration_error(sure, hits) == pytest.approx(0.8 * 0.15 + 0.2 * 0.2)
    right = np.repeat([0.1, 0.5, 0.7], 1000)
    assert calibration_error(right, np.random.default_rng(1).random(3000) < right) < 0.03
