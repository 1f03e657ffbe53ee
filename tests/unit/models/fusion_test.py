"""Shallow fusion: the sums of two models' log-probabilities."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models import SettingError
from nmt_zoo.models.combination import ShallowFusion
from nmt_zoo.models.ngram import NgramLanguageModel
from tests.ngrams import VOCAB, model_of, random_text
from tests.tiny import traced_search

PAD, UNK, BOS, EOS = range(4)
SOURCE = tf.constant([[5, 6, 4, EOS], [7, EOS, PAD, PAD], [4, 4, EOS, PAD]])
TARGET = tf.constant([[4, 6, 5, EOS], [7, EOS, PAD, PAD], [4, 4, 6, EOS]])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    tiny = {"num_encoder_layers": 1, "num_decoder_layers": 1, "width": 8, "num_heads": 2}
    model = models.create("transformer_tiny", VOCAB, VOCAB, ffn_width=8, **tiny)
    for weight in model.trainable_variables:  # Larger weights, so that no scores are equal.
        weight.assign(weight * 2)
    return model


@pytest.fixture(scope="module")
def language_model():
    return model_of(random_text(1), 3)[0]


def search(model, limit=5, **options):
    return traced_search(model, limit, **options)(SOURCE)


def test_scores_are_the_weighted_sums_of_both_models(model, language_model):
    fused = ShallowFusion(model, language_model, weight=0.7)
    expected = model.score(SOURCE, TARGET) + 0.7 * language_model.score(SOURCE, TARGET)
    real = TARGET.numpy() != PAD
    np.testing.assert_allclose(
        fused.score(SOURCE, TARGET).numpy()[real], expected.numpy()[real], rtol=1e-5
    )


def test_the_search_finds_the_highest_sum_of_all(model, language_model):
    limit = 3
    fused = ShallowFusion(model, language_model, weight=0.7)
    found = search(fused, beam_size=160, limit=limit, alpha=0.0)
    every = [
        [*body, EOS]
        for length in range(limit)
        for body in itertools.product(range(4, VOCAB), repeat=length)
    ]
    targets = tf.ragged.constant(every, tf.int32).to_tensor(PAD)
    for row in range(SOURCE.shape[0]):
        sources = tf.repeat(SOURCE[row : row + 1], len(every), axis=0)
        scores = tf.where(targets != PAD, fused.score(sources, targets), 0.0)
        scores = tf.reduce_sum(scores, axis=1).numpy()
        best = np.argsort(scores)[::-1]
        np.testing.assert_allclose(found.log_probs[row, : len(every)], scores[best], rtol=1e-4)
        top = [i for i in found.ids[row, 0].tolist() if i != PAD]
        assert top == every[best[0]]


def test_alignments_are_those_of_the_translation_model(model, language_model):
    fused = ShallowFusion(model, language_model, weight=0.7)
    np.testing.assert_array_equal(fused.align(SOURCE, TARGET), model.align(SOURCE, TARGET))
    assert (
        fused.attention_maps(SOURCE, TARGET).keys() == model.attention_maps(SOURCE, TARGET).keys()
    )
    assert fused.has_alignment


def test_what_does_not_fit_is_refused(model, language_model):
    with pytest.raises(SettingError, match="9 target ids and the language model 10"):
        ShallowFusion(model, NgramLanguageModel(10, 10), weight=0.1)
    with pytest.raises(SettingError, match=r"at least 0, found -0\.1"):
        ShallowFusion(model, language_model, weight=-0.1)
