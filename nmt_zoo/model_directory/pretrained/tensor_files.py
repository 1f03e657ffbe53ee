"""Reads files of weights of other toolkits as NumPy arrays: safetensors, PyTorch's and NumPy's."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath
from nmt_zoo.model_directory.weight_files import Arrays


def read_tensors(path: FilePath) -> Arrays:
    """Reads all tensors of a file ending in `.safetensors`, `.bin` or `.npz`; floats as float32.

    Nothing in a file is executed. Raises UserError: the file cannot be read, is damaged, contains
    something else, or ends in `.bin` and PyTorch is not installed.
    """
    path = Path(path)
    readers = {".safetensors": load_file, ".bin": _read_torch, ".npz": _read_numpy}
    try:
        tensors = readers[path.suffix](path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # Readers of zip files and pickles raise many types for damage.
        if isinstance(error, MemoryError | UserError):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: damaged, or no file of weights ({reason})") from None
    return {
        name: array if array.dtype.kind in "biu" else array.astype(np.float32)
        for name, array in tensors.items()
    }


def _read_torch(path):
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(
            f"{path}: PyTorch's own form, which only PyTorch reads; install it (pip install "
            "torch), or convert the file to model.safetensors"
        ) from None
    state = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.detach().float().numpy() for name, tensor in state.items()}


def _read_numpy(path):
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
