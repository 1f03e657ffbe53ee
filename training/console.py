"""What every script needs at its ends: errors for people, and stopping in good order."""

import contextlib
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

from absl import logging

from data_pipeline.files import UserError
from models import SettingError


def one_line_errors(main):
    """Wraps a script's `main(argv)`: what the user can mend is one line and exit status 1."""

    def run(argv):
        logging.set_verbosity(logging.WARNING)  # TensorFlow tells much of itself at INFO.
        try:
            return main(argv)
        except (UserError, SettingError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:  # The reader of our output has gone, as `head` does.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 128 + signal.SIGINT

    return run


def chosen_mode(modes, present):
    """Finds which of the things that a script can do is asked for.

    Args:
        modes: thing -> (flags that ask for it, flags that only go with those), names with spaces
            between. A flag that asks for one thing and goes with another asks where it is alone.
        present: names of the flags that the command line has.

    Returns:
        A key of `modes`.

    Raises:
        UserError: none is asked for, or several, or a flag is there that goes with others.
    """
    modes = {mode: [names.split() for names in both] for mode, both in modes.items()}
    asked = {mode: [n for n in first if n in present] for mode, (first, _) in modes.items()}
    others = {n for mode, names in asked.items() if names for n in modes[mode][1]}
    asked = {mode: names for mode, names in asked.items() if set(names) - others}
    if not asked:
        names = ", ".join(f"--{' or --'.join(first)}" for first, _ in modes.values())
        raise UserError(f"nothing is asked for; give one of {names}")
    if len(asked) > 1:
        raise UserError(f"{' and '.join(f'--{n[0]}' for n in asked.values())} exclude each other")
    ((mode, names),) = asked.items()
    known = {name for both in modes.values() for flags in both for name in flags}
    strangers = sorted(present & known - {name for flags in modes[mode] for name in flags})
    if strangers:
        homes = [first for first, more in modes.values() if strangers[0] in first + more]
        expected = " or ".join(f"--{name}" for first in homes for name in first)
        raise UserError(f"--{strangers[0]} does not go with --{names[0]}, but with {expected}")
    return mode


@contextlib.contextmanager
def picture(path):
    """Says that a picture was drawn, or in one line why not."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    print(f"wrote {path}")


def machine():
    """What stands beside a measured number: processor, versions, commit."""
    import tensorflow as tf

    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        models_named = [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        processor = models_named[0] if models_named else processor
    commit = ""  # Unknown where the project was copied instead of cloned.
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.check_output(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            stderr=subprocess.DEVNULL,
            text=True,
        ).strip()
    return {
        "processor": f"{processor}, {os.cpu_count()} cores",
        "accelerators": [
            d.name for d in tf.config.list_physical_devices() if d.device_type != "CPU"
        ],
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "commit": commit,
    }


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
