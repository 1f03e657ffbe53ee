"""Training in 16 bits and under XLA gives nearly the same losses as in float32."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models.layers.transformer_layers import LayerNorm
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.precision import PRECISIONS, LossScale
from tests.integration.models.contract_test import CASES, RATES, TARGET_VOCAB, source_vocab

WAYS = {
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "XLA": {"jit_compile": True},
}


# Learning rates at which a dozen updates show progress, but tiny differences do not grow with each
# update.
OWN_RATES = {"transformer_simple": 0.002, "transformer_coursework": 0.002, "attention_ibm2": 0.02}

# Presets that compute in float32 under every policy.
TABLES = ("ibm1", "ibm2", "hmm_alignment", "hmm_fertility")


def batches(count, rows=6, length=6):
    """Makes batches of sentences that are their own translations, of one shape, with padding."""
    generator = np.random.default_rng(1)
    for _ in range(count):
        ids = generator.integers(4, 10, size=(rows, length))
        for row, words in enumerate(generator.integers(2, length, size=rows)):
            ids[row, words], ids[row, words + 1 :] = 3, 0
        ids = tf.constant(ids, tf.int32)
        yield {"source_ids": ids, "target_ids": ids}


def create_update(preset, precision="float32", jit_compile=False, optimizer=None, **more):
    """Makes an update without dropout, which would draw other masks in another precision."""
    keras.utils.set_random_seed(3)
    settings = {name: 0.0 for name in models.preset_settings(preset) if "dropout" in name}
    settings = {**CASES[preset], **settings, "dtype": PRECISIONS[precision]}
    model = models.create(preset, source_vocab(preset), TARGET_VOCAB, **settings)
    rate = OWN_RATES.get(preset, RATES.get(type(model), 0.005))
    optimizer = optimizer or keras.optimizers.Adam(rate)
    return Gradient(model, optimizer, jit_compile=jit_compile, **more)


def losses(preset, steps, **way):
    """Returns the losses of all updates."""
    update = create_update(preset, **way)
    metrics = [update.step(batch) for batch in batches(steps)]
    return np.array([float(m["loss"][0] / m["loss"][1]) for m in metrics])


@pytest.fixture(scope="module")
def plain():
    """A function (preset, steps) -> losses in float32, cached."""
    return functools.cache(losses)


def check(preset, way, steps, plain):
    expected, actual = plain(preset, steps), losses(preset, steps, **WAYS[way])
    assert np.isfinite(actual).all()
    assert expected[-3:].mean() < 0.98 * expected[:3].mean()
    np.testing.assert_allclose(actual[-3:].mean(), expected[-3:].mean(), rtol=0.02)
    assert way == "XLA" or (preset in TABLES) == np.array_equal(actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("preset", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_every_preset_learns_as_in_float32(preset, way, plain):
    check(preset, way, 50, plain)


@pytest.mark.parametrize(
    ("preset", "way"),
    [("transformer_simple", "float16"), ("attention_ibm2", "XLA")],
)
def test_some_presets_learn_as_in_float32(preset, way, plain):
    check(preset, way, 12, plain)


def test_xla_compiles_all_options_together():
    weights = []
    for jit_compile in (False, True):
        optimizer = adam(
            learning_rate=0.01, warmup_steps=2, schedule="plateau", weight_decay=0.1, patience=1
        )
        options = {"precision": "float16", "ema_decay": 0.9, "optimizer": optimizer}
        update = create_update("attention_ibm1", jit_compile=jit_compile, **options)
        first, second, third = batches(3)
        update.step(first, second)
        update.after_validation(1)
        update.step(second, third)
        weights.append({name: v.numpy() for name, v in update.variables().items()})
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def half():
    return create_update("attention_ibm1", "float16")


def test_an_update_that_overflows_changes_nothing_but_the_scale(half):
    (batch,) = batches(1)
    half.loss_scale.scale.assign(3e38)
    before = [v.numpy() for v in half.variables().values()]
    metrics = half.step(batch)
    changed = [
        name
        for (name, v), old in zip(half.variables().items(), before, strict=True)
        if not np.array_equal(v.numpy(), old)
    ]
    assert changed == ["loss_scale/scale"]
    assert float(half.loss_scale.scale) == pytest.approx(1.5e38)
    assert [float(x) for x in metrics["overflows"]] == [1, 1]
    assert [float(x) for x in metrics["skipped"]] == [0, 1]
    assert [float(x) for x in metrics["gradient_norm"]] == [0, 0]
    assert np.isfinite(metrics["loss"][0])


def test_whatever_the_scale_of_the_loss_gradients_are_those_of_float32(half):
    (batch,) = batches(1)
    before, plain = half.model.get_weights(), create_update("attention_ibm1")
    plain.model.set_weights(before)
    expected = float(plain.step(batch)["gradient_norm"][0])
    for scale in (2.0**12, 2.0**6):
        half.loss_scale.scale.assign(scale)
        norm = half.step(batch)["gradient_norm"]
        half.model.set_weights(before)
        assert float(norm[0]) == pytest.approx(expected, rel=1e-2)
        assert float(norm[1]) == 1


def test_the_scale_doubles_after_finite_updates_alone():
    scale, scales, loss = LossScale(first=8.0, double_every=3), [], tf.constant(2.0)
    for is_finite in (True, True, False, True, True, True, True, True, True):
        overflow = scale.adapt(tf.constant(is_finite), loss)
        scales.append(float(scale.scale))
        assert bool(overflow) != is_finite
    assert scales == [8, 8, 4, 4, 4, 8, 8, 8, 16]


@pytest.mark.parametrize(("first", "loss"), [(8.0, np.inf), (8.0, np.nan), (1.0, 2.0)])
def test_what_the_scale_is_no_reason_of_is_no_overflow(first, loss):
    scale = LossScale(first=first)
    assert not float(scale.adapt(tf.constant(False), tf.constant(loss)))
    assert float(scale.scale) == first


def test_a_layer_norm_is_found_in_float32():
    """In 16 bits the error of the mean of these numbers is as large as their differences."""
    x = np.float32([[[100.0, 101.0, 102.0, 103.0]]])
    expected, actual = (
        LayerNorm({"width": 4, "norm_epsilon": 1e-6}, dtype=policy)(tf.cast(x, dtype))
        for policy, dtype in (("float32", tf.float32), ("mixed_float16", tf.float16))
    )
    np.testing.assert_allclose(actual, expected, atol=1e-3)
