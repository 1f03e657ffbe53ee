"""Numbered versions of a model in one folder, as TensorFlow Serving reads them: 1, 2, 3, ..."""

import contextlib
import os
import shutil
import sys
import uuid

from data_pipeline.files import UserError
from data_pipeline.locks import lock


@contextlib.contextmanager
def unfinished_version(folder):
    """Makes a folder for `publish` in the folder of versions, and removes it if it is still there.

    One export at a time has the folder of versions; a second one waits. What killed exports left
    in it is removed.

    Raises:
        UserError: the folder cannot be written.
    """
    unfinished, handle = folder / f".unfinished-{uuid.uuid4().hex}", None
    is_new = not os.path.lexists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        if not lock(handle, folder):
            print(f"waiting for another export into {folder}", file=sys.stderr, flush=True)
            lock(handle, folder, wait=True)
        for left in folder.glob(".unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)
        unfinished.mkdir(parents=True)  # Another export has failed, and removed the folder.
        yield unfinished
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error.strerror or error}); check the name and the room "
            "on the disk"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # It is not empty.
                folder.rmdir()
        if handle is not None:
            os.close(handle)


def publish(unfinished, folder):
    """Gives an unfinished version the number after the largest in its folder.

    Returns:
        Its new path.
    """
    for path in (*unfinished.rglob("*"), unfinished):
        _sync(path)
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    version = folder / str(max(numbers, default=0) + 1)
    os.rename(unfinished, version)
    _sync(folder)
    return version


def _sync(path):
    """Waits until the disk has a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
