"""Losses with divergences: R-Drop, and distillation from a teacher."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models.ensemble import Ensemble
from nmt_zoo.training.ways.gradient import divergences, losses
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.losses import Wanted, smoothed_cross_entropy
from nmt_zoo.training.ways.gradient.teacher import Taught, Teacher
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout
from tests.tiny import SMALL, small_settings

PAD, V = 0, 7
TARGET = np.array([[5, 2, 6, 3], [4, 3, 0, 0]], np.int32)
REAL = (TARGET != PAD)[..., None]
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, *TARGET.shape, V)) * 2
FEATURES, KERNEL, BIAS = (
    tf.constant(RNG.normal(size=shape), tf.float32)
    for shape in ((2 * len(TARGET), TARGET.shape[1], 5), (5, V), (V,))
)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def of_logits(logits, alpha, label_smoothing=0.1, taught=None):
    """Returns (loss, nll, tokens) of `[P, B, T, V]`, and the gradient of the loss."""
    shape = logits.shape
    logits = tf.constant(logits.reshape(-1, *logits.shape[2:]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        wanted = Wanted(tf.constant(TARGET), PAD, label_smoothing)
        compared = divergences.Compared(alpha, taught)
        found = divergences.diverging_cross_entropy(logits, wanted, compared)
    return found, tape.gradient(found[0], logits).numpy().reshape(shape)


def plain(logits, label_smoothing=0.1):
    wanted = Wanted(tf.constant(TARGET), PAD, label_smoothing)
    return np.array(smoothed_cross_entropy(tf.constant(logits, tf.float32), wanted))


def test_with_alpha_0_the_loss_is_the_mean_of_two_passes():
    found, _ = of_logits(LOGITS, alpha=0.0)
    np.testing.assert_allclose(found, (plain(LOGITS[0]) + plain(LOGITS[1])) / 2, rtol=1e-5)


def test_equal_passes_have_the_plain_loss():
    found, gradient = of_logits(np.stack([LOGITS[0]] * 2), alpha=5.0)
    np.testing.assert_allclose(found, plain(LOGITS[0]), rtol=1e-5)
    np.testing.assert_allclose(gradient[0], gradient[1], atol=1e-6)


def test_divergence_of_two_passes_and_its_gradients_are_those_of_the_paper():
    """KL(p||q) has the gradients p (log p/q - KL(p||q)) and q - p by the logits of p and q."""
    alpha = 3.0
    p, q = softmax(LOGITS)
    of_p, of_q = ((x * np.log(x / y)).sum(-1, keepdims=True) for x, y in ((p, q), (q, p)))
    found, gradient = of_logits(LOGITS, alpha)
    without, before = of_logits(LOGITS, alpha=0.0)
    expected = alpha / 4 * ((of_p + of_q) * REAL).sum()
    np.testing.assert_allclose(found[0] - without[0], expected, rtol=1e-5)
    by_p = p * (np.log(p / q) - of_p) + p - q
    by_q = q * (np.log(q / p) - of_q) + q - p
    expected = alpha / 4 * np.stack([by_p, by_q]) * REAL
    np.testing.assert_allclose(gradient - before, expected, atol=1e-5)


OF_TEACHER = RNG.normal(size=LOGITS[0].shape) * 2
TAUGHT = Taught(0.25, tf.constant(OF_TEACHER, tf.float32), tf.nn.log_softmax)


@pytest.mark.parametrize("alpha", [None, 3.0], ids=["one pass", "R-Drop"])
def test_distillation_and_its_gradients_are_those_of_numpy(alpha):
    """KL(t || p) has the gradient p - t by the logits of p."""
    logits = LOGITS if alpha else LOGITS[:1]
    (loss, nll, _), gradient = of_logits(logits, alpha, taught=TAUGHT)
    (plain_loss, plain_nll, _), before = of_logits(logits, alpha)
    (without, *_), of_divergence = of_logits(logits, alpha and 0.0)
    divergence, of_divergence = plain_loss - without, before - of_divergence  # 0 without R-Drop.
    p, t, weight = softmax(logits), softmax(OF_TEACHER), TAUGHT.weight
    of_teacher = ((t * np.log(t / p)).sum(-1).mean(0) * REAL[..., 0]).sum()
    expected = (1 - weight) * without + weight * of_teacher + divergence
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(nll, plain_nll, rtol=1e-6)
    expected = (1 - weight) * (before - of_divergence) + of_divergence
    expected += weight * (p - t) / len(logits) * REAL
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def values_and_gradients(function, bias, dtype="float32", rest=(2.0,)):
    sources = [tf.cast(x, dtype) for x in (FEATURES, KERNEL, bias) if x is not None]
    with tf.GradientTape() as tape:
        for source in sources:
            tape.watch(source)
        features, kernel, *bias = sources
        weights = kernel, *(bias or [None])
        wanted = Wanted(tf.constant(TARGET), PAD, 0.1)
        values = function(features, weights, wanted, divergences.Compared(*rest))
        loss = 0.5 * values[0]
    return [*values, *tape.gradient(loss, sources)]


def held_at_once(features, weights, *rest):
    kernel, bias = weights
    logits = tf.matmul(features, kernel)
    logits = logits if bias is None else logits + bias
    return divergences.diverging_cross_entropy(logits, *rest)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("bias", [BIAS, None], ids=["bias", "no bias"])
@pytest.mark.parametrize("taught", [None, TAUGHT], ids=["no teacher", "teacher"])
def test_projected_loss_and_its_gradients_are_those_of_the_logits(rows, bias, taught, monkeypatch):
    monkeypatch.setattr(losses, "_LOGITS", 0)
    monkeypatch.setattr(losses, "_ROWS", rows)
    rest = 2.0, taught
    found = values_and_gradients(divergences.projected_diverging_cross_entropy, bias, rest=rest)
    expected = values_and_gradients(held_at_once, bias, rest=rest)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_gradients_have_the_dtype_of_what_they_are_of():
    function = divergences.projected_diverging_cross_entropy
    *values, of_features, of_kernel, of_bias = values_and_gradients(function, BIAS, "bfloat16")
    assert {x.dtype for x in values} == {tf.float32}
    assert {x.dtype for x in (of_features, of_kernel, of_bias)} == {tf.bfloat16}
    exact = values_and_gradients(function, BIAS)
    np.testing.assert_allclose(tf.cast(of_kernel, tf.float32), exact[4], atol=0.15)


SOURCE = np.array([[5, 6, 4, 3], [6, 3, 0, 0]], np.int32)


def update_of(dropout, alpha, preset="transformer_tiny", **settings):
    keras.utils.set_random_seed(0)
    if preset == "transformer_tiny":
        settings = {**SMALL, **settings, "dropout": dropout}
    model = models.create(preset, 11, 11, **settings)
    return Gradient(model, keras.optimizers.SGD(1.0), clip_norm=0, r_drop=alpha)


@pytest.fixture(scope="module")
def batch():
    return {"source_ids": tf.constant(SOURCE), "target_ids": tf.constant(TARGET)}


def gradients(update, batch):
    found, sums = update.gradients(batch)
    return np.concatenate([np.ravel(g) for g in found]), sums.numpy()


@pytest.mark.parametrize("preset", ["transformer_tiny", "attention_ibm2"])
def test_without_dropout_the_gradient_is_the_plain_one(preset, batch):
    plain, sums = gradients(update_of(0.0, 0.0, preset), batch)
    found, found_sums = gradients(update_of(0.0, 5.0, preset), batch)
    np.testing.assert_allclose(found, plain, atol=2e-5)
    np.testing.assert_allclose(found_sums, sums, rtol=1e-5)


def test_with_dropout_the_passes_differ_and_validation_has_one(batch):
    update = update_of(0.5, 5.0)
    _, (tokens, loss, _, _) = gradients(update, batch)
    assert tokens == (TARGET != PAD).sum()
    twin = update_of(0.5, 1e-6)
    _, (_, without, _, _) = gradients(twin, batch)  # The same dropout, from the same seed.
    assert loss > without + 0.01
    plain = update_of(0.5, 0.0)
    expected = plain.evaluate(batch)["loss"]
    np.testing.assert_allclose(update.evaluate(batch)["loss"], expected, rtol=1e-6)


def test_both_passes_read_the_same_tokens_where_tokens_are_dropped(batch):
    """Without the network's dropout, equal inputs have no divergence."""
    found = []
    for alpha in (0.0, 5.0):
        update = update_of(0.0, alpha)
        update.token_dropout = TokenDropout(0.5)
        found.append(gradients(update, batch)[1])
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_batches_of_one_update_count_as_one_large_batch(batch):
    first, second = ({k: v[i : i + 1] for k, v in batch.items()} for i in (0, 1))
    results = []
    for parts in ([batch], [first, second]):
        update = update_of(0.0, 5.0)
        metrics = update.step(*parts)
        results.append([*np.ravel([*metrics.values()]), *map(np.sum, update.model.get_weights())])
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-4)


