"""Locks between processes. The kernel releases them when a process dies, whatever the cause.

Not by filelock: where a file system has no locks, it fails, or makes files that outlive a kill.
"""

import fcntl
import os
import sys
from pathlib import Path
from typing import IO

from nmt_zoo.common.errors import UserError


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


def locked_file(
    path: Path, name: str | os.PathLike, *, advice: str, busy: str = "", waiting: str = ""
) -> IO[bytes]:
    """Opens a file for appending, makes its folder, and locks it until it is closed.

    Raises UserError: the file cannot be written (with `name` and `advice`), or another process
    holds the lock (with `name` and `busy`) and `waiting` is "".
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by the caller.
    except OSError as error:
        raise UserError(f"{name}: cannot be written ({error.strerror}); {advice}") from None
    if not lock(file, path, waiting=waiting):
        file.close()
        raise UserError(f"{name}: {busy}")
    return file


class RunLock:
    """A file lock, held while a run is under way.

    The file is made when it is first locked, and never removed.
    """

    def __init__(self, path: Path):
        self.path = path
        self._file = None

    def acquire(self) -> None:
        """Locks the file, unless this object holds the lock already.

        Raises UserError: another run holds the lock, or the folder cannot be written.
        """
        if self._file is None:
            self._file = locked_file(
                self.path,
                self.path.parent,
                advice="check the name",
                busy="another run is under way in this directory; wait for its end, or give "
                "another --model_dir",
            )

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self):
        self.release()
