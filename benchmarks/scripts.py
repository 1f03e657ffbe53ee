"""Runs scripts of the project as its users do."""

import subprocess
import sys
from pathlib import Path

from data_pipeline.files import UserError

ROOT = Path(__file__).resolve().parents[1]


def chosen(only, known, kind):
    """Returns the names of --only, or all known names if it is empty; refuses other names.

    Args:
        only: list of names.
        known: all names.
        kind: what the names are, in a word.
    """
    unknown = set(only) - set(known)
    if unknown:
        raise UserError(
            f"--only: no {kind} {', '.join(sorted(unknown))}; expected some of {', '.join(known)}"
        )
    return only or known


def run(command):
    """Runs a script of the project and shows its output. If it fails, this process exits, too."""
    print("python", " ".join(command), flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
