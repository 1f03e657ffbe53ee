"""Describes the machine and versions with which a number was measured."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Returns what is recorded beside a measured number: processor, versions, commit.

    Accelerators are known if TensorFlow has been imported.
    """
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        models_named = [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        processor = models_named[0] if models_named else processor
    tf = sys.modules.get("tensorflow")
    devices = tf.config.list_physical_devices() if tf else []
    return {
        "processor": f"{processor}, {os.cpu_count()} cores",
        "accelerators": [device.name for device in devices if device.device_type != "CPU"],
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "commit": _commit(),
    }


def _commit():
    """Returns the commit of the project; empty if it was copied instead of cloned."""
    project = Path(__file__).resolve().parents[2]

    def git(*arguments):
        command = ["git", "-C", str(project), *arguments]
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()

    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        # A copy may lie inside a repository of another project.
        if Path(git("rev-parse", "--show-toplevel")) == project:
            return git("describe", "--always", "--dirty")
    return ""
