"""Runs scripts: errors in one line, safe output streams, and a clean end at Ctrl-C."""

import contextlib
import functools
import io
import operator
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

from absl import app, flags, logging

from nmt_zoo.command_line.flag_values import Arguments, defined, parse, read, shortened
from nmt_zoo.common.errors import UserError

# Flags whose lower values need less memory.
_LOWERED = ("max_tokens_per_batch", "batch_size", "max_lines", "beam_size")
_LONGEST = 1000  # Most characters of an error.
# Characters that break the line or control the terminal.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def run(main: Callable[[Any], int | None], record: type[Arguments] | None = None) -> None:
    """Runs a script's `main` on the command line and exits; arguments as of `status_of`."""
    sys.exit(status_of(main, sys.argv, record))


def status_of(
    main: Callable[[Any], int | None], argv: list[str], record: type[Arguments] | None = None
) -> int:
    """Runs a script's `main` on some arguments, the name of the script first.

    `main` gets the values of the flags of `record`, which exist only during the call; without a
    record, the arguments that remain once flags are parsed. Returns its exit status. An error that
    the user can mend prints one line to standard error and gives 1.
    """
    parser = functools.partial(parse, about=main.__globals__["__doc__"] or "")
    app.define_help_flags()  # Before, because only once in a process.
    with defined(record or Arguments):
        start = main if record is None else lambda _: main(read(record))
        return one_line_errors(functools.partial(app.run, start, flags_parser=parser))(argv)


def one_line_errors(main: Callable[[list[str]], int | None]) -> Callable[[list[str]], int]:
    """Wraps a `main(argv)`: errors that the user can mend become one line and exit status 1."""

    def run(argv):
        logging.set_verbosity(logging.WARNING)  # TensorFlow logs much about itself at INFO.
        before, interrupts = signal.getsignal(signal.SIGINT), []

        def interrupt(number, _frame):
            interrupts.append(number)
            raise KeyboardInterrupt

        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, interrupt)
        try:
            with _information_streams():
                status = _status(main, argv, interrupts) or 0
                if not status:
                    _report_lost(sys.stdout)
                return status
        finally:
            if before is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, before)

    return run


def _status(main, argv, interrupts) -> int | None:
    try:
        try:
            return main(argv)
        except Exception:
            if interrupts:  # A library has turned the KeyboardInterrupt into an error of its own.
                raise KeyboardInterrupt from None
            raise
    except SystemExit as end:
        return end.code  # pyright: ignore[reportReturnType]
    except (UserError, *_imported("nmt_zoo.models.base", "SettingError")) as error:
        message = str(error)
    except BrokenPipeError:  # The reader of the output, such as `head`, has ended.
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        advice = "check names, permissions and free disk space"
        message = f"{where}{error.strerror or error}; {advice}"
    except (MemoryError, *_imported("tensorflow", "errors.ResourceExhaustedError")) as error:
        message = _out_of_memory(error)
    except RecursionError:
        message = "a value or file is nested too deeply to be read; simplify it"
    message = _CONTROLS.sub(lambda control: ascii(control[0])[1:-1], message)
    print(f"error: {shortened(message, _LONGEST)}", file=sys.stderr)
    return 1


def _imported(module, name):
    """Returns an exception type as a tuple; () if its module has not been imported."""
    return (operator.attrgetter(name)(sys.modules[module]),) if module in sys.modules else ()


def _out_of_memory(error):
    shape = re.search(r"shape ?[\[(][\d, ]*[\])]", str(error))
    what = f", for a tensor of {shape[0]}" if shape else ""
    lowered = " or ".join(f"--{name}" for name in _LOWERED if name in flags.FLAGS)
    advice = f"{f'lower {lowered}, ' * bool(lowered)}give fewer and shorter lines"
    return f"not enough memory{what}; {advice}, or use a smaller model or a computer with more"


def write_result(*lines: str, end: str = "\n") -> None:
    """Writes result lines to standard output, in UTF-8; `UserError` if they cannot be written.

    A result must be written in full. All other output is information, which is dropped if it
    cannot be printed.
    """
    stream = sys.stdout
    stream.flush()
    try:
        if getattr(stream, "error", None):
            raise stream.error  # pyright: ignore[reportAttributeAccessIssue]
        text = "".join(f"{line}{end}" for line in lines)
        if hasattr(stream, "buffer"):
            stream.buffer.write(text.encode())
            stream.buffer.flush()
        else:  # In a notebook.
            stream.write(text)
    except BrokenPipeError:
        _divert(stream)
        raise
    except OSError as error:
        _divert(stream)
        raise _cannot_be_written(error) from None


def check_standard_output() -> None:
    """Raises `UserError` if standard output is closed; call this before long work."""
    try:
        os.write(sys.stdout.fileno(), b"")
    except io.UnsupportedOperation:  # In a notebook or a test, standard output is not a file.
        pass
    except OSError as error:
        raise _cannot_be_written(error) from None


def _cannot_be_written(error):
    return UserError(
        f"standard output: cannot be written ({error.strerror or error}); send it to a file, or to "
        "a program that reads it"
    )


class _Information:
    """A standard stream whose write errors do not stop the script.

    After the first `OSError`, kept as `error`, all output is dropped.
    """

    def __init__(self, stream):
        self._stream = stream
        self.error = None

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text; records an `OSError` instead of raising it."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flushes the stream; records an `OSError` instead of raising it."""
        self._try(self._stream.flush)

    def _try(self, function, *arguments):
        try:
            function(*arguments)
        except OSError as error:
            self.error = self.error or error
            _divert(self._stream)


def _divert(stream):
    """Discards a stream's buffered and later output."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


@contextlib.contextmanager
def _information_streams():
    """Within the `with` block, drops output that cannot be printed instead of raising an error."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if hasattr(stream, "reconfigure"):  # The terminal may be unable to show some characters.
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
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
