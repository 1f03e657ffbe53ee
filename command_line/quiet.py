"""TensorFlow without its greetings. To be imported before anything else that imports it.

TensorFlow writes several lines about oneDNN and absent GPUs to file descriptor 2 while it is
imported, and again when its run-time starts, before any setting of its own counts. What goes wrong
still raises as usual.
"""

import contextlib
import os
import time

BEGAN = time.monotonic()  # About when the process did: --max_minutes counts from here.


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

    tf.config.list_physical_devices()  # Or absl's `app.run` makes TensorFlow look for a GPU, aloud.

tf.get_logger().setLevel("WARNING")


def start(intra_op_threads=0, before=lambda: None):
    """Starts TensorFlow's run-time. To be called once, before the first operation.

    Args:
        intra_op_threads: how many threads work on one operation; 0 leaves the choice to TensorFlow,
            which takes all cores, or as many as the variable TF_NUM_INTRAOP_THREADS says.
        before: what is to be done before the first operation.

    Returns:
        What `before` returns.
    """
    if intra_op_threads:
        # Of a run-time that has started, as in a process of tests, threads stay as they are.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(intra_op_threads)
    with _silence():
        done = before()
        tf.constant(0)
    return done
