"""Fixtures that several rooms' tests share."""

import errno
import fcntl
import gc
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Folders whose tests take long: they begin, so that no worker is left with one of them at the end.
LONGEST_FIRST = ("scripts", "faults", "hostile", "models", "training")
# Fixtures of a module that are made anew for each preset.
PER_PRESET = ("trained", "case")


def _two_devices():
    import tensorflow as tf

    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)


def pytest_configure(config):
    """Starts TensorFlow; for tests of replicas, with a processor that is shared out to two devices.

    That can be said only once in a process, and makes all other tests slower. A process that leaves
    all tests to its workers starts nothing.
    """
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    from command_line import quiet  # Before all that imports TensorFlow.

    replicas = config.option.markexpr == "replicas"
    quiet.start(before=_two_devices if replicas else lambda: None)
    import tensorflow as tf

    # Models of a few weights run once or twice: rewriting their graphs takes longer than it saves.
    # Tests that start processes of their own have graphs rewritten as users have.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.freeze()  # Modules are no garbage, and need not be searched for it again and again.


def pytest_collection_modifyitems(config, items):
    """Skips tests of replicas where there is one device; says for xdist what runs together."""
    skip = pytest.mark.skip(reason="one device; run by `pytest -m replicas`")
    for item in items:
        if "replicas" in item.keywords and config.option.markexpr != "replicas":
            item.add_marker(skip)
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(HERE).parts[0], len(order)))


def _group(item):
    """The file of a test; where its module trains or makes a model per preset, the preset, too."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    presets = [str(parameters[name]) for name in PER_PRESET if name in parameters]
    return "-".join([item.nodeid.partition("::")[0], *presets])


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def without_locks(request, monkeypatch):
    """Every lock fails as on network file systems that have none."""

    def fail(file, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    import keras

    keras.utils.set_random_seed(7)
