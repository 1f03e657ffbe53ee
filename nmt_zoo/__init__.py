"""Neural machine translation from IBM Model 1 to the Transformer, in TensorFlow and Keras.

    import nmt_zoo

    model = nmt_zoo.train(model_dir="runs/x", train_source="a.en", train_target="a.de")
    nmt_zoo.load("runs/x").translate(["A dog runs."])
    nmt_zoo.align(["a dog"], ["ein Hund"])

`nmt_zoo/models` and `nmt_zoo/data_pipeline` are links to the folders at the top of a clone.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = ["UserError", "align", "import_model", "load", "models", "register", "train"]

for _name in ("models", "data_pipeline"):
    if not Path(__file__).with_name(_name).is_dir():
        raise SystemExit(
            f"nmt_zoo/{_name} should be a link to ../{_name}, which unpacking lost; "
            "clone the repository with git, or copy the folder to that place"
        )


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from nmt_zoo import models
    from nmt_zoo.api import UserError, align, import_model, load, register, train
else:

    def __getattr__(name: str) -> Any:
        """Imports a public name when it is first used: TensorFlow takes seconds to start."""
        if name == "models":
            return importlib.import_module("nmt_zoo.models")
        if name in __all__:
            return getattr(importlib.import_module("nmt_zoo.api"), name)
        raise AttributeError(f"module 'nmt_zoo' has no attribute {name!r}")
