"""Fixtures that the tests of several packages share."""

import errno
import fcntl
import gc
import os
import signal
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Folders whose tests take long: they run first, so that at the end no worker runs one while all
# others are idle.
LONGEST_FIRST = ("scripts", "faults", "hostile", "models", "training")
# Module-scoped fixtures that are made once for each preset.
PER_PRESET = ("trained", "case")


def _two_devices():
    import tensorflow as tf

    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)


def pytest_configure(config):
    """Starts TensorFlow; for tests of replicas, with the processor split into two devices.

    The split can be set only once in a process, and makes all other tests slower. A process that
    leaves all tests to its workers does not start TensorFlow.
    """
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    # More threads cost more than they save on models of a few weights, also in processes that tests
    # start.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    # A shell starts a command in the background with Ctrl-C ignored, and so would be all processes
    # that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from nmt_zoo.command_line import quiet  # Before every module that imports TensorFlow.

    replicas = config.option.markexpr == "replicas"
    quiet.start(before=_two_devices if replicas else lambda: None)
    import tensorflow as tf

    # Models of a few weights run once or twice: optimising their graphs takes longer than it saves.
    # Processes that tests start optimise graphs, as for users.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.freeze()  # So that garbage collection does not search all imported modules every time.


@pytest.hookimpl(tryfirst=True)  # xdist must find the groups when its own hook is called.
def pytest_collection_modifyitems(config, items):
    """Skips tests of replicas if there is one device; groups tests for xdist; sorts the folders."""
    skip = pytest.mark.skip(reason="one device; run by `pytest -m replicas`")
    for item in items:
        if "replicas" in item.keywords and config.option.markexpr != "replicas":
            item.add_marker(skip)
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(HERE).parts[0], len(order)))


@pytest.hookimpl(optionalhook=True)  # Only xdist has it.
def pytest_xdist_node_collection_finished(node, ids):
    """Stops a run if xdist does not see the groups, because all workers would make all fixtures."""
    if node.config.option.dist == "loadgroup" and not all("@" in each for each in ids):
        pytest.exit("xdist ignores the groups of tests; install requirements-dev.txt", 4)


def _group(item):
    """Returns the file of a test, and the preset if its module makes a model for each preset."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    presets = [str(parameters[name]) for name in PER_PRESET if name in parameters]
    return "-".join([item.nodeid.partition("::")[0], *presets])


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def without_locks(request, monkeypatch):
    """Makes every lock fail as on network file systems without locks."""

    def fail(file, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    import keras

    keras.utils.set_random_seed(7)
