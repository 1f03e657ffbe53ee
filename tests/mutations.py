"""Plants faults in copies of the project, one at a time; the tests must find each of them.

    python tests/mutations.py --output=docs/results/faults/mutations.json
    python tests/mutations.py --only="beam_search|dropout"

A green suite proves little unless it turns red for faults. mutations.txt lists faults that a reader
would call a bug, each with the tests that should find it; there are few, so that a run takes
minutes. First these tests run on an unchanged copy, where all must pass. Then each fault is planted
in its own copy. A fault is killed if a test fails or exceeds its time limit; it survives if all
tests pass. The text that a fault replaces must occur exactly once in its file; otherwise an error
names the fault.

Importing TensorFlow takes longer than such tests. So one process imports it, without starting its
run-time, and every trial is a fork of that process.
"""

import argparse
import ast
import collections
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.command_line import quiet  # noqa: E402, F401 - before every module that imports TensorFlow

# isort: split

import keras  # noqa: E402, F401 - imported once, for all forks
import pytest  # noqa: E402
from tqdm import tqdm  # noqa: E402

from nmt_zoo.common.files import write_text  # noqa: E402
from nmt_zoo.common.progress import Progress  # noqa: E402

tqdm.monitor_interval = 0  # No monitor thread, because forks would not have it.

TABLE = Path(__file__).with_suffix(".txt")


class Mutation(NamedTuple):
    """A fault: `old` becomes `new` in `file`, and `tests` must fail. An empty file: no fault."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def test_file(self):
        return shlex.split(self.tests)[0]


class Trial(NamedTuple):
    """The result of a mutation: `outcome` is one of `OUTCOMES`, `log` is the output of pytest."""

    mutation: Mutation
    outcome: str
    seconds: float
    log: str


# A mutation is killed by a failed test, a crash or the time limit. "not run" means that the tests
# did not run: a file cannot be imported, or tests do not exist.
KILLED = ("failed", "crashed", "time limit")
OUTCOMES = ("survived", *KILLED, "not run")
LEAST_SECONDS = 60  # Shortest time limit; otherwise ten times the tests' time without the fault.


def listed(table=TABLE):
    """Reads the `Mutation`s of a file like mutations.txt.

    Raises:
        ValueError: a block has another form.
    """
    mutations, file = [], ""
    for block in table.read_text(encoding="utf-8").strip().split("\n\n"):
        name, *lines = block.split("\n")
        if name.startswith("== "):
            file = name[3:]
        elif not name.startswith("#"):
            old, new, tests = (
                "\n".join(line[2:] for line in lines if line[0] == mark) for mark in "-+?"
            )
            if not (file and old and tests and {line[0] for line in lines} == set("-+?")):
                raise ValueError(f"{table}: {block!r} has not a name and lines of -, + and ?")
            mutations.append(Mutation(name, file, old, new, tests))
    return mutations


def planted(mutation, root):
    """Returns the text of a mutation's file with the fault.

    Raises:
        ValueError: the file or the tests are missing, or the file does not have the old text
            exactly once.
        SyntaxError: the text with the fault is not Python.
    """
    path = root / mutation.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    count = text.count(mutation.old)
    if count != 1:
        raise ValueError(f"{mutation.file} has the old text {count} times, expected once")
    changed = text.replace(mutation.old, mutation.new)
    ast.parse(changed)
    if not (root / "tests" / mutation.test_file).exists():
        raise ValueError(f"there is no tests/{mutation.test_file}")
    return changed


def stale(mutations, root=ROOT):
    """Returns lines that name mutations that cannot be planted, and names that are used twice."""
    names = collections.Counter(mutation.name for mutation in mutations)
    lines = [f"{name}: stands there {count} times" for name, count in names.items() if count > 1]
    for mutation in mutations:
        try:
            planted(mutation, root)
        except (ValueError, SyntaxError) as error:
            lines.append(f"{mutation.name}: {error}")
    return lines


def copy_project(folder):
    """Copies all packages and scripts, with their compiled Python files."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if (path / "__init__.py").exists():
            shutil.copytree(path, folder / path.name)
        elif path.suffix in (".py", ".toml"):
            shutil.copy2(path, folder)


def in_copy(copy, tests, limit, log):
    """Runs tests in a copy of the project; never returns."""
    status = 70
    try:
        os.setsid()  # So that processes that the tests start can be ended with the tests.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(limit)
        output = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        ours = {path.name for path in copy.iterdir()}
        for name in [name for name in sys.modules if name.split(".")[0] in ours]:
            del sys.modules[name]
        sys.path[:] = [path for path in sys.path if Path(path) not in (ROOT, ROOT / "tests")]
        options = ["-x", "-p", "no:cacheprovider", f"--basetemp={copy.parent / 'tmp'}"]
        options += ["-m", "not slow and not replicas"]
        first, *rest = shlex.split(tests)
        status = pytest.main([f"tests/{first}", *rest, *options])
    finally:
        sys.stdout.flush()
        os._exit(int(status))


def outcome_of(status):
    """Returns one of `OUTCOMES`, from the status of `os.wait`."""
    if os.WIFSIGNALED(status):
        return "time limit" if os.WTERMSIG(status) == signal.SIGALRM else "crashed"
    return {0: "survived", 1: "failed"}.get(os.WEXITSTATUS(status), "not run")


