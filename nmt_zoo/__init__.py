"""Neural machine translation from IBM Model 1 to the Transformer, in TensorFlow and Keras.

    import nmt_zoo

    model = nmt_zoo.train(model_dir="runs/x", train_source="a.en", train_target="a.de")
    nmt_zoo.load("runs/x").translate(["A dog runs ."])
    nmt_zoo.align(["a dog"], ["ein Hund"])

In a clone, the rooms (`models`, `data_pipeline`, ...) lie beside this folder; in an installed
package they lie inside it. Both are `nmt_zoo.models`, `nmt_zoo.data_pipeline`, and so on.
"""

import importlib
from pathlib import Path
from typing import Any

__all__ = ["UserError", "align", "load", "models", "register", "train"]

_HERE = Path(__file__).resolve().parent
if not (_HERE / "models").exists():
    __path__.append(str(_HERE.parent))


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: TensorFlow takes seconds to start."""
    if name == "models":
        return importlib.import_module("nmt_zoo.models")
    if name in __all__:
        return getattr(importlib.import_module("nmt_zoo.api"), name)
    raise AttributeError(f"module 'nmt_zoo' has no attribute {name!r}")
