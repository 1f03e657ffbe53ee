"""Runs a script of the top level inside the test's process, as its command line would."""

import contextlib
import importlib
import io
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nmt_zoo.command_line.console import status_of
from nmt_zoo.common import process
from nmt_zoo.model_directory.weight_files import read_archive
from nmt_zoo.serving.export import saved_model_client

ROOT = Path(__file__).resolve().parents[1]
# Marks of files and tests whose graphs are not the point: a few updates run faster without tracing.
PIPELINES_STAY_GRAPHS = pytest.mark.filterwarnings("ignore:Even though the `tf.config")
EAGERLY = [pytest.mark.usefixtures("all_eagerly"), PIPELINES_STAY_GRAPHS]


class Done(NamedTuple):
    """Exit status and output of a script."""

    status: int
    out: str
    err: str


def attempt(name, arguments):
    """Runs the code of `name`.py; its flags exist only during the call."""
    process.BEGAN = time.monotonic()
    module = importlib.import_module(f"nmt_zoo.command_line.{name}")
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = status_of(module.main, [name, *map(str, arguments)], module.Arguments)
    for stream in (out, err):
        stream.flush()
    return Done(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def eagerly(test):
    """Marks a test that runs functions without tracing them; see `EAGERLY` for whole files."""
    return pytest.mark.usefixtures("eagerly")(PIPELINES_STAY_GRAPHS(test))


def run_script(name, arguments, refusal=None):
    """Runs a script, as `attempt`, that must work.

    With a `refusal`, it must end with status 1 and one line of error that contains this text.
    """
    done = attempt(name, arguments)
    if refusal is None:
        assert done.status == 0, done.err
    else:
        assert refusal in error_of(done), done.err
    return done


def error_of(done):
    """Returns the last line of a script that refuses its arguments in one short line."""
    lines = done.err.replace("\r", "\n").rstrip("\n").split("\n")
    assert done.status == 1 and "Traceback" not in done.err, done.err
    assert [n for n, line in enumerate(lines, 1) if line.startswith("error:")] == [len(lines)]
    assert len(lines[-1]) <= 1000, done.err
    return lines[-1]


def train(folder, name, *flags, refusal=None):
    """Runs train.py; the model directory is `folder / name`, and caches go beside it."""
    places = [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    return run_script("train", [*places, *flags], refusal)


def refusals(table):
    """Returns (flags, refusal) of each line `flags -> refusal` of a text."""
    rows = (line.split(" -> ") for line in table.strip().splitlines())
    return [(shlex.split(flags), refusal) for flags, refusal in rows]


def assert_same_arrays(path, other):
    """Checks that two archives, such as best.npz, hold the same arrays bit for bit."""
    (found, _), (expected, _) = map(read_archive, (path, other))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def run_elsewhere(name, *flags, text=""):
    """Runs a script that must work in a process of its own.

    Returns its output, and the names of the large packages that it has imported.
    """
    code = f"""
import sys
from nmt_zoo.command_line import {name}
sys.argv[0] = "{name}.py"
try:
    {name}.command()
finally:
    large = "tensorflow", "keras", "matplotlib", "sacrebleu", "scipy"
    print(*(name for name in large if name in sys.modules), file=sys.stderr)
"""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    streams = {"input": text, "capture_output": True, "text": True, "env": variables}
    done = subprocess.run([sys.executable, "-c", code, *flags], check=False, **streams)
    assert done.returncode == 0, done.stderr
    err, _, packages = done.stderr.removesuffix("\n").rpartition("\n")
    return Done(0, done.stdout, err), packages.split()


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
