"""Replicas on two logical devices of the processor: they do what one device would."""

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import models
from data_pipeline.batching import plan_epoch
from data_pipeline.files import UserError
from training import recipes
from training.distribution import Replicas, read_cluster, start_replicas
from training.replicas import ReplicaAdam, ReplicatedGradientUpdate, Share, places
from training.updates import GradientUpdate, adam

OF_ADAM = {"learning_rate": 1e-2, "warmup_steps": 5, "weight_decay": 0.1, "schedule": "plateau"}


@pytest.fixture(scope="module")
def two():
    return start_replicas(recipes.options("transformer_tiny", "demo", {}), "mirrored", 2)


def create_update(replicas, dropout=0.0, **settings):
    keras.utils.set_random_seed(1)
    sizes = {"width": 8, "num_heads": 2, "ffn_width": 8, "dropout": dropout}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    with replicas.scope():
        model = models.create("transformer_tiny", 11, 11, **sizes, **layers)
        if replicas.strategy is None:
            return GradientUpdate(model, adam(**OF_ADAM), **settings)
        optimizer = adam(**OF_ADAM, kind=ReplicaAdam)
        return ReplicatedGradientUpdate(model, optimizer, replicas=replicas, **settings)


def random_batches(count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        batch = {}
        rows = rng.integers(1, 5)
        for name in ("source_ids", "target_ids"):
            ids = rng.integers(4, 11, (rows, rng.integers(2, 7)))
            ids[:, -1] = 3
            batch[name] = tf.constant(ids, tf.int32)
        yield batch


def share(*batches):
    return Share(batches, np.ones(len(batches), np.float32), None)


def copies_are_equal(update):
    for name, variable in update.variables().items():
        value = getattr(variable, "value", variable)
        first, second = value.values if hasattr(value, "values") else value().values
        np.testing.assert_array_equal(first, second, err_msg=name)


def test_replicas_make_the_updates_of_one_device_that_has_all_their_batches(two):
    settings = {"clip_norm": 0.5, "ema_decay": 0.9}
    one, both = (create_update(replicas, **settings) for replicas in (Replicas(), two))
    left = random_batches(60)
    for step in range(20):
        group = list(itertools.islice(left, 4 if step % 2 else 2))
        expected = one.step(*group)
        found = both.step(*(share(*group[i : i + 2]) for i in range(0, len(group), 2)))
        for name, (amount, count) in expected.items():
            np.testing.assert_allclose(found[name][0], amount, rtol=1e-5, err_msg=name)
            assert found[name][1] == count
        if step == 10:
            for update in (one, both):
                update.after_validation(2)
    assert one.rates() == both.rates()
    # What a softmax does not depend on has a gradient of rounding errors, which Adam makes large.
    expected, found = (update.variables() for update in (one, both))
    assert expected.keys() == found.keys()
    for name in expected:
        if "key/bias" not in name and name.startswith("model/"):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    batch = next(random_batches(1))
    for update in (one, both):
        update.average.in_place().__enter__()
    for name, both_sums in one.evaluate(batch).items():
        np.testing.assert_allclose(both.evaluate(batch)[name], both_sums, rtol=1e-5)


def test_a_batch_that_fills_a_place_counts_nothing(two):
    one, both = (create_update(replicas) for replicas in (Replicas(), two))
    batch, other = random_batches(2)
    expected = one.step(batch)
    found = both.step(Share([batch, other], np.array([1, 0], np.float32), None))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_dropout_differs_between_replicas_and_their_seeds_go_on_as_one(two):
    one, both = (create_update(replicas, dropout=0.5) for replicas in (Replicas(), two))
    (batch,) = random_batches(1)
    of_first = float(one.step(batch)["loss"][0])
    of_second = float(both.step(share(batch, batch))["loss"][0]) - of_first
    assert abs(of_first - of_second) > 1e-3
    copies_are_equal(both)
    for name, seed in one.variables().items():
        if name.startswith("seed/"):
            np.testing.assert_array_equal(both.variables()[name], seed)


def test_a_gradient_of_one_replica_that_is_not_finite_makes_all_skip(two):
    update = create_update(two)
    good, bad = random_batches(2)
    (table,) = update.model.source_embedding.trainable_variables
    bad = {**bad, "source_ids": tf.zeros_like(bad["source_ids"]) + 1}
    rows = table.numpy()
    rows[1] = np.inf
    table.assign(rows)
    before = [np.array(v) for v in update.model.trainable_variables]
    found = update.step(share(good, bad))
    assert float(found["skipped"][0]) == 1.0 and int(update.optimizer.iterations) == 0
    for a, b in zip(update.model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_options_of_an_update_go_with_replicas(two):
    with two.scope():
        keras.config.set_dtype_policy("mixed_float16")
    try:
        update = create_update(two, dropout=0.1, ema_decay=0.9, jit_compile=True)
    finally:
        keras.config.set_dtype_policy("float32")
    batches = [next(random_batches(1))] * 4
    losses = []
    for _ in range(3):
        found = update.step(share(*batches[:2]), share(*batches[2:]))
        losses.append(float(found["loss"][0]))
    assert np.isfinite(losses).all()
    copies_are_equal(update)


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 4])
def test_replicas_take_every_batch_once_and_as_many(num_replicas):
    for first, last in itertools.product(range(4), range(4, 12)):
        numbers, weights = places(last, first, num_replicas)
        assert numbers.shape == weights.shape == (-(-(last - first) // num_replicas), num_replicas)
        np.testing.assert_array_equal(numbers[weights > 0], np.arange(first, last))
        assert (numbers[weights == 0] == last - 1).all()


def test_batches_of_a_step_are_of_similar_length():
    lengths = np.random.default_rng(0).integers(2, 40, (2, 2000))
    plan = plan_epoch(*lengths, 200, seed=1, num_workers=4)
    widths = plan.padded_shapes(*lengths)[:, 1:].max(axis=1).reshape(-1, 4)
    assert np.ptp(widths, axis=1).mean() < 2


BAD = {
    "": "it is not set",
    "{": "found '{'",
    "[]": "found",
    '{"cluster": {"worker": ["a:1"]}}': "found",
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}': "found",
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}': "found",
    '{"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 0}}': "found",
}


@pytest.mark.parametrize("text", BAD)
def test_a_cluster_that_says_too_little_is_refused(text):
    with pytest.raises(UserError, match=rf"TF_CONFIG .*: {BAD[text]}.*expected"):
        read_cluster(text)


def test_the_chief_is_the_first_worker():
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    for number, (kind, index) in enumerate([("chief", 0), ("worker", 0), ("worker", 1)]):
        task = {"type": kind, "index": index}
        assert read_cluster(json.dumps({"cluster": cluster, "task": task})) == (3, number)


UNFIT = {
    "counts": (("mirrored",), {"update": "em"}, "give --update=gradient"),
    "any shape": (("tpu",), {}, "needs --pad_to_bucket"),
    "no TPU": (("tpu",), {"pad_to_bucket": True}, "no TPU found"),
    "one of many": (("none", 2), {}, "goes with --distribution=mirrored"),
    "address of a GPU": (("mirrored", 0, "x"), {}, "goes with --distribution=tpu"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_devices_that_do_not_fit_are_refused(name):
    devices, given, message = UNFIT[name]
    options = {**recipes.options("ibm1", "demo", {"update": "gradient"}), **given}
    with pytest.raises(UserError, match=message):
        start_replicas(options, *devices)
