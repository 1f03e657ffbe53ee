"""Guided alignment: the attention of a model is trained on the alignments of another."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.guided_alignment import Guide, cross_entropy
from tests.tiny import SMALL, small_settings
from tests.unit.models.layers_test import softmax

pytestmark = pytest.mark.usefixtures("eagerly")

PAD, V = 0, 11
BATCH = {
    "source_ids": tf.constant([[5, 6, 4, 9, 3], [6, 3, 0, 0, 0]]),
    "target_ids": tf.constant([[5, 2, 6, 3], [4, 3, 0, 0]]),
}
REAL = (BATCH["target_ids"].numpy() != PAD).astype(np.float32)
# Models of each class whose attention can be guided, one with its source reversed.
GUIDED = {
    "transformer_tiny": {**SMALL, "dropout": 0.0, "alignment_head": "first"},
    "transformer_simple": {**small_settings("transformer_simple"), "dropout": 0.0},
    "lstm_luong": {
        **small_settings("lstm_luong"),
        **dict.fromkeys(("dropout", "embedding_dropout", "output_dropout"), 0.0),
        "reverse_source": True,
    },
}


@pytest.fixture(scope="module")
def aligner():
    keras.utils.set_random_seed(3)
    model = models.create("hmm_alignment", V, V)
    logits = model.table.logits
    logits.assign(2 * np.random.default_rng(0).normal(size=logits.shape))
    return model


def test_cross_entropy_and_its_gradient_are_those_of_the_papers():
    """By its scores, a softmax has the gradient a - p."""
    rng = np.random.default_rng(1)
    scores = 3 * rng.normal(size=(*REAL.shape, 5)).astype(np.float32)
    alignment = softmax(3 * rng.normal(size=(*REAL.shape, 5))).astype(np.float32)
    variable = tf.Variable(scores)
    with tf.GradientTape() as tape:
        found = cross_entropy(tf.nn.softmax(variable), tf.constant(alignment), tf.constant(REAL))
    nll = -(alignment * np.log(softmax(scores))).sum(-1)
    np.testing.assert_allclose(found, (nll * REAL).sum(), rtol=1e-5)
    expected = (softmax(scores) - alignment) * REAL[..., None]
    np.testing.assert_allclose(tape.gradient(found, variable), expected, atol=1e-5)


def test_an_attention_of_0_gives_a_finite_loss_and_gradient():
    attention = tf.Variable([[[1.0, 0.0]]])
    with tf.GradientTape() as tape:
        loss = cross_entropy(attention, tf.constant([[[0.5, 0.5]]]), tf.ones([1, 1]))
    assert 10 < loss < 20
    assert np.isfinite(tape.gradient(loss, attention)).all()


def update_of(preset="transformer_tiny", guide=None, settings=None, **options):
    keras.utils.set_random_seed(0)
    model = models.create(preset, V, V, **{**GUIDED[preset], **(settings or {})})
    generator = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign_add(generator.normal(size=weight.shape) * 0.2)
    return Gradient(model, keras.optimizers.SGD(1.0), clip_norm=0, guide=guide, **options)


def gradients(update):
    found, sums = update.gradients(BATCH)
    return np.concatenate([np.ravel(g) for g in found]), sums.numpy()


@pytest.mark.parametrize("preset", GUIDED)
def test_the_loss_adds_the_attention_that_aligns_to_the_loss_of_words(preset, aligner):
    plain, guided = (update_of(preset, guide) for guide in (None, Guide(aligner, 0.7)))
    ids = BATCH["source_ids"], BATCH["target_ids"]
    attention, alignment = (m.align(*ids).numpy() for m in (plain.model, aligner))
    nll = -(alignment * np.log(np.maximum(attention, 1e-12))).sum(-1)
    before, (_, without, nll_without, _) = gradients(plain)
    after, (tokens, loss, nll_with, _) = gradients(guided)
    assert tokens == REAL.sum()
    np.testing.assert_allclose(loss - without, 0.7 * (nll * REAL).sum(), rtol=1e-4)
    np.testing.assert_allclose(nll_with, nll_without, rtol=1e-5)
    assert np.linalg.norm(after - before) > 1e-3
    plain_nll, guided_nll = (update.evaluate(BATCH)["nll"][0] for update in (plain, guided))
    np.testing.assert_allclose(guided_nll, plain_nll, rtol=1e-6)  # Words alone are validated.


def test_only_the_first_head_of_the_last_layer_but_one_is_guided(aligner):
    settings = {"num_decoder_layers": 3}
    plain, guided = (
        update_of(guide=guide, settings=settings) for guide in (None, Guide(aligner, 1.0))
    )
    layers = [update.gradients(BATCH)[0] for update in (plain, guided)]
    names = [weight.path for weight in plain.model.trainable_variables]
    changed = {
        name.split("/", 1)[1]: np.abs(after - before).max(axis=0) > 1e-7
        for name, before, after in zip(names, *layers, strict=True)
        if "cross_attention/query/kernel" in name or "decoder/layer_2" in name
    }
    queries = changed["decoder/layer_1/cross_attention/query/kernel"]
    assert queries[:8].all() and not queries[8:].any()  # 16 units, 2 heads.
    assert not any(np.any(c) for name, c in changed.items() if name.startswith("decoder/layer_2"))


def test_an_update_leaves_the_guide_as_it_is(aligner):
    before = [np.array(weight) for weight in aligner.weights]
    update = update_of(guide=Guide(aligner, 1.0))
    update.step(BATCH)
    for weight, value in zip(aligner.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert not any("table" in name for name in update.variables())
