"""Imports TensorFlow without its start-up messages. Import this before all that imports TensorFlow.

TensorFlow writes several lines about oneDNN and absent GPUs to file descriptor 2 during its import,
and again when its run-time starts, before any of its own settings takes effect. Errors are raised
as usual.
"""

import contextlib
import os
import time

BEGAN = time.monotonic()  # About the start of the process: --max_minutes counts from here.


@contextlib.contextmanager
def _silence():
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with _silence():
    import tensorflow as tf

    # Look for GPUs here, silently: otherwise absl's `app.run` makes TensorFlow do so with messages.
    tf.config.list_physical_devices()

tf.get_logger().setLevel("WARNING")


def start(intra_op_threads=0, before=lambda: None):
    """Starts TensorFlow's run-time. Call this once, before the first operation.

    Args:
        intra_op_threads: number of threads for one operation; 0 leaves the choice to TensorFlow,
            which takes all cores, or as many as the variable TF_NUM_INTRAOP_THREADS sets.
        before: function that is called before the first operation.

    Returns:
        What `before` returns.
    """
    if intra_op_threads:
        # Fails if the run-time has already started, as in tests; its threads then stay unchanged.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(intra_op_threads)
    with _silence():
        done = before()
        tf.constant(0)
    return done
