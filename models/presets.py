"""Named models: a class and its settings, where they are from and what to expect of them."""

import inspect

from models.base import SettingError
from models.transformer import Transformer


def _transformer(layers, width, heads, ffn_width, dropout, **settings):
    return {
        "num_encoder_layers": layers,
        "num_decoder_layers": layers,
        "width": width,
        "num_heads": heads,
        "ffn_width": ffn_width,
        "dropout": dropout,
        **settings,
    }


# name: (class, settings, one line: origin; what it scores)
PRESETS = {
    "transformer_tiny": (
        Transformer,
        # Pre-norm, because at this size post-norm learns to attend much later.
        _transformer(4, 128, 4, 256, 0.3, norm="pre"),
        "Wu et al. 2021, pre-norm; published 41.02 lower-cased BLEU on Multi30k en-de test2016",
    ),
    "transformer_small": (
        Transformer,
        _transformer(3, 256, 4, 1024, 0.1, norm="pre"),
        "3 + 3 layers for two CPU cores and for benchmarks; no published score",
    ),
    "transformer_base": (
        Transformer,
        _transformer(6, 512, 8, 2048, 0.1),
        "Vaswani et al. 2017, table 3; published 27.3 BLEU on WMT14 en-de",
    ),
    "transformer_big": (
        Transformer,
        _transformer(6, 1024, 16, 4096, 0.3),
        "Vaswani et al. 2017, table 3; published 28.4 BLEU on WMT14 en-de",
    ),
}


def preset_names():
    """Names of all presets, in the order of their history."""
    return list(PRESETS)


def preset_settings(preset):
    """Every setting of a preset that may be overridden, with its value.

    Raises:
        SettingError: no such preset.
    """
    if preset not in PRESETS:
        raise SettingError(f"unknown model {preset!r}; there are {', '.join(PRESETS)}")
    model_class, settings, _ = PRESETS[preset]
    parameters = inspect.signature(model_class.__init__).parameters.values()
    reserved = ("pad_id", "bos_id")
    defaults = {
        p.name: p.default
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name not in reserved
    }
    return {**defaults, **settings}


def create(preset, source_vocab_size, target_vocab_size, **overrides):
    """Builds a model with fresh weights.

    Args:
        preset: one of `preset_names()`.
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
        **overrides: settings of the model's constructor; also `pad_id`, `bos_id`, `dtype`, `name`.

    Returns:
        `TranslationModel`, built.

    Raises:
        SettingError: no such preset or setting, or a value of the wrong type or range.

    Example:
        >>> create("transformer_tiny", 1000, 1000, num_decoder_layers=2).count_params() > 0
        True
    """
    settings = preset_settings(preset)
    always = ("pad_id", "bos_id", "dtype", "name")
    for name, value in overrides.items():
        if name in always:
            continue
        if name not in settings:
            raise SettingError(
                f"{preset} has no setting {name!r}; valid: {', '.join(sorted(settings))}"
            )
        default = settings[name]
        fits = isinstance(value, type(default)) or (
            isinstance(default, float) and isinstance(value, int)
        )
        if not fits or (isinstance(value, bool) != isinstance(default, bool)):
            raise SettingError(
                f"setting {name} of {preset} takes a value like {default!r}, found {value!r}"
            )
    return PRESETS[preset][0](source_vocab_size, target_vocab_size, **{**settings, **overrides})
