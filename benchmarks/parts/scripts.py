"""Runs scripts of the project as its users do, and writes what a benchmark found."""

import contextlib
import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable, write_text

ROOT = Path(__file__).resolve().parents[2]
# Runs a command in a process of a process. The peak memory of a new process counts from that of its
# parent, which must be small.
MEASURED = """
import resource, subprocess, sys, time
with open(sys.argv[1], "ab") as log:
    began = time.monotonic()
    done = subprocess.run(sys.argv[2:], stdout=log, stderr=log)
    seconds = time.monotonic() - began
print(done.returncode, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def chosen(only, names):
    """Returns the names of --only, or all names if it is empty; refuses other names."""
    if unknown := sorted(set(only) - set(names)):
        expected = ", ".join(names)
        raise UserError(f"--only: no run {', '.join(unknown)}; expected some of {expected}")
    return only or list(names)


def require(*packages):
    """Raises `UserError` if a package is not installed; call this before long work."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"not installed: {', '.join(missing)}; pip install {' '.join(missing)}")


def run(command):
    """Runs a script of the project and shows its output. If it fails, this process exits, too."""
    print(shlex.join(["python", *command]), flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)


def measured(command, log):
    """Runs a command whose output goes to a log; returns (seconds, peak memory in bytes)."""
    own = [sys.executable, "-S", "-c", MEASURED, str(log), *command]
    status, seconds, memory = subprocess.check_output(own, text=True).split()
    if status != "0":
        raise UserError(f"{' '.join(command)} failed; see {log}")
    return float(seconds), int(memory)


@contextlib.contextmanager
def recorded(path):
    """Yields a dict for the figures, and then writes it with the machine and the command.

    Args:
        path: JSON file, which is tried before the work; None writes nothing.
    """
    if path:
        check_writable(path)
    record = {}
    yield record
    if path:
        from nmt_zoo.command_line.machine import machine

        command = shlex.join(["python", *sys.argv])
        write_record(path, {"machine": machine(), "command": command, **record})


def write_record(path, record):
    """Writes a dict to a JSON file."""
    write_text(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