def without_fault(mutations):
    """Yields a `Mutation` without a fault for each file of tests, with all tests used from it."""
    chosen = {}
    for mutation in mutations:
        file, *selection = shlex.split(mutation.tests)
        chosen.setdefault(file, {})[selection[-1] if selection else ""] = None
    for file, expressions in chosen.items():
        together = " or ".join(f"({e})" for e in expressions) if all(expressions) else ""
        yield Mutation("no fault", "", "", "", f"{file} -k {shlex.quote(together)}")


def try_all(mutations, limits, jobs, base, folder, progress):
    """Tries mutations, several at a time.

    Args:
        mutations: list of `Mutation`.
        limits: file of tests -> seconds after which its tests are ended.
        jobs: how many mutations are tried at a time.
        base: folder of an unchanged copy.
        folder: where all other copies are made, and removed again.
        progress: `Progress`.

    Yields:
        A `Trial` of each mutation, in the order in which they end.
    """
    waiting, running = collections.deque(mutations), {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutation = waiting.popleft()
                room = Path(tempfile.mkdtemp(dir=folder))
                shutil.copytree(base, room / "copy")
                if mutation.file:
                    changed = planted(mutation, room / "copy")
                    (room / "copy" / mutation.file).write_text(changed, encoding="utf-8")
                sys.stdout.flush()
                child = os.fork()
                if not child:
                    in_copy(room / "copy", mutation.tests, limits[mutation.test_file], room / "log")
                running[child] = mutation, room, time.monotonic()
            child, status = os.wait()
            mutation, room, began = running.pop(child)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            log = (room / "log").read_text(encoding="utf-8", errors="replace")
            if not mutation.file:  # The files that Python has compiled serve all copies.
                shutil.rmtree(base)
                (room / "copy").rename(base)
            shutil.rmtree(room)
            progress.update(1)
            seconds = time.monotonic() - began
            yield Trial(mutation, outcome_of(status), round(seconds, 1), log)
    finally:
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)


def found_by(log):
    """Returns the first test that failed; "" if no test failed."""
    failed = re.search("^(?:FAILED|ERROR) (.*?)(?: - .*)?$", log, re.MULTILINE)
    return failed[1] if failed else ""


def report_of(trials, seconds):
    """Returns the content of the file of results."""
    killed = [trial for trial in trials if trial.outcome in KILLED]
    rooms, killed_in = (
        collections.Counter(trial.mutation.file.split("/")[0] for trial in some)
        for some in (trials, killed)
    )
    return {
        "mutations": len(trials),
        "killed": len(killed),
        "survived": [t.mutation.name for t in trials if t.outcome == "survived"],
        "rooms": {
            room: {"mutations": count, "killed": killed_in[room]} for room, count in rooms.items()
        },
        "seconds": round(seconds),
        "trials": {
            t.mutation.name: {
                "file": t.mutation.file,
                "tests": t.mutation.tests,
                "outcome": t.outcome,
                "found_by": found_by(t.log),
                "seconds": t.seconds,
            }
            for t in trials
        },
    }


def main():
    """Reads the command line; exits with 1 if a mutation survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression for `FILE: NAME`")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at a time")
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args()
    mutations = [m for m in listed() if re.search(given.only, f"{m.file}: {m.name}")]
    problems = stale(mutations) or ([] if mutations else [f"{given.only}: no such mutation"])
    if problems:
        sys.exit("\n".join(problems))
    # SIGTERM ends all trials, too, by the `finally` of `try_all`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began, trials = time.monotonic(), []
    unchanged = list(without_fault(mutations))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        copy_project(base)
        place = {"jobs": given.jobs, "base": base, "folder": folder}
        with Progress("mutations", len(unchanged) + len(mutations), "trials") as progress:
            limits = {m.test_file: 30 * LEAST_SECONDS for m in unchanged}
            for trial in try_all(unchanged, limits, **{**place, "jobs": 1}, progress=progress):
                if trial.outcome != "survived":
                    failing = f"{trial.mutation.tests}: {trial.outcome} without any fault"
                    problems.append(f"{trial.log[-2000:]}\n{failing}")
                limits[trial.mutation.test_file] = int(max(10 * trial.seconds, LEAST_SECONDS))
            if problems:
                sys.exit("\n".join(problems))
            for trial in try_all(mutations, limits, **place, progress=progress):
                trials.append(trial)
                if trial.outcome not in KILLED:
                    progress.say(f"{trial.outcome}: {trial.mutation.name} ({trial.mutation.file})")
                if trial.outcome == "not run":
                    progress.say(trial.log[-2000:])
    report = report_of(trials, time.monotonic() - began)
    for room, found in report["rooms"].items():
        print(f"{room:15} {found['killed']:3} of {found['mutations']:3} killed")
    print(f"{'all':15} {report['killed']:3} of {report['mutations']:3} killed")
    if given.output:
        from nmt_zoo.command_line.machine import (
            machine,  # After all forks: lists TensorFlow's devices.
        )

        report["command"] = [f"python {shlex.join(sys.argv)}"]
        text = json.dumps({**report, "machine": machine()}, indent=2, ensure_ascii=False)
        write_text(given.output, text + "\n")
    return int(report["killed"] < report["mutations"])


if __name__ == "__main__":
    sys.exit(main())
