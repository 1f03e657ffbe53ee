"""Compares both forms of the loss with NumPy, where the smoothed distribution is written out."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.training.ways.gradient import losses
from nmt_zoo.training.ways.gradient.losses import (
    Wanted,
    projected_cross_entropy,
    projected_losses,
    smoothed_cross_entropy,
)

PAD, V = 0, 7
TARGET = np.array([[5, 2, 6, 3], [4, 3, 0, 0]], np.int32)
REAL = TARGET != PAD
LOGITS = np.random.default_rng(0).normal(size=(*TARGET.shape, V)) * 3


def loss(logits=LOGITS, target_ids=TARGET, label_smoothing=0.1, pad_id=PAD):
    wanted = Wanted(tf.constant(target_ids), pad_id, label_smoothing)
    return smoothed_cross_entropy(tf.constant(logits, tf.float32), wanted)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def smoothed_targets(label_smoothing):
    return (1 - label_smoothing) * np.eye(V)[TARGET] + label_smoothing / V


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_loss_is_cross_entropy_with_the_smoothed_distribution(label_smoothing):
    cross_entropy = -(smoothed_targets(label_smoothing) * np.log(softmax(LOGITS))).sum(-1)
    value, _, tokens = loss(label_smoothing=label_smoothing)
    np.testing.assert_allclose(value, cross_entropy[REAL].sum(), rtol=1e-5)
    assert tokens == REAL.sum()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_nll_is_never_smoothed(label_smoothing):
    log_probs = np.take_along_axis(np.log(softmax(LOGITS)), TARGET[..., None], -1)[..., 0]
    value, nll, _ = loss(label_smoothing=label_smoothing)
    np.testing.assert_allclose(nll, -log_probs[REAL].sum(), rtol=1e-5)
    assert (value == nll) == (label_smoothing == 0)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradient_is_prediction_minus_smoothed_distribution_and_zero_on_padding(label_smoothing):
    logits = tf.constant(LOGITS, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(logits, label_smoothing=label_smoothing)[0]
    expected = (softmax(LOGITS) - smoothed_targets(label_smoothing)) * REAL[..., None]
    np.testing.assert_allclose(tape.gradient(value, logits), expected, atol=1e-5)


def test_padding_counts_nothing():
    logits = np.pad(LOGITS, ((0, 1), (0, 2), (0, 0)), constant_values=5)
    target_ids = np.pad(TARGET, ((0, 1), (0, 2)))
    np.testing.assert_allclose(loss(logits, target_ids), loss(), rtol=1e-6)


def test_what_is_padding_is_given():
    assert loss(pad_id=3)[2] == (TARGET != 3).sum()


def test_results_are_sums_so_parts_of_a_batch_add_up():
    parts = [loss(LOGITS[row : row + 1], TARGET[row : row + 1]) for row in (0, 1)]
    np.testing.assert_allclose(np.sum(parts, axis=0), loss(), rtol=1e-6)


def test_only_padding_is_zero_of_zero_tokens():
    assert [float(x) for x in loss(LOGITS, TARGET * 0)] == [0, 0, 0]


def test_extreme_logits_stay_finite():
    assert np.isfinite(loss(np.sign(LOGITS) * 1e4)).all()


FEATURES, KERNEL, BIAS = (
    tf.constant(np.random.default_rng(1).normal(size=shape), tf.float32)
    for shape in ((*TARGET.shape, 5), (5, V), (V,))
)


def values_and_gradients(function, bias, label_smoothing, target_ids=TARGET, dtype="float32"):
    sources = [tf.cast(x, dtype) for x in (FEATURES, KERNEL, bias) if x is not None]
    with tf.GradientTape() as tape:
        for source in sources:
            tape.watch(source)
        features, kernel, *bias = sources
        weights = kernel, *(bias or [None])
        wanted = Wanted(tf.constant(target_ids), PAD, label_smoothing)
        values = function(features, weights, wanted)
        loss = 0.5 * values[0]
    return [*values, *tape.gradient(loss, sources)]


def held_at_once(features, weights, wanted):
    kernel, bias = weights
    logits = tf.matmul(features, kernel)
    return smoothed_cross_entropy(logits if bias is None else logits + bias, wanted)


@pytest.mark.parametrize("rows", [1, 3, 4, 100])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
@pytest.mark.parametrize("bias", [BIAS, None], ids=["bias", "no bias"])
def test_projected_loss_and_its_gradients_are_those_of_the_logits(
    rows, label_smoothing, bias, monkeypatch
):
    monkeypatch.setattr(losses, "_LOGITS", 0)
    monkeypatch.setattr(losses, "_ROWS", rows)  # Groups that divide the tokens evenly, or not.
    found = values_and_gradients(projected_cross_entropy, bias, label_smoothing)
    expected = values_and_gradients(held_at_once, bias, label_smoothing)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    wanted = Wanted(tf.constant(TARGET), PAD, label_smoothing)
    validated = projected_losses(FEATURES, (KERNEL, bias), wanted)
    np.testing.assert_allclose(validated, found[:3], rtol=1e-5)


def test_projected_loss_of_nothing_but_padding_is_zero_and_so_are_its_gradients():
    found = values_and_gradients(projected_cross_entropy, BIAS, 0.1, TARGET * 0)
    assert not any(np.any(x) for x in found)


def test_gradients_of_the_projected_loss_have_the_dtype_of_what_they_are_of():
    *values, of_features, of_kernel, of_bias = values_and_gradients(
        projected_cross_entropy, BIAS, 0.1, dtype="bfloat16"
    )
    assert {x.dtype for x in values} == {tf.float32}
    assert {x.dtype for x in (of_features, of_kernel, of_bias)} == {tf.bfloat16}
    exact = values_and_gradients(projected_cross_entropy, BIAS, 0.1)
    np.testing.assert_allclose(tf.cast(of_kernel, tf.float32), exact[4], atol=0.1)


def test_projected_loss_is_the_same_compiled():
    expected = values_and_gradients(projected_cross_entropy, BIAS, 0.1)

    @tf.function(jit_compile=True, autograph=False)
    def compiled():
        return values_and_gradients(projected_cross_entropy, BIAS, 0.1)

    found = compiled()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
