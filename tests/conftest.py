"""Fixtures that several rooms' tests share."""

import errno
import fcntl
import os

from command_line import quiet  # before all that imports TensorFlow

# isort: split

import keras
import pytest
import tensorflow as tf


def _two_devices():
    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)


def pytest_configure(config):
    """Starts TensorFlow; for tests of replicas, with a processor that is shared out to two devices.

    That can be said only once in a process, and makes all other tests slower.
    """
    if config.option.markexpr == "replicas":
        quiet.start(before=_two_devices)
    else:
        quiet.start()


def pytest_collection_modifyitems(config, items):
    """Skips tests of replicas where there is one device."""
    if config.option.markexpr != "replicas":
        skip = pytest.mark.skip(reason="one device; run by `pytest -m replicas`")
        for item in items:
            if "replicas" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def without_locks(request, monkeypatch):
    """Every lock fails as on network file systems that have none."""

    def fail(file, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    keras.utils.set_random_seed(7)
