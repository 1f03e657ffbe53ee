"""Starts the process of a script: its streams, Ctrl-C, and TensorFlow without its messages."""

import contextlib
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

BEGAN = time.monotonic()  # About the start of the process: --max_minutes counts from here.


def start(*, tensorflow: bool = True, small_operations: bool = False) -> None:
    """Prepares the process of a script; call this before anything imports TensorFlow.

    Gives closed standard streams a file descriptor, and makes Ctrl-C during imports end the script
    with one word. Programs with signal handlers of their own keep them. `tensorflow` imports
    TensorFlow now; `small_operations` makes it run many small operations fast, as a search needs.
    """
    _hold_closed_streams()
    _end_on_interrupts()
    # oneDNN prepares each matrix product for its sizes, which change at every step of a search: it
    # is slower than TensorFlow's own product unless matrices are large, except in bfloat16, for
    # which TensorFlow has no fast product of its own.
    in_bfloat16 = re.search("(^| )--?precision[= ]bfloat16( |$)", " ".join(sys.argv))
    if small_operations and not in_bfloat16:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if tensorflow and "tensorflow" not in sys.modules:
        _import_tensorflow()


def start_tensorflow(intra_op_threads: int = 0, before: Callable[[], Any] = lambda: None) -> Any:
    """Starts TensorFlow's run-time. Call this once, before the first operation.

    `intra_op_threads` is the number of threads for one operation; 0 leaves the choice to
    TensorFlow, which takes all cores, or as many as the variable TF_NUM_INTRAOP_THREADS sets.
    `before` is called before the first operation, and its result returned.
    """
    if "tensorflow" not in sys.modules:
        _import_tensorflow()
    import tensorflow as tf

    if intra_op_threads:
        # Fails if the run-time has already started, as in tests; its threads then stay unchanged.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(intra_op_threads)
    with silence():
        done = before()
        tf.constant(0)
    return done


@contextlib.contextmanager
def silence() -> Iterator[None]:
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


def _import_tensorflow():
    """Imports TensorFlow without its start-up messages.

    It writes several lines about oneDNN and absent GPUs to file descriptor 2 during its import, and
    again when its run-time starts, before any of its own settings takes effect.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Keras imports matplotlib if it is installed, for pictures that are not needed here. This would
    # take a sixth of the start-up time; searching the many new objects for garbage, a quarter.
    gc.disable()
    is_hidden = sys.modules.setdefault("matplotlib", None) is None  # pyright: ignore[reportArgumentType, reportCallIssue]
    with silence():
        import tensorflow as tf

        # Finds GPUs silently: otherwise absl's `app.run` makes TensorFlow do so with messages.
        tf.config.list_physical_devices()
    if is_hidden:
        del sys.modules["matplotlib"]
    gc.freeze()
    gc.enable()
    tf.get_logger().setLevel("WARNING")


def _hold_closed_streams():
    """Opens /dev/null for each closed standard stream, so that using the stream is still an error.

    /dev/null is opened for writing in place of input, and for reading in place of output. Without
    this, the next file to be opened would get the free number, and printed text would be written
    into that file.
    """
    ways = ("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_RDONLY, "w")
    for number, (name, flags, mode) in enumerate(ways):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _end_on_interrupts():
    """Ends the process at Ctrl-C, with nothing to clean up, until the script handles the signal.

    Does nothing in a program that has imported TensorFlow or has signal handlers of its own.
    """
    if (
        "tensorflow" in sys.modules
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        return
    terminal, others = os.dup(2), sys.unraisablehook  # `silence` redirects 2.

    def end(*_):
        with contextlib.suppress(OSError):
            os.write(terminal, b"interrupted\n")
        os._exit(128 + signal.SIGINT)

    def end_if_lost(unraisable):  # In a finaliser, from which no exception propagates.
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            end()
        others(unraisable)

    signal.signal(signal.SIGINT, end)
    sys.unraisablehook = end_if_lost


@contextlib.contextmanager
def temporary_graphs() -> Iterator[None]:
    """Frees the graphs that the `with` block has traced, with the variables that they use.

    TensorFlow keeps every traced `custom_gradient`, and so its graph, for gradients of the graph.
    Of graphs of the block that are still in use, no further gradient can be taken.
    """
    from tensorflow.python.framework.ops import gradient_registry  # Nothing public does the same.

    before = {*gradient_registry.list()}
    try:
        yield
    finally:
        for name in {*gradient_registry.list()} - before:
            if name.startswith("CustomGradient-"):
                del gradient_registry._registry[name]
        gc.collect()
