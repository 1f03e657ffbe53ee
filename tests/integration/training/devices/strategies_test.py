"""Replicas on two logical devices of the processor make the same updates as one device."""

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.batching import Batching, plan_epoch
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.devices.replicas import places
from nmt_zoo.training.devices.replicated_update import Share
from nmt_zoo.training.devices.strategies import read_cluster, start_devices
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout
from tests.tiny import SMALL

pytestmark = pytest.mark.replicas

OF_ADAM = {"learning_rate": 1e-2, "warmup_steps": 5, "weight_decay": 0.1, "schedule": "plateau"}


@pytest.fixture(scope="module")
def two():
    return start_devices(options_of("transformer_tiny", "demo", {}), "mirrored", 2)


def create_update(replicas, preset="attention_ibm2", sizes=None, drop_tokens=False, **settings):
    keras.utils.set_random_seed(1)
    with replicas.scope():
        settings["token_dropout"] = TokenDropout(0.5) if drop_tokens else None
        model = models.create(preset, 11, 11, **(sizes or {"width": 8}))
        optimizer = adam(**OF_ADAM, kind=replicas.make_adam)
        return replicas.replicate(Gradient(model, optimizer, **settings))


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
    return Share([*batches], np.ones(len(batches), np.float32), None, None)


def assert_copies_equal(update):
    for name, variable in update.variables().items():
        mirrored = variable.value if isinstance(variable, keras.Variable) else variable
        np.testing.assert_array_equal(*mirrored.values, err_msg=name)


@pytest.fixture(scope="module")
def updates(two):
    """The updates of one device and of two replicas."""
    settings = {"clip_norm": 0.5, "ema_decay": 0.9}
    return [create_update(replicas, **settings) for replicas in (OneDevice(), two)]


def test_replicas_make_the_updates_of_one_device_that_has_all_their_batches(updates):
    one, both = updates
    left = random_batches(60)
    for step in range(20):
        group = list(itertools.islice(left, 4 if step % 2 else 2))
        expected = one.step(*group)
        found = both.step(*(share(*group[i : i + 2]) for i in range(0, len(group), 2)))
        for name, (amount, count) in expected.items():
            np.testing.assert_allclose(found[name][0], amount, rtol=1e-5, err_msg=name)
            assert found[name][1] == count
        if step == 10:
            for update in updates:
                update.after_validation(2)
    assert one.rates() == both.rates()
    assert_copies_equal(both)
    expected, found = (update.variables() for update in updates)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    batch = next(random_batches(1))
    for name, (amount, _) in one.evaluate(batch).items():
        np.testing.assert_allclose(both.evaluate(batch)[name][0], amount, rtol=1e-5)


def test_a_batch_that_fills_a_place_counts_nothing(updates):
    one, both = updates
    one.model.set_weights(both.model.get_weights())
    batch, other = random_batches(2)
    expected = one.step(batch)
    found = both.step(Share([batch, other], np.array([1, 0], np.float32), None, None))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_a_gradient_of_one_replica_that_is_not_finite_makes_all_skip(updates):
    _, update = updates
    good, bad = random_batches(2)
    bad = {**bad, "source_ids": tf.ones_like(bad["source_ids"])}
    table = next(v for v in update.model.trainable_variables if v.shape == (11, 8))
    rows = table.numpy()
    table.assign(np.where(np.arange(11)[:, None] == 1, np.inf, rows))
    before = {name: np.array(v) for name, v in update.variables().items()}
    assert float(update.step(share(good, bad))["skipped"][0]) == 1.0
    for name, value in update.variables().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert_copies_equal(update)
    table.assign(rows)


@pytest.mark.parametrize(
    ("preset", "sizes"),
    [("transformer_tiny", {**SMALL, "dropout": 0.5}), ("attention_ibm2", {"width": 8})],
    ids=["layers", "tokens"],
)
@pytest.mark.usefixtures("eagerly")
def test_dropout_differs_between_replicas_and_scale_and_seeds_go_on_as_one(two, preset, sizes):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        preset = preset, sizes, "dropout" not in sizes
        one, both = (create_update(replicas, *preset) for replicas in (OneDevice(), two))
    finally:
        keras.config.set_dtype_policy("float32")
    (batch,) = random_batches(1)
    of_first = float(one.step(batch)["loss"][0])
    of_second = float(both.step(share(batch, batch))["loss"][0]) - of_first
    assert abs(of_first - of_second) > 1e-3
    assert_copies_equal(both)
    for name, value in one.variables().items():
        if name.startswith(("seed/", "loss_scale/", "token_dropout/")):
            np.testing.assert_array_equal(both.variables()[name], value)
    assert one.rates() == both.rates()


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 4])
def test_replicas_take_every_batch_once_and_as_many(num_replicas):
    for first, last in itertools.product(range(4), range(4, 12)):
        numbers, weights = places(last, first, num_replicas)
        assert numbers.shape == weights.shape == (-(-(last - first) // num_replicas), num_replicas)
        np.testing.assert_array_equal(numbers[weights > 0], np.arange(first, last))
        assert (numbers[weights == 0] == last - 1).all()


def test_batches_of_a_step_are_of_similar_length():
    lengths = np.random.default_rng(0).integers(2, 40, (2, 2000))
    plan = plan_epoch(*lengths, Batching(200, num_workers=4), seed=1)
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


def test_replicas_share_the_cores_of_a_processor(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(process, "start_tensorflow", lambda threads, before: threads)
    options = options_of("transformer_tiny", "demo", {})
    assert start_devices(options, "mirrored", 2) == max(num_cores() // 2, 1)
    assert start_devices(options, "none") == 0


UNFIT = {
    "counts": (("mirrored",), {"update": "em"}, "leave it out"),
    "any shape": (("tpu",), {}, "needs --pad_to_bucket"),
    "no TPU": (("tpu",), {"pad_to_bucket": True}, "no TPU found at 'local'.*TPUs not found"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_devices_that_do_not_fit_are_refused(name):
    devices, given, message = UNFIT[name]
    options = {**options_of("ibm1", "demo", {"update": "gradient"}), **given}
    with pytest.raises(UserError, match=message):
        start_devices(options, *devices)


def test_a_tpu_is_found_by_its_address_or_name(monkeypatch):
    asked = []

    def resolver(tpu):
        asked.append(tpu)
        raise ValueError

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    options = {**options_of("transformer_tiny", "demo", {}), "pad_to_bucket": True}
    for name in ("", "pod", "grpc://10.0.0.2:8470"):
        monkeypatch.setenv("TPU_NAME", name)
        with pytest.raises(UserError, match="no TPU found"):
            start_devices(options, "tpu")
    assert asked == ["local", "pod", "grpc://10.0.0.2:8470"]
