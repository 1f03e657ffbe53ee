"""Describes the machine and versions with which a number was measured."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path


def machine():
    """Returns what is recorded beside a measured number: processor, versions, commit."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        models_named = [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        processor = models_named[0] if models_named else processor
    commit = ""  # Stays empty if the project was copied instead of cloned.
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.check_output(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            stderr=subprocess.DEVNULL,
            text=True,
        ).strip()
    return {
        "processor": f"{processor}, {os.cpu_count()} cores",
        "accelerators": _accelerators(),
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "commit": commit,
    }


def _accelerators():
    """Lists the names of accelerators; empty if TensorFlow has not been imported."""
    tf = sys.modules.get("tensorflow")
    devices = tf.config.list_physical_devices() if tf else []
    return [device.name for device in devices if device.device_type != "CPU"]
