"""Numbered versions of a model in one folder, as TensorFlow Serving reads them: 1, 2, 3, ..."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.locks import lock


@contextlib.contextmanager
def unfinished_version(folder: Path) -> Iterator[Path]:
    """Makes a folder to fill and `publish`; removes it afterwards if it was not published.

    The new folder lies in the folder of versions, which is locked: a second export waits.
    Unfinished versions that killed exports left there are removed. Raises `UserError` if the folder
    cannot be written.
    """
    unfinished, handle = folder / f".unfinished-{uuid.uuid4().hex}", None
    is_new = not os.path.lexists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        lock(handle, folder, waiting=f"waiting for another export into {folder}")
        for left in folder.glob(".unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)
        unfinished.mkdir(parents=True)  # A failed export may have removed the parent meanwhile.
        yield unfinished
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error.strerror or error}); check the name and free "
            "disk space"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # Keeps the folder if it is not empty.
                folder.rmdir()
        if handle is not None:
            os.close(handle)


def newest_version(folder: str | Path) -> Path | None:
    """Returns the path of the version with the largest number, or None."""
    versions = [path for path in Path(folder).glob("*") if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


def check_format(folder: Path, other_file: str) -> None:
    """Raises `UserError` if the newest version has this file, so that its format is another."""
    newest = newest_version(folder)
    if newest and (newest / other_file).exists():
        raise UserError(
            f"{folder}: its newest version, {newest.name}, has another format ({other_file}); give "
            "every --format an --export_dir of its own"
        )


def publish(unfinished: Path, folder: Path) -> Path:
    """Renames an unfinished version to the number after the largest; returns its new path."""
    for path in (*unfinished.rglob("*"), unfinished):
        _sync(path)
    newest = newest_version(folder)
    version = folder / str(int(newest.name) + 1 if newest else 1)
    os.rename(unfinished, version)
    _sync(folder)
    return version


def _sync(path):
    """Waits until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
