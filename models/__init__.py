"""Translation models: ids in, tensors out.

`create(preset, source_vocab_size, target_vocab_size)` makes one; `models.base.TranslationModel`
says what every one of them can do.
"""

from models.base import SettingError, StepOutput, TranslationModel, shift_right
from models.presets import (
    LANGUAGE_MODELS,
    PRESETS,
    check_settings,
    create,
    model_class,
    preset_names,
    preset_settings,
    weight_shapes,
)

__all__ = [
    "LANGUAGE_MODELS",
    "PRESETS",
    "SettingError",
    "StepOutput",
    "TranslationModel",
    "check_settings",
    "create",
    "model_class",
    "preset_names",
    "preset_settings",
    "shift_right",
    "weight_shapes",
]
