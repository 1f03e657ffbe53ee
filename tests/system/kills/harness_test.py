"""Runs a few kills of the harness; `make test-kills` runs many."""

import json
import subprocess
import sys

from tests.running import ROOT


def test_killed_runs_end_as_undisturbed_ones(tmp_path):
    report = tmp_path / "faults.json"
    command = [sys.executable, "tests/system/kills/harness.py", "--kills=2", f"--output={report}"]
    command.append("--presets=attention_ibm2")  # Its steps are traced in a moment.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert found["survived"] == found["kills"] == 2
