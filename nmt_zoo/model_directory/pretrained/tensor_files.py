"""Reads files of weights of other toolkits as NumPy arrays: safetensors, PyTorch's and NumPy's.

Nothing in a file is executed. PyTorch writes pickles, which can call any function of Python; here
they may only name tensors and their storages.
"""

import json
import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath
from nmt_zoo.model_directory.weight_files import Arrays

_SAFETENSORS = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
}
_LONGEST_HEADER = 100_000_000  # Bytes; the format's own limit.


def read_tensors(path: FilePath) -> Arrays:
    """Reads all tensors of a file ending in `.safetensors`, `.bin` or `.npz`, as float32.

    Raises UserError: the file cannot be read, is damaged, or contains something else.
    """
    path = Path(path)
    readers = {".safetensors": _read_safetensors, ".bin": _read_torch, ".npz": _read_numpy}
    try:
        found = readers[path.suffix](path)
        return {
            name: array.astype(np.float32) if _is_float(array) else array
            for name, array in found.items()
        }
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # Readers of zip files and pickles raise many types for damage.
        if isinstance(error, MemoryError | UserError):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: damaged, or no file of weights ({reason})") from None


def _is_float(array):
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


def _read_safetensors(path):
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
            raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
        header = json.loads(file.read(length))
        start = 8 + length
        found = {}
        for name, about in header.items():
            if name == "__metadata__":
                continue
            begin, end = about["data_offsets"]
            shape, kind = tuple(about["shape"]), about["dtype"]
            if kind not in _SAFETENSORS:
                raise UserError(f"{path}: {name} has numbers of the type {kind}, which has no use")
            dtype = np.dtype(_SAFETENSORS[kind])
            if not 0 <= begin <= end <= size - start:
                raise ValueError(f"{name} ends at byte {end:,} of {size - start:,}; cut off")
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != end - begin:
                raise ValueError(f"{name} has {end - begin:,} bytes for the shape {shape}")
            file.seek(start + begin)
            found[name] = np.frombuffer(file.read(end - begin), dtype).reshape(shape)
    return found


class _Storage(NamedTuple):
    dtype: Any
    key: str  # The member of the archive that has the numbers.


class _TensorUnpickler(pickle.Unpickler):
    """Reads the pickle of a `state_dict`: a mapping of names to tensors, nothing else."""

    def __init__(self, file, archive, folder):
        super().__init__(file)
        self._archive = archive
        self._folder = folder
        self._read = {}

    def find_class(self, module, name):
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *rest: tensor,
        }
        if module == "torch" and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        if (module, name) not in known:
            raise ValueError(
                f"it names {module}.{name}, which is no tensor; nothing of it was run, and such a "
                "file is not read"
            )
        return known[module, name]

    def persistent_load(self, pid):
        kind, dtype, key, *_ = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or not isinstance(key, str):
            raise ValueError("it names something other than a storage")
        return _Storage(dtype, key)

    def _tensor(self, storage, offset, shape, strides, *_):
        if storage.key not in self._read:
            data = self._archive.read(f"{self._folder}/data/{storage.key}")
            self._read[storage.key] = np.frombuffer(data, storage.dtype)
        numbers = self._read[storage.key]
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        is_inside = min((offset, *strides, *shape)) >= 0 and last < numbers.size
        if not is_inside and math.prod(shape):
            raise ValueError(f"a tensor of the shape {tuple(shape)} is larger than its storage")
        steps = tuple(step * numbers.itemsize for step in strides)
        return np.lib.stride_tricks.as_strided(numbers[offset:], tuple(shape), steps).copy()


def _read_torch(path):
    if not zipfile.is_zipfile(path):
        raise UserError(
            f"{path}: not an archive as PyTorch writes it since version 1.6; load it there and "
            "save it again as model.safetensors"
        )
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = name.removesuffix("/data.pkl")
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed, which PyTorch does not do")
        with archive.open(name) as file:
            found = _TensorUnpickler(file, archive, folder).load()
    if not isinstance(found, dict) or not all(isinstance(x, np.ndarray) for x in found.values()):
        raise ValueError("not a mapping of names to tensors")
    return dict(found)


def _read_numpy(path):
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
