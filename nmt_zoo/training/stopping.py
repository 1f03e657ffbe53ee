"""Turns Ctrl-C and SIGTERM into requests to stop at a safe point."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _CutShort(BaseException):
    """Raised by a signal inside of `StopRequest.interruptible`; no error, like Ctrl-C."""


class StopRequest:
    """True once Ctrl-C or SIGTERM has arrived; `signal_number` is the signal's number, or 0."""

    def __init__(self):
        self.signal_number = 0
        self._cuts = False

    def __bool__(self):
        return bool(self.signal_number)

    def note(self, signal_number: int) -> None:
        """Stores the request, and ends a call of `interruptible`."""
        self.signal_number = signal_number
        if self._cuts:
            self._cuts = False
            raise _CutShort

    def interruptible(self, function: Callable[[], Any]) -> Any:
        """Calls a function whose work may be dropped, and which a request ends at any point.

        Returns None if the request came before or during the call.
        """
        try:
            self._cuts = True
            return None if self else function()
        except _CutShort:
            return None
        finally:
            self._cuts = False


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turns the first Ctrl-C or SIGTERM into a `StopRequest`; a second signal kills the process."""
    request = StopRequest()

    def note(number, _frame):
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
        request.note(number)

    # Python sends signals to the main thread alone, and no other may ask for them.
    is_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    handlers = {number: signal.signal(number, note) for number in signals}
    try:
        yield request
    finally:
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
