"""Tests of the faults that `make test-mutations` plants, and of how it finds them."""

import json
import subprocess
import sys

import pytest

from tests.mutations import ROOT, Mutation, listed, stale


def test_every_fault_can_be_planted():
    assert stale(listed()) == []
    assert len(listed()) >= 60


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("a", "b.py", "1", "2", "b_test.py"), "b.py has the old text 2 times, expected once"),
        (("a", "b.py", "3", "2", "b_test.py"), "b.py has the old text 0 times, expected once"),
        (("a", "c.py", "1", "2", "b_test.py"), "c.py has the old text 0 times, expected once"),
        (("a", "b.py", "x = 1", "x =", "b_test.py"), "invalid syntax"),
        (("a", "b.py", "x = 1", "x = 2", "c_test.py -k d"), "there is no tests/c_test.py"),
    ],
)
def test_a_fault_that_cannot_be_planted_is_named(tmp_path, entry, message):
    (tmp_path / "b.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b_test.py").touch()
    good = Mutation("good", "b.py", "x = 1", "x = 2", "b_test.py -k d")
    (line,) = stale([good, Mutation(*entry)], tmp_path)
    assert line.startswith("a: ") and message in line
    assert stale([good, good], tmp_path) == ["good: stands there 2 times"]


@pytest.mark.parametrize("block", ["a name\n- old\n? b_test.py", "a name\n- old\n+ new\nb_test.py"])
def test_a_fault_of_another_form_is_named(tmp_path, block):
    table = tmp_path / "table.txt"
    table.write_text(f"# Faults\n\n== a.py\n\n{block}\n")
    with pytest.raises(ValueError, match="'a name"):
        listed(table)


@pytest.mark.slow
def test_a_fault_is_found_by_its_tests(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "tests/mutations.py", "--only=byte order", f"--output={report}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    (trial,) = found["trials"].values()
    assert trial["outcome"] == "failed" and found["killed"] == found["mutations"] == 1