def distilled(preset, weight, teacher=None, **settings):
    """Returns an update with a teacher of that weight; the teacher is its own model by default."""
    update = update_of(0.0, 0.0, preset, **settings)
    update.teacher = Teacher(teacher or update.model, weight)
    return update


@pytest.mark.parametrize("preset", ["transformer_tiny", "attention_ibm2"])
def test_a_model_learns_nothing_new_from_itself(preset, batch):
    plain, (tokens, loss, nll, _) = gradients(update_of(0.0, 0.0, preset), batch)
    found, sums = gradients(distilled(preset, 0.75), batch)
    np.testing.assert_allclose(found, 0.25 * plain, atol=1e-6)
    np.testing.assert_allclose(sums, [tokens, 0.25 * loss, nll, tokens], rtol=1e-5)


@pytest.mark.parametrize("preset", ["transformer_tiny", "lstm_luong"])
def test_a_teacher_predicts_as_it_translates_without_dropout(preset, batch):
    keras.utils.set_random_seed(0)
    settings = {**small_settings(preset), "dropout": 0.5}
    model = models.create(preset, 11, 11, **settings)
    for weight in model.trainable_variables:  # Fresh biases are 0, which would hide a lost one.
        weight.assign_add(tf.constant(RNG.normal(size=weight.shape) * 0.2, weight.dtype))
    ids = batch["target_ids"]
    inputs = {"source_ids": batch["source_ids"], "target_in_ids": models.shift_right(ids, 2)}
    taught = Teacher(model, 1.0).predict(inputs)
    expected = tf.nn.log_softmax(model(inputs, training=False))
    np.testing.assert_allclose(taught.log_probs(taught.outputs), expected, atol=1e-5)


