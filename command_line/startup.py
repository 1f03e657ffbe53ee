"""Prepares the process before anything else is imported. Scripts import this first.

Gives closed standard streams a file descriptor, and makes Ctrl-C during imports end the script with
one word. Scripts that need TensorFlow import `command_line.quiet` next.
"""

import contextlib
import os
import signal
import sys
import threading


def _hold_closed_streams():
    """Opens /dev/null for each closed standard stream, so that using the stream is still an error.

    /dev/null is opened for writing in place of input, and for reading in place of output.

    Without this, the next file to be opened would get the free number, and printed text would be
    written into that file.
    """
    for number, (name, flags, mode) in enumerate(
        (
            ("stdin", os.O_WRONLY, "r"),
            ("stdout", os.O_RDONLY, "w"),
            ("stderr", os.O_RDONLY, "w"),
        )
    ):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _end(*_):
    """Ends the process at once: during an import there is nothing to clean up."""
    with contextlib.suppress(OSError):
        os.write(_TERMINAL, b"interrupted\n")
    os._exit(128 + signal.SIGINT)


def _end_on_interrupts():
    """Ends the process at Ctrl-C until `command_line.console` takes the signal over.

    Does nothing if another program, with signal handlers of its own, imports a script. That program
    has usually imported TensorFlow already.
    """
    if (
        "tensorflow" not in sys.modules
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _end)
        others, sys.unraisablehook = sys.unraisablehook, lambda it: _end_if_lost(it, others)


def _end_if_lost(unraisable, others):
    """Ends the process if Ctrl-C came during a finaliser, from which no exception propagates."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    others(unraisable)


_hold_closed_streams()
_TERMINAL = os.dup(2)  # `command_line.quiet` redirects 2 while TensorFlow is imported.
_end_on_interrupts()
