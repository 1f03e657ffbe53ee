"""Allows one run at a time in a directory."""

from pathlib import Path

from nmt_zoo.common.locks import locked_file


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