def test_a_teacher_reads_the_tokens_that_its_student_does_not_see(batch):
    update = distilled("transformer_tiny", 1.0)
    update.token_dropout = TokenDropout(1.0)
    _, (_, loss, _, _) = gradients(update, batch)
    ids = batch["target_ids"]
    read = {"source_ids": batch["source_ids"], "target_in_ids": models.shift_right(ids, 2)}
    seen = {name: tf.where(x > 3, 1, x) for name, x in read.items()}
    t, p = (softmax(update.model(inputs).numpy()) for inputs in (read, seen))
    expected = (t * np.log(t / p) * REAL).sum()
    assert expected > 1e-3
    np.testing.assert_allclose(loss, expected, rtol=1e-3)


def test_a_student_comes_to_predict_what_its_teacher_predicts(batch):
    keras.utils.set_random_seed(5)
    members = [models.create("attention_ibm2", 11, 11, width=8) for _ in range(2)]
    members.append(models.create("transformer_tiny", 11, 11, **{**SMALL, "dropout": 0.5}))
    teacher = Ensemble(members)
    before = [w.numpy() for w in teacher.weights]
    update = distilled("transformer_tiny", 1.0, teacher)
    losses = [update.step(batch)["loss"][0].numpy() for _ in range(150)]
    assert losses[-1] < 0.2 * losses[0] and min(losses) > -1e-5
    for weight, value in zip(teacher.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_projected_loss_is_the_same_compiled():
    expected = values_and_gradients(divergences.projected_diverging_cross_entropy, BIAS)

    @tf.function(jit_compile=True, autograph=False)
    def compiled():
        return values_and_gradients(divergences.projected_diverging_cross_entropy, BIAS)

    for one, other in zip(compiled(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_updates_in_16_bits_are_close_to_those_of_float32(precision, batch):
    exact, _ = gradients(update_of(0.0, 5.0), batch)
    found, _ = gradients(update_of(0.0, 5.0, dtype=precision), batch)
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)
