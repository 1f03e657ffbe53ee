"""Named arrays and a JSON state in one file with checksums."""

import errno
import json
import os
from typing import Any, TypeAlias

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, atomic_path

Arrays: TypeAlias = dict[str, np.ndarray]
# Errors of reading that say nothing of the bytes of a file. EINVAL comes of damaged offsets.
_NOT_DAMAGE = (
    *(errno.EACCES, errno.EPERM, errno.ESTALE, errno.ETIMEDOUT),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE),
)
_MAGIC = b"PK\x03\x04"  # A zip file begins with it.


class DamagedError(UserError):
    """Raised for a file that cannot be read, or whose bytes have changed since it was written."""


def write_archive(path: FilePath, variables: dict[str, Any], state: dict[str, Any]) -> None:
    """Writes named variables or arrays and a JSON state as one `.npz` file, atomically.

    Raises UserError: the file cannot be written; an older file stays unchanged.
    """
    arrays = {name: np.asarray(v) for name, v in variables.items()}
    # An open file, because NumPy adds an ending to a name that has another one, as a link's may be.
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays, state=np.array(json.dumps(state)))


def read_archive(path: FilePath, prefix: str = "") -> tuple[Arrays, dict[str, Any]]:
    """Reads `(arrays, state)` from a file of `write_archive`.

    Every array whose name begins with `prefix` is read in full, which checks it against its CRC-32
    in the file.
    Raises DamagedError: the file is missing or damaged.
    Raises UserError: the file cannot be read now, which says nothing of its bytes.
    Raises MemoryError: its arrays do not fit into memory.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # Opening a pipe would wait.
            raise ValueError("not a regular file")
        with open(path, "rb") as file:
            # NumPy would take the file for a pickle, and advise the user to load it unsafely.
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("not an archive of arrays")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                _check_size(archive, path)
                state = json.loads(str(archive["state"]))
                names = [name for name in archive.files if name.startswith(prefix)]
                arrays = {name: archive[name] for name in names if name != "state"}
        if not isinstance(state, dict):
            raise ValueError("its state is not an object")
        for name, array in arrays.items():
            if getattr(array, "dtype", np.dtype(object)).kind not in "biuf":
                raise ValueError(f"{name} holds no real numbers")
        return arrays, state
    except MemoryError:
        raise
    except Exception as error:  # Readers of zip files raise many types for damaged bytes.
        if getattr(error, "errno", None) in _NOT_DAMAGE:
            raise UserError(
                f"{path}: cannot be read ({error.strerror}); check its permissions and the disk"  # pyright: ignore[reportAttributeAccessIssue]
            ) from None
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:
            reason = "it contains Python objects, which are not loaded for safety"
        raise DamagedError(f"{path}: damaged or unreadable ({reason})") from None


def _check_size(archive, path):
    """Raises `ValueError` if arrays are compressed, so that a small file cannot fill the memory."""
    unpacked = sum(entry.file_size for entry in archive.zip.infolist())
    if unpacked > 2 * os.path.getsize(path):
        raise ValueError(f"it would unpack to {unpacked:,} bytes")


def restore(variables: dict[str, Any], arrays: Arrays, path: FilePath) -> None:
    """Assigns every variable from an archive; ignores other entries of the archive.

    Raises UserError, before any change: an entry is missing, or has another shape or type.
    """
    for name, variable in variables.items():
        if name not in arrays:
            raise UserError(
                f"{path}: has no {name}; it belongs to another model than config.json describes"
            )
        if tuple(arrays[name].shape) != tuple(variable.shape):
            raise UserError(
                f"{path}: {name} is {arrays[name].shape}, the model of config.json needs "
                f"{tuple(variable.shape)}; vocabulary or settings do not match the checkpoint"
            )
        dtype = variable.dtype  # A str in Keras, an object in TensorFlow.
        stored, expected = arrays[name].dtype, np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
        if stored.kind != expected.kind or not np.can_cast(stored, expected, "safe"):
            raise UserError(f"{path}: {name} is {stored}, the model needs {expected}; damaged")
    for name, variable in variables.items():
        variable.assign(arrays[name])
