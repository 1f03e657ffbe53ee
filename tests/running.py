"""Runs a script of the top level inside the test's process, as its command line would."""

import contextlib
import importlib
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from nmt_zoo.command_line.console import status_of
from nmt_zoo.common import process
from nmt_zoo.serving.export import saved_model_client

ROOT = Path(__file__).resolve().parents[1]


class Done(NamedTuple):
    """Exit status and output of a script."""

    status: int
    out: str
    err: str


def run_script(name, arguments, capsys=None):
    """Runs the code of `name`.py; its flags exist only during the call.

    Without `capsys`, as in the fixtures of a module, pytest itself captures the output.
    """
    if capsys:
        capsys.readouterr()
    process.BEGAN = time.monotonic()
    module = importlib.import_module(f"nmt_zoo.command_line.{name}")
    status = status_of(module.main, [name, *map(str, arguments)], module.Arguments)
    return Done(status, *(capsys.readouterr() if capsys else ("", "")))


def train(folder, name, *flags, capsys=None):
    """Runs train.py; the model directory is `folder / name`, and caches go beside it."""
    places = [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    return run_script("train", [*places, *flags], capsys)


@contextlib.contextmanager
def client_in_this_process():
    """Lets export.py ask its SavedModel in this process; yields the `pytest.MonkeyPatch`."""

    real = subprocess.run

    def run_here(command, **options):
        if "saved_model_client" not in str(command):
            return real(command, **options)
        saved_model_client.main(*command[2:])
        return subprocess.CompletedProcess(command, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run_here)
        yield patch
