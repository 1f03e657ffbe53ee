"""Runs a case in its own process, a fork of the harness, so that TensorFlow is imported once."""

import contextlib
import gc
import json
import os
import resource
import runpy
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from nmt_zoo.command_line.console import one_line_errors
from tests.hostile.case import NOT_PREPARED, Outcome
from tests.scripts.running import ROOT

_ADDRESS_SPACE = 16 << 30  # Bytes.
_NOBODY = 65534
_FD_NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}


class Running(NamedTuple):
    """A case that is running.

    Attributes:
        case: `Case`.
        pid: id of its process, and of the process group of everything that it starts.
        began: start time, in seconds of a monotonic clock.
        folder: its scratch folder.
        known: `listing` of the parent folder before the case began.
        printed: {reading end of a pipe: bytes read from it}, for standard output and error.
        signalled: list that gets an entry when the case's signal is sent.
    """

    case: object
    pid: int
    began: float
    folder: Path
    known: dict
    printed: dict
    signalled: list


def start(case, worker):
    """Forks a process for a case.

    Args:
        case: `Case`.
        worker: folder with `models` in it, used by one case at a time.

    Returns:
        `Running`.
    """
    folder = worker / "case"
    shutil.rmtree(folder, ignore_errors=True)
    for each in (folder, worker / "home", worker / "tmp"):
        each.mkdir(parents=True, exist_ok=True)
        each.chmod(0o777)
    known = listing(worker)
    sys.stdout.flush()
    sys.stderr.flush()
    # Pipes instead of files, because a limit on file sizes must not apply to printed text.
    pipes = [os.pipe() for _ in (1, 2)]
    pid = os.fork()
    if not pid:
        status = 70
        try:
            for number, (_, writer) in enumerate(pipes, start=1):
                os.dup2(writer, number)
            for ends in pipes:
                for end in ends:
                    os.close(end)
            status = _child(case, worker)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    with contextlib.suppress(OSError):  # Parent and child both do this; either may be first.
        os.setpgid(pid, pid)
    printed = {}
    for reader, writer in pipes:
        os.close(writer)
        os.set_blocking(reader, False)
        printed[reader] = bytearray()
    return Running(case, pid, time.monotonic(), folder, known, printed, [])


def finish(running, time_limit):
    """Returns the `Outcome` of a case if it has ended, else None.

    Sends the case's signal when it is due, and kills the case at its time limit.
    """
    _drain(running.printed)
    done, status, usage = os.wait4(running.pid, os.WNOHANG)
    worker, case = running.folder.parent, running.case
    elapsed = time.monotonic() - running.began
    timed_out = False
    if not done:
        if (
            case.signal
            and not running.signalled
            and _is_due(case.signal[1], elapsed, running.printed)
        ):
            running.signalled.append(True)
            os.kill(running.pid, case.signal[0])
        if elapsed <= (case.seconds or time_limit):
            return None
        timed_out = True
        kill(running)
        _, status, usage = os.wait4(running.pid, 0)
    kill(running)  # Ends child processes that the case did not wait for.
    _drain(running.printed)
    out, err = (bytes(data).decode(errors="replace") for data in running.printed.values())
    for reader in running.printed:
        os.close(reader)
    found = listing(worker)
    before = _prepared(worker)
    inside = {n.removeprefix("case/"): v for n, v in found.items() if n.startswith("case/")}
    outside = [n for n in {**running.known, **found} if not n.startswith("case")]
    return Outcome(
        status=os.waitstatus_to_exitcode(status),
        out=out,
        err=err,
        folder=running.folder,
        changed=tuple(sorted(n for n in {**before, **inside} if before.get(n) != inside.get(n))),
        outside=tuple(sorted(n for n in outside if running.known.get(n) != found.get(n))),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        timed_out=timed_out,
    )


