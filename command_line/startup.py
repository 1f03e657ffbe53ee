"""What has to happen before anything else is imported. Scripts import this first, for its effects.

Standard streams that were closed get a place, and Ctrl-C ends a script that still imports with one
word. TensorFlow is imported last, by `command_line.quiet`.
"""

import contextlib
import os
import signal
import sys
import threading


def _hold_closed_streams():
    """Opens what is closed of the descriptors 0, 1 and 2 so that using it goes on failing.

    Otherwise the next file that is opened would get the number, and what is printed would end up
    in it.
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
    """Ends the process at once: in the middle of an import there is nothing to put in order."""
    with contextlib.suppress(OSError):
        os.write(_TERMINAL, b"interrupted\n")
    os._exit(128 + signal.SIGINT)


def _end_on_interrupts():
    """Ends the process at Ctrl-C until `command_line.console` takes the signal over.

    Not where somebody else's program, with signals of its own, imports a script: TensorFlow is
    there already then.
    """
    if (
        "tensorflow" not in sys.modules
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _end)
        others, sys.unraisablehook = sys.unraisablehook, lambda it: _end_if_lost(it, others)


def _end_if_lost(unraisable, others):
    """Ends the process where Ctrl-C came in a finaliser, from which no exception gets out."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    others(unraisable)


_hold_closed_streams()
_TERMINAL = os.dup(2)  # `command_line.quiet` turns 2 away while TensorFlow is imported.
_end_on_interrupts()

from command_line import quiet  # noqa: E402, F401
