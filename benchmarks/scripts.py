"""Scripts of the project, run as its users run them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command):
    """Runs a script of the project; its output is seen. A failure ends this process, too."""
    print("python", " ".join(command), flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
