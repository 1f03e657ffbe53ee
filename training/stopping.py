"""Turns Ctrl-C and SIGTERM into requests to stop at a safe point."""

import contextlib
import signal


class _CutShort(BaseException):
    """Raised by a signal inside of `StopRequest.cutting_short`; no error, like Ctrl-C."""


class StopRequest:
    """True once Ctrl-C or SIGTERM has arrived; `signal_number` is the signal's number, or 0."""

    def __init__(self):
        self.signal_number = 0
        self._cuts = False

    def __bool__(self):
        return bool(self.signal_number)

    def note(self, signal_number):
        """Stores the request, and ends a block of `cutting_short`."""
        self.signal_number = signal_number
        if self._cuts:
            self._cuts = False
            raise _CutShort

    @contextlib.contextmanager
    def cutting_short(self):
        """Returns a context that a request ends at any point, for long work that may be dropped."""
        try:
            self._cuts = True
            if self:
                raise _CutShort
            yield
            self._cuts = False
        except _CutShort:
            pass
        finally:
            self._cuts = False


@contextlib.contextmanager
def stop_on_signals():
    """Turns the first Ctrl-C or SIGTERM into a `StopRequest`; a second signal kills the process."""
    request = StopRequest()

    def note(number, _frame):
        for each, handler in before.items():
            signal.signal(each, handler)
        request.note(number)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
