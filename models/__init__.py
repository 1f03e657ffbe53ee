"""Translation models: ids in, tensors out.

`create(preset, source_vocab_size, target_vocab_size)` makes a model; `models.base.TranslationModel`
defines the interface that all translation models share.
"""

import importlib
from typing import Any

_BASE = (
    *("LARGEST", "Searchable", "SettingError", "StepOutput", "TranslationModel", "shift_right"),
)
_PRESETS = (
    *("LANGUAGE_MODELS", "PRESETS", "check_settings", "create", "model_class"),
    *("preset_settings", "sketch", "why_unread"),
)
__all__ = [*_BASE, *_PRESETS]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: Keras takes seconds to start."""
    if name not in __all__:
        raise AttributeError(f"module 'nmt_zoo.models' has no attribute {name!r}")
    module = importlib.import_module(f"nmt_zoo.models.{'base' if name in _BASE else 'presets'}")
    return getattr(module, name)
