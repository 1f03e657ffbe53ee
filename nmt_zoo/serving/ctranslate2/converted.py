"""A model directory that CTranslate2 translates with; it is converted when it is loaded."""

import tempfile
from pathlib import Path
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.translator import MAX_INPUT_TOKENS
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models.transformer_settings import TRANSFORMERS, transformer_settings
from nmt_zoo.serving.ctranslate2.conversion import (
    ACTIVATIONS,
    POSITIONS,
    Weights,
    convert,
    longest_translation,
    stores_positions,
)
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Model

_MOST_LAYERS = 200  # As `models.base.require_layers`.


class ConvertedModel(ModelDirectory):
    """A model directory of a Transformer; needs no TensorFlow, and keeps no converted file.

    `max_input_tokens` is the longest line that is translated, in tokens with `</s>`; `languages`
    are as of `ModelDirectory.tokenizer`.
    """

    needs_keras = False

    def __init__(
        self,
        path: str | Path,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(path)
        self.max_input_tokens = max_input_tokens
        self.languages = languages

    def load(self, **_: Any) -> tuple[CTranslate2Model, Tokenizer, dict[str, Any]]:
        """Converts the best weights; returns (model, tokenizer, configuration).

        Raises UserError: the package is missing, another model than a Transformer, a damaged file,
        or weights that do not fit the configuration.
        """
        config = {**self.config(), "length_penalty": self.length_penalty()}
        preset = config["model"]
        if preset not in TRANSFORMERS:
            raise UserError(
                f"{self.path} holds {preset}, which CTranslate2 does not have; presets that it can "
                f"run: {', '.join(TRANSFORMERS)}"
            )
        tokenizer = self.tokenizer(self.languages)
        arrays = {name.removeprefix("model/"): array for name, array in self.finite_best().items()}
        weights = Weights(transformer_settings(preset, config["settings"]), arrays)
        num_positions = longest_translation(self.max_input_tokens)
        about = {"max_input_tokens": self.max_input_tokens, "parameters": weights.count}
        about["num_positions"] = num_positions if stores_positions(weights.settings) else None
        with tempfile.TemporaryDirectory() as folder:
            try:
                _check(weights, tokenizer)
                convert(weights, tokenizer, Path(folder), num_positions=num_positions)
            except (KeyError, ValueError, TypeError) as error:
                raise UserError(
                    f"{self.best_path}: does not fit config.json ({error}); restore the files with "
                    "which the model was trained"
                ) from None
            return CTranslate2Model(Path(folder), tokenizer, about), tokenizer, config


def _check(weights, tokenizer):
    """Raises `ValueError` if CTranslate2 could crash, which does not check what it loads."""
    settings, arrays = weights
    width, heads = settings["width"], settings["num_heads"]
    table = arrays["target_embedding/embeddings"]
    sizes = [len(tokenizer.source), width], [len(tokenizer.target), width]
    fits = {
        "width": list(arrays.get("source_embedding/embeddings", table).shape) == sizes[0]
        and list(table.shape) == sizes[1],
        "num_heads": type(heads) is int and heads > 0 and width % heads == 0,
        "norm": settings["norm"] in ("post", "pre"),
        "positions": settings["positions"] in POSITIONS,
        "scale_scores": settings["scale_scores"] is True,
        "activation": settings["activation"] in ACTIVATIONS,
    }
    for name in ("num_encoder_layers", "num_decoder_layers"):
        fits[name] = type(settings[name]) is int and 0 < settings[name] <= _MOST_LAYERS
    wrong = [f"{name}={settings[name]!r}" for name, is_right in fits.items() if not is_right]
    if wrong:
        raise ValueError(wrong[0])
