"""One run at a time in a directory."""

import fcntl
import os

from data_pipeline.files import UserError


class RunLock:
    """A lock on a file, which the kernel takes back when the process dies, however it dies.

    Args:
        path: the file; made when it is first locked, and never removed.
    """

    def __init__(self, path):
        self.path = path
        self._handle = None

    def acquire(self):
        """Locks, unless it is locked by this object already.

        Raises:
            UserError: another run has it, or the folder cannot be written.
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
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise UserError(
                f"{folder}: another run is under way in this directory; wait for its end, or give "
                "another --model_dir"
                if isinstance(error, BlockingIOError)
                else f"{self.path}: cannot be locked ({error.strerror}); give a --model_dir on a "
                "file system that has locks"
            ) from None
        self._handle = handle

    def release(self):
        """Lets others in."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self):
        self.release()
