"""The harness of hostile inputs judges correctly; `make test-hostile` runs it on all scripts."""

import json
import subprocess
import sys

import pytest

from tests.hostile import examples
from tests.hostile.case import Outcome, judge
from tests.scripts.running import ROOT

CASES = {case.name: case for case in examples.cases()}


@pytest.mark.slow
def test_every_example_gets_its_verdict(tmp_path):
    report = tmp_path / "hostile.json"
    command = [sys.executable, "tests/hostile/harness.py", "--examples", f"--output={report}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr  # Some examples are bad.
    found = json.loads(report.read_text())
    expected = {case.full_name for case in CASES.values() if case.name.startswith("bad:")}
    assert set(found["bad_cases"]) == expected, done.stdout
    assert found["tried"] == len(CASES) == found["good"] + found["bad"]
    assert f"--only='examples/{next(n for n in CASES if n.startswith('bad:'))}'" in done.stdout


@pytest.mark.parametrize(
    ("status", "err", "is_good"),
    [
        (1, "error: in.txt, line 2: bad\n", True),
        (1, "reading in.txt: 1 of 2\nerror: in.txt, line 2: bad\n", True),
        (1, "progress\rerror: in.txt, line 2: bad\n", True),
        (0, "error: in.txt, line 2: bad\n", False),
        (2, "error: in.txt, line 2: bad\n", False),
        (1, "error: in.txt, line 2: bad\nmore\n", False),
        (1, "fatal: in.txt, line 2: bad\n", False),
        (1, "error: in.txt, line 2: " + "x" * 2000 + "\n", False),
        (-6, "", False),
        (1, "", False),
    ],
)
def test_an_error_is_one_short_last_line(tmp_path, status, err, is_good):
    assert (judge(CASES["refused"], Outcome(status, "", err, tmp_path)) == "") == is_good
