"""Ctrl-C and SIGTERM as requests to stop in good order."""

import contextlib
import signal


class _CutShort(BaseException):
    """Raised by a signal inside of `StopRequest.cutting_short`; no error, like Ctrl-C."""


class StopRequest:
    """Whether Ctrl-C or SIGTERM has asked the run to stop; `signal_number` says which, or is 0."""

    def __init__(self):
        self.signal_number = 0
        self._cuts = False

    def __bool__(self):
        return bool(self.signal_number)

    def note(self, signal_number):
        """Takes the request."""
        self.signal_number = signal_number
        if self._cuts:
            self._cuts = False
            raise _CutShort

    @contextlib.contextmanager
    def cutting_short(self):
        """A block that the request ends wherever it is, for long work that may be left undone."""
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
    """Turns the first Ctrl-C or SIGTERM of the block into a `StopRequest`; a second one kills."""
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
