"""Imports TensorFlow without its start-up messages. Import this before all that imports TensorFlow.

TensorFlow writes several lines about oneDNN and absent GPUs to file descriptor 2 during its import,
and again when its run-time starts, before any of its own settings takes effect. Errors are raised
as usual.
"""

import contextlib
import gc
import os
import sys
import time

BEGAN = time.monotonic()  # About the start of the process: --max_minutes counts from here.


@contextlib.contextmanager
def silence():
    """Discards everything written to file descriptor 2, including output of C++ libraries."""
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@contextlib.contextmanager
def _without(module):
    """Makes imports of a module fail as if it were not installed, unless it has been imported."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None
    try:
        yield
    finally:
        del sys.modules[module]


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Keras imports matplotlib if it is installed, for pictures that are not needed here. This would
# take a sixth of the start-up time; searching the many new objects for garbage, a quarter.
gc.disable()
with silence(), _without("matplotlib"):
    import tensorflow as tf

    # Look for GPUs here, silently: otherwise absl's `app.run` makes TensorFlow do so with messages.
    tf.config.list_physical_devices()

gc.freeze()
gc.enable()
tf.get_logger().setLevel("WARNING")


def start(intra_op_threads=0, before=lambda: None):
    """Starts TensorFlow's run-time. Call this once, before the first operation.

    Args:
        intra_op_threads: number of threads for one operation; 0 leaves the choice to TensorFlow,
            which takes all cores, or as many as the variable TF_NUM_INTRAOP_THREADS sets.
        before: function that is called before the first operation.

    Returns:
        The result of `before`.
    """
    if intra_op_threads:
        # Fails if the run-time has already started, as in tests; its threads then stay unchanged.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(intra_op_threads)
    with silence():
        done = before()
        tf.constant(0)
    return done
