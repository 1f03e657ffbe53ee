"""A case: one hostile input and the outcome that it must have; and the judge of outcomes.

A case is good if it gives the right output, or an error of exactly one line that begins with
`error:`, names the fault, and leaves nothing half-written. Every case states which of the two it
expects, so that no case is good by accident.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# A line of a traceback; and a Python warning, which is followed by a line of source code.
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)|^Exception ignored in", re.MULTILINE)
_WARNING = re.compile(r"^\S*\.py:\d+: \w*Warning", re.MULTILINE)
NOT_PREPARED = 99  # Exit status of a case whose files could not be made.
_LONGEST_ERROR = 1000  # Characters; a longer error would fill a page.


class Outcome(NamedTuple):
    """The outcome of a case.

    Attributes:
        status: exit status; or minus the number of the signal that ended the process.
        out: standard output.
        err: standard error.
        folder: scratch folder of the case, with the files that it left there.
        changed: paths below the folder that were made, changed or removed since the script began.
        outside: paths that were changed outside the scratch folder.
        cpu_seconds: processor time of the process and its children.
        timed_out: whether the process was killed at its time limit.
    """

    status: int
    out: str
    err: str
    folder: Path
    changed: tuple = ()
    outside: tuple = ()
    cpu_seconds: float = 0.0
    timed_out: bool = False


class Refused(NamedTuple):
    """Expects one line `error: ...`, and exit status 1.

    Attributes:
        pattern: regular expression that the line must match somewhere.
        leaves: names of folders or files that may have been made or changed.
    """

    pattern: str
    leaves: tuple = ()

    def fault(self, outcome):
        """Describes what is wrong with an outcome, or returns ""."""
        if outcome.status == 0:
            return "exit status 0 where an error is due"
        if outcome.status != 1:
            return f"exit status {outcome.status}, expected 1"
        errors = _error_lines(outcome.err)
        if len(errors) != 1:
            return f"{len(errors)} lines begin with 'error:'"
        last = outcome.err.replace("\r", "\n").rstrip("\n").split("\n")[-1]
        if last != errors[0]:
            return f"text after the error line: {last[:100]!r}"
        if len(last) > _LONGEST_ERROR:
            return f"an error of {len(last)} characters"
        if not re.search(self.pattern, last):
            return f"the error does not match {self.pattern!r}: {last[:300]}"
        made = [name for name in outcome.changed if not name.startswith(self.leaves or "/")]
        return f"made or changed: {', '.join(made[:5])}" if made else ""


class Works(NamedTuple):
    """Expects exit status 0 and the right output.

    Attributes:
        check: function of an `Outcome` that describes what is wrong with it, or returns "".
        says: regular expression that standard error must match.
    """

    check: Callable | None = None
    says: str = ""

    def fault(self, outcome):
        """Describes what is wrong with an outcome, or returns ""."""
        if outcome.status:
            return f"exit status {outcome.status}, expected 0"
        if _error_lines(outcome.err):
            return "an error line, but exit status 0"
        if self.says and not re.search(self.says, outcome.err):
            return f"standard error does not match {self.says!r}"
        return self.check(outcome) if self.check else ""


class Ends(NamedTuple):
    """Expects an exit status that means neither success nor a user's error, such as 130.

    Attributes:
        status: exit status; 128 + n also accepts a process ended by signal n.
        check: see `Works`.
    """

    status: int
    check: Callable | None = None

    def fault(self, outcome):
        """Describes what is wrong with an outcome, or returns ""."""
        if outcome.status not in (self.status, 128 - self.status):
            return f"exit status {outcome.status}, expected {self.status}"
        return self.check(outcome) if self.check else ""


class Case(NamedTuple):
    """One hostile input.

    Attributes:
        group: name of the group, a row of the table of results.
        name: name of the case, unique within its group.
        script: name of a top-level script without `.py`, or a function to call in its place with
            the same handling of errors.
        arguments: arguments of the command line, str or bytes; the current folder is the scratch
            folder.
        expected: `Refused`, `Works` or `Ends`.
        prepare: function without arguments, called in the scratch folder before the script.
        stdin: bytes for standard input, "closed", or the path of a file.
        stdout: "closed", "broken" (a pipe whose reader has gone), the path of a device, or "".
        stderr: see stdout.
        signal: (number of a signal, moment to send it), or None. The moment is seconds from the
            start, or a text that standard output must contain.
        fresh: whether a new Python process runs the script, to test what happens before and during
            imports.
        unprivileged: whether the script first gives up superuser rights.
        file_limit: size in bytes beyond which no file can grow, like a full disk; 0: no limit.
        seconds: time limit; 0: the limit of the harness.
    """

    group: str
    name: str
    script: str | Callable
    arguments: tuple
    expected: Refused | Works | Ends
    prepare: Callable | None = None
    stdin: bytes | str = b""
    stdout: str = ""
    stderr: str = ""
    signal: tuple | None = None
    fresh: bool = False
    unprivileged: bool = False
    file_limit: int = 0
    seconds: int = 0

    @property
    def full_name(self):
        """Returns the name for `--only`: group/name."""
        return f"{self.group}/{self.name}"


def judge(case, outcome):
    """Describes in a line what is wrong with the outcome of a case; returns "" if it is good."""
    if outcome.timed_out:
        return "hangs: killed when its time was over"
    if outcome.status == NOT_PREPARED:
        return f"not prepared: {outcome.err.rstrip().split(chr(10))[-1]}"
    if _TRACEBACK.search(outcome.err) or _TRACEBACK.search(outcome.out):
        lines = (outcome.err or outcome.out).rstrip("\n").split("\n")
        return f"traceback: {lines[-1][:300]}"
    if found := _WARNING.search(outcome.err):
        return f"a warning of Python: {found[0]}"
    if "\x1b" in outcome.err + outcome.out:
        return "an escape sequence reaches the terminal"
    if outcome.outside:
        return f"changed outside its folder: {', '.join(outcome.outside[:5])}"
    unfinished = [name for name in outcome.changed if ".unfinished-" in name]
    if unfinished := [name for name in unfinished if (outcome.folder / name).exists()]:
        return f"left half-written: {', '.join(unfinished[:5])}"
    try:
        return case.expected.fault(outcome)
    except Exception as error:  # A check may raise anything if a file is missing or unreadable.
        return f"{type(error).__name__} in the check: {error}"


def _error_lines(text):
    return [line for line in text.replace("\r", "\n").split("\n") if line.startswith("error:")]
