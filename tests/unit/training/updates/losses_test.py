"""Compares all forms of the loss with NumPy, where the smoothed distribution is written out."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.training.ways.gradient import losses
from nmt_zoo.training.ways.gradient.losses import (
    Wanted,
    projected_cross_entropy,
    smoothed_cross_entropy,
)
from nmt_zoo.training.ways.gradient.teacher import (
    Taught,
    distilled_cross_entropy,
    projected_distilled_cross_entropy,
)
from tests.unit.models.layers_test import softmax

PAD, V = 0, 7
TARGET = np.array([[5, 2, 6, 3], [4, 3, 0, 0]], np.int32)
REAL = TARGET != PAD
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(*TARGET.shape, V)) * 2
OF_TEACHER = RNG.normal(size=LOGITS.shape) * 2
TAUGHT = Taught(0.25, tf.constant(OF_TEACHER, tf.float32), tf.nn.log_softmax)


def loss(logits=LOGITS, target_ids=TARGET, label_smoothing=0.1, pad_id=PAD):
    wanted = Wanted(tf.constant(target_ids), pad_id, label_smoothing)
    return smoothed_cross_entropy(tf.constant(logits, tf.float32), wanted)


def smoothed_targets(label_smoothing):
    return (1 - label_smoothing) * np.eye(V)[TARGET] + label_smoothing / V


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_loss_and_gradient_have_the_smoothed_distribution_and_nll_has_not(label_smoothing):
    logits = tf.constant(LOGITS, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value, nll, tokens = loss(logits, label_smoothing=label_smoothing)
    targets, log_probs = smoothed_targets(label_smoothing), np.log(softmax(LOGITS))
    np.testing.assert_allclose(value, -(targets * log_probs).sum(-1)[REAL].sum(), rtol=1e-5)
    of_targets = np.take_along_axis(log_probs, TARGET[..., None], -1)[..., 0]
    np.testing.assert_allclose(nll, -of_targets[REAL].sum(), rtol=1e-5)
    assert tokens == REAL.sum() and (value == nll) == (label_smoothing == 0)
    expected = (softmax(LOGITS) - targets) * REAL[..., None]  # 0 on padding.
    np.testing.assert_allclose(tape.gradient(value, logits), expected, atol=1e-5)


def test_results_are_sums_over_tokens_to_which_padding_adds_nothing():
    logits = np.pad(LOGITS, ((0, 1), (0, 2), (0, 0)), constant_values=5)
    target_ids = np.pad(TARGET, ((0, 1), (0, 2)))
    np.testing.assert_allclose(loss(logits, target_ids), loss(), rtol=1e-6)
    assert loss(pad_id=3)[2] == (TARGET != 3).sum()
    parts = [loss(LOGITS[row : row + 1], TARGET[row : row + 1]) for row in (0, 1)]
    np.testing.assert_allclose(np.sum(parts, axis=0), loss(), rtol=1e-6)
    assert [float(x) for x in loss(LOGITS, TARGET * 0)] == [0, 0, 0]
    assert not any(np.any(x) for x in values_and_gradients(target_ids=TARGET * 0))
    assert np.isfinite(loss(np.sign(LOGITS) * 1e4)).all()


def test_distillation_and_its_gradients_are_those_of_numpy():
    """KL(t || p) has the gradient p - t by the logits of p."""
    logits = tf.constant(LOGITS, tf.float32)
    wanted = Wanted(tf.constant(TARGET), PAD, 0.1)
    values, gradients = [], []
    for losses_of, *taught in ((distilled_cross_entropy, TAUGHT), (smoothed_cross_entropy,)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            values.append(losses_of(logits, wanted, *taught))
        gradients.append(tape.gradient(values[-1][0], logits).numpy())
    p, t, weight = softmax(LOGITS), softmax(OF_TEACHER), TAUGHT.weight
    of_teacher = ((t * np.log(t / p)).sum(-1) * REAL).sum()
    expected = (1 - weight) * values[1][0] + weight * of_teacher
    np.testing.assert_allclose(values[0], [expected, *values[1][1:]], rtol=1e-5)
    expected = (1 - weight) * gradients[1] + weight * (p - t) * REAL[..., None]
    np.testing.assert_allclose(gradients[0], expected, atol=1e-5)


# Function of features and weights, the same of logits, and the teacher.
FORMS = {
    "plain": (projected_cross_entropy, smoothed_cross_entropy, ()),
    "teacher": (projected_distilled_cross_entropy, distilled_cross_entropy, (TAUGHT,)),
}
FEATURES, KERNEL, BIAS = (
    tf.constant(np.random.default_rng(1).normal(size=shape), tf.float32)
    for shape in ((*TARGET.shape, 5), (5, V), (V,))
)


def values_and_gradients(
    form="plain", bias=BIAS, label_smoothing=0.1, target_ids=TARGET, dtype="float32", at_once=False
):
    projected, of_logits, taught = FORMS[form]
    sources = [tf.cast(x, dtype) for x in (FEATURES, KERNEL, bias) if x is not None]
    wanted = Wanted(tf.constant(target_ids), PAD, label_smoothing)
    with tf.GradientTape() as tape:
        for source in sources:
            tape.watch(source)
        features, kernel, *biases = sources
        if at_once:
            values = of_logits(sum(biases, tf.matmul(features, kernel)), wanted, *taught)
        else:
            values = projected(features, (kernel, *(biases or [None])), wanted, *taught)
        half = 0.5 * values[0]
    return [*values, *tape.gradient(half, sources)]


@pytest.mark.parametrize(
    ("rows", "label_smoothing", "bias"), [(1, 0.3, BIAS), (3, 0.0, None), (100, 0.3, BIAS)]
)
@pytest.mark.parametrize("form", FORMS)
def test_projected_loss_and_its_gradients_are_those_of_the_logits(
    rows, label_smoothing, bias, form, monkeypatch
):
    monkeypatch.setattr(losses, "_LOGITS", 0)
    monkeypatch.setattr(losses, "_ROWS", rows)  # Groups that divide the tokens evenly, or not.
    projected = values_and_gradients(form, bias, label_smoothing)
    expected = values_and_gradients(form, bias, label_smoothing, at_once=True)
    for actual, value in zip(projected, expected, strict=True):
        np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_have_the_dtype_of_what_they_are_of_and_xla_finds_the_same(form):
    *values, of_features, of_kernel, of_bias = values_and_gradients(form, dtype="bfloat16")
    assert {x.dtype for x in values} == {tf.float32}
    assert {x.dtype for x in (of_features, of_kernel, of_bias)} == {tf.bfloat16}
    exact = values_and_gradients(form)
    np.testing.assert_allclose(tf.cast(of_kernel, tf.float32), exact[4], atol=0.15)
    compiled = tf.function(lambda: values_and_gradients(form), jit_compile=True, autograph=False)
    for actual, value in zip(compiled(), exact, strict=True):
        np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-5)
