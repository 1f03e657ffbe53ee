"""Updates with distillation from a teacher."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models.combination import Ensemble
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.teacher import Teacher
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout
from tests.tiny import SMALL, small_settings
from tests.unit.models.layers_test import softmax

pytestmark = pytest.mark.usefixtures("eagerly")

PAD = 0
TARGET = np.array([[5, 2, 6, 3], [4, 3, 0, 0]], np.int32)
REAL = (TARGET != PAD)[..., None]
RNG = np.random.default_rng(0)


SOURCE = np.array([[5, 6, 4, 3], [6, 3, 0, 0]], np.int32)


@pytest.fixture(scope="module")
def batch():
    return {"source_ids": tf.constant(SOURCE), "target_ids": tf.constant(TARGET)}


def gradients(update, batch):
    found, sums = update.gradients(batch)
    return np.concatenate([np.ravel(g) for g in found]), sums.numpy()


def distilled(teacher=None):
    """Returns an update that learns from a teacher alone, by default from its own model."""
    keras.utils.set_random_seed(0)
    model = models.create("transformer_tiny", 11, 11, **{**SMALL, "dropout": 0.0})
    teacher = Teacher(teacher or model, 1.0)
    return Gradient(model, keras.optimizers.SGD(1.0), clip_norm=0, teacher=teacher)


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
    update = distilled()
    update.token_dropout = TokenDropout(1.0)
    _, (_, loss, _, _) = gradients(update, batch)
    ids = batch["target_ids"]
    read = {"source_ids": batch["source_ids"], "target_in_ids": models.shift_right(ids, 2)}
    seen = {name: tf.where(x > 3, 1, x) for name, x in read.items()}
    t, p = (softmax(update.model(inputs).numpy()) for inputs in (read, seen))
    expected = (t * np.log(t / p) * REAL).sum()
    assert expected > 1e-3
    np.testing.assert_allclose(loss, expected, rtol=1e-3)


def test_a_student_comes_nearer_to_its_teachers_and_leaves_them_as_they_are(batch):
    keras.utils.set_random_seed(5)
    members = [models.create("attention_ibm2", 11, 11, width=8) for _ in range(2)]
    members.append(models.create("transformer_tiny", 11, 11, **{**SMALL, "dropout": 0.5}))
    teacher = Ensemble(members)
    before = [w.numpy() for w in teacher.weights]
    update = distilled(teacher)
    update.optimizer = keras.optimizers.SGD(0.1)
    losses = [update.step(batch)["loss"][0].numpy() for _ in range(3)]
    assert losses[0] > losses[1] > losses[2] > 0
    for weight, value in zip(teacher.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
