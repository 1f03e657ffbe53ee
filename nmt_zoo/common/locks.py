"""Locks between processes. The kernel releases them when a process dies, whatever the cause.

Not by filelock: where a file system has no locks, it fails, or makes files that outlive a kill.
"""

import fcntl
import os
import sys
from typing import IO


def lock(file: int | IO, name: str | os.PathLike, *, waiting: str = "") -> bool:
    """Locks an open file until it is closed; returns False if another process holds the lock.

    Some network file systems have no locks. There the work continues without a lock, and a warning
    about the file `name` is printed to standard error. The file must be open for writing (NFS
    requires this). To wait for another process, give the text `waiting`, which is printed to
    standard error first.
    """
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waiting:
                return False
            print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        print(
            f"{name}: this file system has no locks ({error.strerror}); continuing without, so let "
            "no other process write there",
            file=sys.stderr,
            flush=True,
        )
    return True
