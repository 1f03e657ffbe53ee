"""Ensembles, and translation models with a language model."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models import SettingError
from nmt_zoo.models.combination import Ensemble, ShallowFusion
from nmt_zoo.models.ngram import NgramLanguageModel
from tests.ngrams import VOCAB, model_of, random_text
from tests.tiny import small_settings, traced_search

PAD, UNK, BOS, EOS = range(4)
SOURCE = tf.constant([[5, 6, 4, EOS], [7, EOS, PAD, PAD], [4, 4, EOS, PAD]])
TARGET = tf.constant([[4, 6, 5, EOS], [7, EOS, PAD, PAD], [4, 4, 6, EOS]])
PRESETS = ("transformer_tiny", "lstm_luong", "attention_ibm1")


@pytest.fixture(scope="module")
def members():
    keras.utils.set_random_seed(3)
    members = []
    for preset in PRESETS:
        members.append(models.create(preset, VOCAB, VOCAB, **small_settings(preset)))
        for weight in members[-1].trainable_variables:
            weight.assign(weight * 2)
    return members


def decoded(model, source, targets):
    """Sums each target's log-probabilities over decoding steps, `[len(targets)]`."""
    ids = tf.ragged.constant(targets, tf.int32).to_tensor(PAD)
    context = model.encode(tf.repeat([source], len(targets), axis=0))
    state = model.initial_state(context)
    tokens, total = tf.fill([len(targets)], BOS), 0.0
    for step in range(ids.shape[1]):
        output = model.decode_step(tokens, tf.constant(step), state, context)
        log_probs = output.logits - model.log_normaliser(output.logits)
        tokens, state = ids[:, step], output.state
        chosen = tf.gather(log_probs, tokens, batch_dims=1)
        total += tf.where(tokens == PAD, 0.0, chosen)
    return total.numpy()


def test_a_model_together_with_itself_decodes_as_that_model(members):
    source, targets = SOURCE[0].numpy(), [[4, 6, EOS], [7, EOS], [EOS]]
    for model in members:
        expected = decoded(model, source, targets)
        found = decoded(Ensemble([model, model]), source, targets)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_token_has_the_mean_of_the_members_probabilities(members):
    probabilities = [np.exp(member.score(SOURCE, TARGET)) for member in members]
    joined = np.exp(Ensemble(members).score(SOURCE, TARGET))
    real = TARGET.numpy() != PAD
    np.testing.assert_allclose(joined[real], np.mean(probabilities, axis=0)[real], rtol=1e-5)


def test_decoding_steps_give_the_same_scores_as_whole_sentences(members):
    both = Ensemble(members[:2])  # The third tracks coverage, so its steps differ from `score`.
    source = SOURCE[0].numpy()
    targets = [[*body, EOS] for n in range(3) for body in itertools.product([4, 5, 7], repeat=n)]
    ids = tf.ragged.constant(targets, tf.int32).to_tensor(PAD)
    scores = both.score(tf.repeat([source], len(targets), axis=0), ids)
    expected = tf.reduce_sum(tf.where(ids == PAD, 0.0, scores), axis=1)
    np.testing.assert_allclose(decoded(both, source, targets), expected, rtol=1e-4)


def test_alignments_are_the_mean_of_members_that_have_one(members):
    plain = models.create("lstm_seq2seq", VOCAB, VOCAB, encoder_units=8, decoder_units=8)
    assert not plain.has_alignment
    both = Ensemble([plain, *members[:2]])
    aligned = [member.align(SOURCE, TARGET) for member in members[:2]]
    np.testing.assert_allclose(both.align(SOURCE, TARGET), np.mean(aligned, axis=0), atol=1e-6)
    assert both.has_alignment and not Ensemble([plain]).has_alignment
    np.testing.assert_allclose(Ensemble([plain]).align(SOURCE, TARGET), plain.align(SOURCE, TARGET))
    maps = both.attention_maps(SOURCE, TARGET)
    assert {name.split("/")[0] for name in maps} >= {"1", "2"}


@pytest.fixture(scope="module")
def fused(members):
    return ShallowFusion(members[0], model_of(random_text(1), 3)[0], weight=0.7)


def test_scores_are_the_weighted_sums_of_both_models(fused):
    model, language_model = fused.members
    expected = model.score(SOURCE, TARGET) + 0.7 * language_model.score(SOURCE, TARGET)
    real = TARGET.numpy() != PAD
    np.testing.assert_allclose(
        fused.score(SOURCE, TARGET).numpy()[real], expected.numpy()[real], rtol=1e-5
    )
    # Alignments are those of the translation model.
    np.testing.assert_array_equal(fused.align(SOURCE, TARGET), model.align(SOURCE, TARGET))
    maps = (parts.attention_maps(SOURCE, TARGET).keys() for parts in (fused, model))
    assert len({*map(tuple, maps)}) == 1 and fused.has_alignment


@pytest.mark.usefixtures("eagerly")
def test_the_search_finds_the_highest_sum_of_all(fused):
    limit = 3
    hypotheses = traced_search(fused, limit, beam_size=160, alpha=0.0)(SOURCE)
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
        np.testing.assert_allclose(hypotheses.log_probs[row, : len(every)], scores[best], rtol=1e-4)
        top = [i for i in hypotheses.ids[row, 0].tolist() if i != PAD]
        assert top == every[best[0]]


def test_what_does_not_fit_is_refused(members, fused):
    other = models.create("lstm_seq2seq", VOCAB, 8, encoder_units=8, decoder_units=8)
    with pytest.raises(SettingError, match=r"different vocabulary sizes: \[\(9, 8\), \(9, 9\)\]"):
        Ensemble([members[0], other])
    with pytest.raises(SettingError, match="at least one model"):
        Ensemble([])
    with pytest.raises(SettingError, match="9 target ids and the language model 10"):
        ShallowFusion(members[0], NgramLanguageModel(10, 10), weight=0.1)
    with pytest.raises(SettingError, match=r"at least 0, found -0\.1"):
        ShallowFusion(*fused.members, weight=-0.1)
