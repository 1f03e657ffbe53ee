"""The memory that this process has and may use."""

import contextlib
import ctypes
import math
import os
from pathlib import Path


def status(name: str, path: str = "/proc/self/status") -> int | None:
    """Reads a number of bytes that Linux reports, or None."""
    if not os.path.exists(path):
        return None
    lines = Path(path).read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


def available_bytes() -> float:
    """Returns the bytes that this process may use in all; infinity if the system does not tell."""
    free = status("MemAvailable", "/proc/meminfo")
    own = status("VmRSS")
    limits = [free + own] if free and own else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path) and (text := Path(path).read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits, default=math.inf)


def give_back() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps in many pieces."""
    with contextlib.suppress(OSError, AttributeError):  # Other systems have no such function.
        ctypes.CDLL(None).malloc_trim(0)


def in_words(count: float) -> str:
    """Returns a number of bytes in words, such as 1.25 GB or 80.0 MB."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
