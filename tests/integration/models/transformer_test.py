"""Laws of settings that only the Transformer has."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models.layers.embeddings import PositionalEncoding, sinusoidal_positions
from nmt_zoo.models.layers.transformer_layers import Decoder, Encoder, distinct
from tests.integration.models.contract_test import randomised
from tests.unit.models.layers_test import close, logits_of, stepped

SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 1, "width": 16, "num_heads": 2}
SMALL |= {"ffn_width": 24, "norm": "pre"}
SHARED = {"share_layers": "cycle_reversed", "distinct_layers": 2}
SHARED |= {"num_encoder_layers": 4, "num_decoder_layers": 3}
SOURCE = tf.constant([[5, 9, 4, 7, 3], [8, 4, 3, 0, 0]], tf.int32)
TARGET = tf.constant([[6, 8, 3], [9, 3, 0]], tf.int32)


def create(**settings):
    keras.utils.set_random_seed(5)
    return randomised(models.create("transformer_base", 11, 11, **{**SMALL, **settings}))


def steps(model):
    """Returns the logits of the targets, `[B, T, V]`, from one decoding step after the other."""
    outputs = stepped(model, SOURCE, models.shift_right(TARGET, 2))
    return tf.stack([output.logits for output in outputs], axis=1)


def logits(model, source=SOURCE):
    return logits_of(model, source, TARGET)


@functools.cache
def plain_logits():
    return logits(create())


@pytest.mark.parametrize(
    "settings", [{"positions": "none"}, {"scale_scores": False}, {"ssru": True}]
)
def test_steps_equal_the_whole_pass(settings):
    model = create(**settings)
    whole = logits(model)
    close(steps(model), whole)
    assert np.abs(whole - plain_logits()).max() > 0.01
    reordered = tf.constant([[4, 7, 9, 5, 3], [4, 8, 3, 0, 0]], tf.int32)
    change = np.abs(
        logits(model, reordered) - whole
    ).max()  # Words have no places without positions.
    assert change < 1e-5 if "positions" in settings else change > 0.01


def test_shared_layers_compute_what_equal_layers_would(tmp_path):
    shared = create(**SHARED)
    spelled_out = create(**{**SHARED, "share_layers": "none", "distinct_layers": 1})
    for side, order in (("encoder", [0, 1, 1, 0]), ("decoder", [0, 1, 1])):
        layers, copies = (getattr(model, side).layers for model in (shared, spelled_out))
        assert [layer.name for layer in layers] == [f"layer_{i}" for i in order]
        assert len(distinct(layers)) == 2 and len(distinct(copies)) == len(copies)
        for layer, copy in zip(layers, copies, strict=True):
            copy.set_weights(layer.get_weights())
    ours = {weight.path.partition("/")[2]: weight for weight in shared.weights}
    for weight in spelled_out.weights:  # Embeddings and normalisations outside the layers.
        path = weight.path.partition("/")[2]
        if "/layer_" not in path:
            weight.assign(ours[path])
    whole = logits(shared)
    close(whole, logits(spelled_out))
    close(steps(shared), whole)
    shared.save(tmp_path / "model.keras")
    close(logits(keras.saving.load_model(tmp_path / "model.keras")), whole)
    assert shared.count_params() < 0.7 * spelled_out.count_params()
    shared.precompute()
    assert len(shared.precomputed()) == 3  # The output, and the joined projections of two layers.
    close(steps(shared), whole)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_a_precomputed_model_decodes_as_before_and_sinusoids_know_where_a_source_begins(positions):
    model = create(positions=positions)
    whole = logits(model)
    later = tf.pad(SOURCE, [[0, 0], [2, 0]])  # Padding before the words; attention masks it.
    change = np.abs(logits(model, later) - whole).max()
    assert change > 1e-2 if positions == "sinusoidal" else change < 1e-4
    model.precompute()
    close(steps(model), whole)


def test_stacks_are_layers_of_their_own():
    """As in a model that someone builds from them."""
    settings = {**models.preset_settings("transformer_base"), **SMALL, "width": 8}
    ids, mask = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="bool")
    embedded = PositionalEncoding()(keras.layers.Embedding(11, 8)(ids))
    memory, maps = Encoder(settings, 1)(embedded, mask)
    assert len(maps) == 1
    outputs = [memory, Decoder(settings, 1)(embedded, memory, mask)[0]]
    model = keras.Model([ids, mask], outputs)
    copy = keras.Model.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    for found, expected in zip(*(m([SOURCE, SOURCE != 0]) for m in (copy, model)), strict=True):
        assert expected.shape == (2, 5, 8)
        close(found, expected)
    close(PositionalEncoding()(tf.zeros([1, 5, 8]))[0], sinusoidal_positions(tf.range(5), 8))