def kill(running):
    """Kills a case and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)


def listing(worker):
    """Maps path -> size, time and mode of a file, or "folder", so that changes can be found.

    Files that the harness itself writes there are left out.
    """
    found = {}
    for path, folders, names in os.walk(worker):
        relative = os.path.relpath(path, worker)
        for name in folders:
            found[os.path.normpath(os.path.join(relative, name))] = "folder"
        for name in names:
            if relative == "." and name in ("stdin", "prepared"):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(os.path.join(path, name))
                entry = [status.st_size, status.st_mtime_ns, status.st_mode]
                found[os.path.normpath(os.path.join(relative, name))] = entry
    return found


def _prepared(worker):
    """Reads the listing of the scratch folder from the moment when the script began."""
    try:
        return json.loads((worker / "prepared").read_bytes())
    except FileNotFoundError:
        return {}


def _drain(printed):
    """Reads all that is in the pipes now."""
    for reader, data in printed.items():
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(reader, 1 << 16):
                data += piece


def _is_due(moment, elapsed, printed):
    if isinstance(moment, str):
        return moment.encode() in next(iter(printed.values()))
    return elapsed >= moment


def _child(case, worker):
    """Prepares and runs a case; returns the exit status that Python would end with."""
    os.setpgid(0, 0)
    os.chdir(worker / "case")
    os.environ.update(HOME=str(worker / "home"), TMPDIR=str(worker / "tmp"))
    try:
        (worker / "prepared").unlink(missing_ok=True)
        if case.prepare:
            case.prepare()
        (worker / "prepared").write_text(json.dumps(listing(worker / "case")))
    except BaseException:
        traceback.print_exc()
        return NOT_PREPARED
    _redirect_streams(case, worker)
    _limit(case)
    gc.freeze()
    if callable(case.script):
        return _call(case.script, case.arguments)
    arguments = [os.fsdecode(argument) for argument in case.arguments]
    if case.fresh:
        os.execv(sys.executable, [sys.executable, str(ROOT / f"{case.script}.py"), *arguments])
    return _call(case.script, arguments)


def _redirect_streams(case, worker):
    if isinstance(case.stdin, bytes):
        (worker / "stdin").write_bytes(case.stdin)
        _redirect(0, worker / "stdin", os.O_RDONLY)
    elif case.stdin != "closed":
        _redirect(0, case.stdin, os.O_RDONLY)
    for number, where in ((1, case.stdout), (2, case.stderr)):
        if where == "broken":
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, number)
            os.close(writer)
        elif where and where != "closed":
            _redirect(number, where)
    for number, where in ((0, case.stdin), (1, case.stdout), (2, case.stderr)):
        is_closed = where == "closed"
        if is_closed:
            os.close(number)
        mode, errors = ("r" if number == 0 else "w"), ("backslashreplace" if number == 2 else None)
        name = _FD_NAMES[number]
        stream = (
            None
            if is_closed
            else open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        )
        if number == 2 and stream:
            stream.reconfigure(line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _redirect(number, path, flags=os.O_WRONLY | os.O_CREAT | os.O_APPEND):
    handle = os.open(path, flags, 0o666)
    os.dup2(handle, number)
    os.close(handle)


def _limit(case):
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if case.file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (case.file_limit, case.file_limit))
    if case.unprivileged and os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


def _call(script, arguments):
    """Runs a script or a function; returns the exit status that Python would give it."""
    try:
        if callable(script):
            status = one_line_errors(lambda _: script(*arguments))([script.__name__])
        else:
            path = str(ROOT / f"{script}.py")
            sys.argv = [path, *arguments]
            runpy.run_path(path, run_name="__main__")
            status = 0
    except SystemExit as end:
        status = end.code
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except KeyboardInterrupt:
        traceback.print_exc()
        status = 128 + signal.SIGINT
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
        status = 1
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError as error:
        with contextlib.suppress(BaseException):
            print(f"Exception ignored in: <stdout>\n{error!r}", file=sys.stderr)
        return 120
    return status or 0
