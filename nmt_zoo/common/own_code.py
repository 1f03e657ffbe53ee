"""Python files of the user's own, which call `nmt_zoo.register`."""

import importlib.util
import sys
from pathlib import Path

from nmt_zoo.common.errors import UserError

_LOADED: list[str] = []  # Absolute paths.


def load(path: str) -> None:
    """Runs a Python file, unless this process has done so before.

    Raises UserError: there is no such file.
    """
    file = Path(path).resolve()
    if str(file) in _LOADED:
        return
    if not file.is_file():
        raise UserError(
            f"{path}: there is no such file; it holds code of your own. For a trained model, put "
            "it back there, or write its place under `code` in config.json"
        )
    spec = importlib.util.spec_from_file_location(f"own_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    _LOADED.append(str(file))


def record() -> dict[str, list[str]]:
    """Returns the entry of config.json that names the files loaded so far; empty without any."""
    return {"code": list(_LOADED)} if _LOADED else {}
