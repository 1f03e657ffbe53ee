"""The n-gram language model as a state machine."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.models import SettingError, shift_right
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel
from tests.ngrams import VOCAB, model_of, random_text
from tests.unit.models.layers_test import stepped

PAD, UNK, BOS, EOS = range(4)
SOURCE = tf.constant([[5, 6, EOS], [7, EOS, PAD], [4, 4, EOS]])
TARGET = tf.constant([[4, 6, 5, UNK, EOS], [7, EOS, PAD, PAD, PAD], [8, 8, 4, 4, EOS]])
UNKNOWN = tf.TensorSpec([None, None], tf.int32)


@pytest.fixture(scope="module", params=[1, 3])
def model(request):
    return model_of(random_text(1), request.param)[0]


def call(model, target_ids=TARGET):
    return model({"source_ids": SOURCE, "target_in_ids": shift_right(target_ids, BOS)})


def test_steps_sentences_and_look_ups_are_one_distribution_without_what_is_never_predicted(model):
    log_probs = call(model).numpy()
    probabilities = np.exp(log_probs)
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-6)
    assert not probabilities[..., [PAD, BOS]].any() and (log_probs >= IMPOSSIBLE).all()
    assert (np.delete(probabilities, [PAD, BOS], axis=-1) > 0).all()
    steps = stepped(model, SOURCE, shift_right(TARGET, BOS))
    np.testing.assert_allclose(np.stack([step.logits for step in steps], 1), log_probs, atol=1e-6)
    expected = np.take_along_axis(log_probs, TARGET.numpy()[..., None], -1)[..., 0]
    real = TARGET.numpy() != PAD
    np.testing.assert_allclose(model.score(SOURCE, TARGET).numpy()[real], expected[real], rtol=1e-5)
    # The source is not read.
    weights = steps[0].attention.numpy()
    np.testing.assert_allclose(weights, [[1 / 3] * 3, [1 / 2, 1 / 2, 0], [1 / 3] * 3], rtol=1e-6)
    assert not model.has_alignment


def test_methods_trace_with_unknown_dimensions(model):
    def methods(source_ids, target_ids):
        inputs = {"source_ids": source_ids, "target_in_ids": target_ids}
        return model(inputs), model.score(source_ids, target_ids)

    traced = tf.function(methods, input_signature=[UNKNOWN, UNKNOWN], autograph=False)
    for found, expected in zip(traced(SOURCE, TARGET), methods(SOURCE, TARGET), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_round_trips_are_exact_and_half_precision_changes_nothing(model, tmp_path):
    config = {**json.loads(json.dumps(model.get_config())), "dtype": "mixed_bfloat16"}
    copy = NgramLanguageModel.from_config(config)
    copy.set_weights(model.get_weights())
    model.save(tmp_path / "model.keras")
    for other in (copy, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(call(other), call(model))


def test_fresh_tables_make_all_words_alike():
    model = NgramLanguageModel(VOCAB, VOCAB, order=3)
    scores = model.score(SOURCE, TARGET).numpy()[TARGET.numpy() != PAD]
    np.testing.assert_allclose(scores, -np.log(VOCAB - 2), rtol=1e-6)
    assert not model.trainable_variables


@pytest.mark.parametrize("setting", [{"order": 0}, {"num_ngrams": -1}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} must be at least"):
        NgramLanguageModel(VOCAB, VOCAB, **setting)
