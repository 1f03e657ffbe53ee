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


def chosen(only, known, kind, flag="--only"):
    """Returns the names of --only, or all known names if it is empty; refuses other names.

    Args:
        only: list of names.
        known: all names.
        kind: what the names are, in a word.
        flag: the flag that gave the names.
    """
    unknown = set(only) - set(known)
    if unknown:
        # A name with a comma needs quotation marks in a list.
        names = [f'"{name}"' if "," in name else name for name in known]
        raise UserError(
            f"{flag}: no {kind} {', '.join(sorted(unknown))}; expected some of {', '.join(names)}"
        )
    return only or list(known)


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


def own_command():
    """Returns the command line of this process, as one types it."""
    return shlex.join(["python", *sys.argv])


@contextlib.contextmanager
def recorded(path, **versions):
    """Yields a dict for the figures, and then writes it with the machine and the command.

    Args:
        path: JSON file, which is tried before the work; "" or None writes nothing.
        **versions: of packages that are measured, too.
    """
    if path:
        check_writable(path)
    record = {}
    yield record
    if path:
        from nmt_zoo.command_line.machine import machine

        about = {"machine": {**machine(), **versions}, "command": own_command()}
        write_record(path, {**about, **record})


def write_record(path, record):
    """Writes a dict to a JSON file."""
    write_text(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
