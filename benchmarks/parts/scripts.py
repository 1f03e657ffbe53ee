"""Runs scripts of the project as its users do, and writes what a benchmark found."""

import contextlib
import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable, write_json

ROOT = Path(__file__).resolve().parents[2]


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


@contextlib.contextmanager
def recorded(path):
    """Yields a dict for the figures, and then writes it with the machine and the command.

    `path` is a JSON file, which is tried before the work; None writes nothing.
    """
    if path:
        check_writable(path)
    record = {}
    yield record
    if path:
        from nmt_zoo.command_line.machine import machine

        command = shlex.join(["python", *sys.argv])
        write_json(path, {"machine": machine(), "command": command, **record})
