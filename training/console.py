"""What every script needs at its ends: errors for people, and stopping in good order."""

import contextlib
import signal
import sys

from data_pipeline.files import UserError
from models import SettingError


def one_line_errors(main):
    """Wraps a script's `main(argv)`: what the user can mend is one line and exit status 1."""

    def run(argv):
        try:
            return main(argv)
        except (UserError, SettingError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:  # The reader of our output has gone, as `head` does.
            sys.stderr.close()
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 128 + signal.SIGINT

    return run


class StopRequest:
    """Whether Ctrl-C or SIGTERM has asked the run to stop; `signal_number` says which, or is 0."""

    def __init__(self):
        self.signal_number = 0

    def __bool__(self):
        return bool(self.signal_number)


@contextlib.contextmanager
def stop_on_signals():
    """Turns the first Ctrl-C or SIGTERM of the block into a `StopRequest`; a second one kills."""
    request = StopRequest()

    def note(number, _frame):
        request.signal_number = number
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
