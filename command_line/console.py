"""What every script needs at its ends: errors for people, streams, and stopping in good order."""

import contextlib
import functools
import io
import os
import re
import signal
import sys

import tensorflow as tf
from absl import app, logging

from command_line.flag_values import parse, shortened
from data_pipeline.files import UserError, check_writable
from decoding.pictures.figures import check_path
from models import SettingError

_LONGEST = 1000  # Characters of an error.
# What would change more of a terminal than one line.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def run(main):
    """Runs a script's `main(argv)` on the command line and exits."""
    sys.exit(status_of(main, sys.argv))


def status_of(main, argv):
    """Runs a script's `main(argv)` on some arguments.

    Args:
        main: function of the arguments that are left without flags; returns an exit status.
        argv: list of str, the name of the script first.

    Returns:
        The exit status. What the user can mend is one line on standard error and 1.
    """
    return one_line_errors(functools.partial(app.run, main, flags_parser=parse))(argv)


def one_line_errors(main):
    """Wraps a `main(argv)`: what the user can mend is one line and exit status 1."""

    def run(argv):
        logging.set_verbosity(logging.WARNING)  # TensorFlow tells much of itself at INFO.
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with _information_streams():
                status = _status(main, argv) or 0
                if not status:
                    _report_lost(sys.stdout)
                return status
        finally:
            if before is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, before)

    return run


def _status(main, argv):
    try:
        return main(argv)
    except SystemExit as end:
        return end.code
    except (UserError, SettingError) as error:
        message = str(error)
    except BrokenPipeError:  # The reader of our output has gone, as `head` does.
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:
        message = _refusal(error)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        message = _out_of_memory(error)
    except RecursionError:
        message = "a value or file is nested too deeply to be read; make it plainer"
    message = _CONTROLS.sub(lambda control: ascii(control[0])[1:-1], message)
    print(f"error: {shortened(message, _LONGEST)}", file=sys.stderr)
    return 1


def _refusal(error):
    """Words for what the system refused."""
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return (
        f"{where}the system says: {error.strerror or error}; check names, permissions and the room "
        "on the disk"
    )


def _out_of_memory(error):
    found = re.search(r"shape ?[\[(][\d, ]*[\])]", str(error))
    what = f", for a tensor of {found[0]}" if found else ""
    return (
        f"not enough memory{what}; lower --max_tokens_per_batch, --batch_size or --beam_size, or "
        "make the model smaller with --set"
    )


def write_result(*lines):
    """Writes lines that were asked for to standard output, in UTF-8.

    Whatever else is printed is information: it is left out where it cannot be shown.

    Raises:
        UserError: they cannot be written.
    """
    stream = sys.stdout
    stream.flush()
    try:
        if getattr(stream, "error", None):
            raise stream.error
        stream.buffer.write("".join(f"{line}\n" for line in lines).encode())
        stream.buffer.flush()
    except BrokenPipeError:
        _divert(stream)
        raise
    except OSError as error:
        _divert(stream)
        raise _cannot_be_written(error) from None


def check_standard_output():
    """Raises `UserError` if standard output is closed; to be called before long work."""
    try:
        os.write(sys.stdout.fileno(), b"")
    except io.UnsupportedOperation:  # In a notebook, and in tests: no file.
        pass
    except OSError as error:
        raise _cannot_be_written(error) from None


def _cannot_be_written(error):
    return UserError(
        f"standard output: cannot be written ({error.strerror or error}); send it to a file or a "
        "program that takes it"
    )


class _Information:
    """A standard stream on which failures stop nothing.

    Attributes:
        error: the first `OSError`, or None. Everything after it is left out.
    """

    def __init__(self, stream):
        self._stream = stream
        self.error = None

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        """As that of a file."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self):
        """As that of a file."""
        self._try(self._stream.flush)

    def _try(self, function, *arguments):
        try:
            function(*arguments)
        except OSError as error:
            self.error = self.error or error
            _divert(self._stream)


def _divert(stream):
    """Sends all that a stream still holds, and will get, nowhere."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


@contextlib.contextmanager
def _information_streams():
    """While it lasts, what cannot be printed is left out."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if hasattr(stream, "reconfigure"):  # A terminal may lack characters of the text.
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(_Information, before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _report_lost(stream):
    stream.flush()
    if stream.error and not isinstance(stream.error, BrokenPipeError):
        reason = stream.error.strerror or stream.error
        print(f"standard output: not everything could be written ({reason})", file=sys.stderr)


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


def check_picture(flag, path):
    """Raises `UserError` if no picture can be written to a path; to be called before long work.

    Args:
        flag: name of the flag that names the picture.
        path: its value.
    """
    with _about(flag, path):
        check_path(path)
    check_writable(path)


@contextlib.contextmanager
def picture(flag, path):
    """Says that a picture was drawn, or in one line why not; arguments as `check_picture`."""
    with _about(flag, path):
        yield
    print(f"wrote {path}")


@contextlib.contextmanager
def _about(flag, path):
    try:
        yield
    except ValueError as error:
        raise UserError(f"--{flag}={path}: {error}") from None
