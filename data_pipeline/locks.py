"""Locks between processes. The kernel takes them back when a process dies, however it dies."""

import fcntl
import sys


def lock(file, name, *, wait=False):
    """Locks an open file until it is closed.

    Some network file systems have no locks. There the work goes on without one, and a line on
    standard error says so.

    Args:
        file: open for writing, as NFS wants it; a file object or a descriptor.
        name: what to call it in that line, such as its path.
        wait: whether to wait for another process that has it.

    Returns:
        False if another process has it; else True.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        print(
            f"{name}: this file system has no locks ({error.strerror}); goes on without, so let "
            "no other process write there",
            file=sys.stderr,
            flush=True,
        )
    return True
