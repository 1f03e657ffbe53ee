"""Cases with known verdicts that test the judge; half of them must be bad.

They need no models; `harness_test.py` runs them.
"""

import os
import sys
import time
import warnings
from pathlib import Path

from nmt_zoo.common.errors import UserError
from tests.hostile.case import Case, Refused, Works


def refuse(message="in.txt, line 2: not UTF-8; convert it"):
    """Ends with one line of error."""
    raise UserError(message)


def crash():
    """Ends with a traceback."""
    raise IndexError("list index out of range")


def hang():
    """Does not end."""
    time.sleep(1000)


def leave_half():
    """Leaves a half-written file, and prints an error."""
    Path(".unfinished-out").write_text("half")
    refuse()


def leave_whole():
    """Writes its output, and prints an error."""
    Path("out").write_text("whole")
    refuse()


def leave_outside():
    """Writes a file outside its folder, and prints an error."""
    Path("../stray").write_text("x")
    refuse()


def warn():
    """Works, but Python prints a warning."""
    warnings.warn("deprecated", stacklevel=1)


def say_twice():
    """Prints two lines of error."""
    print("error: in.txt, line 2: bad", file=sys.stderr)
    refuse()


def colour():
    """Sends an escape sequence to the terminal."""
    print("\x1b[31mred")


def kill_itself():
    """Is ended by a signal."""
    os.abort()


_LINE_2 = Refused("in.txt, line 2")


def cases():
    """Yields `Case`s; the name begins with "bad:" if the case must be bad."""
    for name, function, expected in (
        ("refused", refuse, _LINE_2),
        ("works", print, Works()),
        ("works, and the output is right", print, Works(lambda outcome: outcome.err)),
        ("bad: no error where one is due", print, _LINE_2),
        ("bad: an error where none is due", refuse, Works()),
        ("bad: an error that names something else", refuse, Refused("out.txt")),
        ("bad: a traceback", crash, _LINE_2),
        ("bad: a hang", hang, _LINE_2),
        ("bad: a file half-written", leave_half, _LINE_2),
        ("bad: a file that should not be", leave_whole, _LINE_2),
        ("bad: a file outside of its folder", leave_outside, _LINE_2),
        ("bad: a warning of Python", warn, Works()),
        ("bad: two errors", say_twice, _LINE_2),
        ("bad: an escape sequence", colour, Works()),
        ("bad: a death by a signal", kill_itself, _LINE_2),
        ("bad: wrong output", print, Works(lambda outcome: "wrong")),
    ):
        seconds = 1 if function is hang else 0
        yield Case("examples", name, function, (), expected, seconds=seconds)
    yield Case("examples", "a word too many", "train", ("--model_dir=run", "more"), Refused("more"))
    nowhere = ("--model_dir=nowhere",)
    yield Case("examples", "no such folder", "translate", nowhere, Refused("nowhere"))
