"""Allows one run at a time in a directory."""

import os
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.locks import lock


class RunLock:
    """A file lock, held while a run is under way.

    The file is made when it is first locked, and never removed.
    """

    def __init__(self, path: Path):
        self.path = path
        self._handle = None

    def acquire(self) -> None:
        """Locks the file, unless this object holds the lock already.

        Raises UserError: another run holds the lock, or the folder cannot be written.
        """
        if self._handle is not None:
            return
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(
                f"{folder}: cannot be written ({error.strerror}); check the name"
            ) from None
        if not lock(handle, self.path):
            os.close(handle)
            raise UserError(
                f"{folder}: another run is under way in this directory; wait for its end, or give "
                "another --model_dir"
            )
        self._handle = handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self):
        self.release()
