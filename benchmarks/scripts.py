"""Runs scripts of the project as its users do."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command):
    """Runs a script of the project and shows its output. If it fails, this process exits, too."""
    print("python", " ".join(command), flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
