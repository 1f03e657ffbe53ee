"""How many cores this process may use."""

import os
import sys
import threading


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_way() -> None:
    """Lets other threads run before the current one; where the system has no such way, nothing."""
    if sys.platform == "linux":  # Elsewhere, priorities are those of whole processes.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
