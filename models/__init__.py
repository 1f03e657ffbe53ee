"""Translation models: ids in, tensors out.

`create(preset, source_vocab_size, target_vocab_size)` makes a model; `models.base.TranslationModel`
defines the interface that all translation models share.
"""

from nmt_zoo.models.base import Searchable, SettingError, StepOutput, TranslationModel, shift_right
from nmt_zoo.models.presets import (
    LANGUAGE_MODELS,
    PRESETS,
    check_settings,
    create,
    model_class,
    preset_names,
    preset_settings,
    sketch,
    weight_shapes,
    why_unread,
)

__all__ = [
    "LANGUAGE_MODELS",
    "PRESETS",
    "Searchable",
    "SettingError",
    "StepOutput",
    "TranslationModel",
    "check_settings",
    "create",
    "model_class",
    "preset_names",
    "preset_settings",
    "shift_right",
    "sketch",
    "weight_shapes",
    "why_unread",
]
