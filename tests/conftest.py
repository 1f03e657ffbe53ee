"""Starts TensorFlow for the tests, and fixtures that several rooms share."""

import contextlib
import errno
import fcntl
import gc
import os
import resource
import signal

import pytest


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
    from nmt_zoo.common import process  # Before every module that imports TensorFlow.

    replicas = config.option.markexpr == "replicas"
    process.start_tensorflow(before=_two_devices if replicas else lambda: None)
    import tensorflow as tf

    # Models of a few weights run once or twice: optimising their graphs takes longer than it saves.
    # Processes that tests start optimise graphs, as for users.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.freeze()  # So that garbage collection does not search all imported modules every time.


def pytest_collection_modifyitems(config, items):
    """Skips tests of replicas if there is one device."""
    if config.option.markexpr != "replicas":
        skip = pytest.mark.skip(reason="one device; run by `pytest -m replicas`")
        for item in items:
            if "replicas" in item.keywords:
                item.add_marker(skip)


@pytest.fixture
def full_disk():
    """A context manager that limits the size of every file, which fails as a full disk does."""

    @contextlib.contextmanager
    def limited(free_bytes=0):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture
def without_locks(monkeypatch):
    """Makes every lock fail as on network file systems without locks."""

    def fail(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.fixture
def eagerly(request):
    """Runs functions without tracing them, which is faster for those that are called once."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(not request.node.get_closest_marker("slow"))
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def all_eagerly():
    """Runs functions without tracing them, also where the fixtures of a file train its models."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def browser():
    from tests.browser import chromium

    with chromium() as driver:
        yield driver


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    import keras

    keras.utils.set_random_seed(7)


@pytest.fixture(autouse=True, scope="module")
def _memory_of_a_module():
    """Frees the graphs that the tests of a module have traced, about 50 MB for every training."""
    from nmt_zoo.common import process

    with process.temporary_graphs():
        yield
