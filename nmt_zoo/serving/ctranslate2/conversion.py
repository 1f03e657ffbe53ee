"""Converts a Transformer to a model of CTranslate2, an inference engine in C++.

CTranslate2 (https://github.com/OpenNMT/CTranslate2) is an optional package. It is imported where it
is used.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_json, write_text
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, EOS_ID, UNK_ID
from nmt_zoo.decoding.search.types import SearchOptions
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models.transformer_settings import TRANSFORMERS, layer_order, transformer_settings

ABOUT = "export.json"
TOKENIZER = "tokenizer"
_README = """# A model for CTranslate2

`translate.py --export_dir=...` translates with it. A program of your own has
to do with each line what that script does:

1. remove the characters U+00AD, U+200B, U+2060 and U+FEFF;
2. make each run of white space, of any kind that Unicode knows, one space, with none at the ends;
3. {form};
4. split it with SentencePiece (`.model`) or at spaces (`.vocab`), and add `</s>`.

A translation is put together from its pieces, and then brought into the same form.

`translate_batch(..., return_attention=True)` returns the attention that aligns words best.
"""
# Settings of a Transformer that CTranslate2 has, too; activations by their names there.
POSITIONS = ("sinusoidal", "marian", "fairseq", "learned", "relative", "rotary")
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}
QUANTIZATIONS = ("float32", "int8", "bfloat16", "float16")
_MOST_LAYERS = 200  # As `models.base.require_layers`.


def ctranslate2_package() -> Any:
    """Imports and returns the package; raises `UserError` if it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            f"the Python package ctranslate2 cannot be imported ({error}); install it: "
            "pip install -r requirements-extra.txt"
        ) from None
    return ctranslate2


class Weights(NamedTuple):
    """A Transformer as CTranslate2 needs it, read without TensorFlow."""

    settings: dict[str, Any]  # Of `Transformer`, those that shape its computation at least.
    arrays: dict[str, np.ndarray]  # By name, such as "encoder/layer_0/self_attention/query/kernel".
    # (decoder layer, head or "mean") whose attention aligns, from 1, for `return_attention`.
    alignment: tuple[int, int | str] | None = None


def weights_in(directory: ModelDirectory) -> Weights:
    """Reads the best weights of a model directory.

    Raises UserError: CTranslate2 has no such model, or the weights are missing or damaged.
    """
    config = directory.config()
    preset = config["model"]
    if preset not in TRANSFORMERS:
        raise UserError(
            f"{directory.path} holds {preset}, which CTranslate2 does not have; presets that it "
            f"can run: {', '.join(TRANSFORMERS)}"
        )
    settings = transformer_settings(preset, config["settings"])
    if unknown := sorted({*settings} - {*transformer_settings(preset, {})}):
        raise UserError(
            f"{directory.config_path}: {preset} has no setting {unknown[0]!r}; restore the file, "
            "or use the version of nmt_zoo that wrote it"
        )
    names = ("positions", "scale_scores", "ssru")
    positions, is_scaled, has_ssru = map(settings.get, names)
    if positions not in POSITIONS or is_scaled is not True or has_ssru is not False:
        shown = ", ".join(f"{name}={settings[name]}" for name in names)
        raise UserError(
            f"{directory.path}: CTranslate2 has no model with {shown}; use --engine=tensorflow of "
            "translate.py and --format=savedmodel of export.py"
        )
    arrays = directory.finite_best().items()
    usual = {"layer": max(settings["num_decoder_layers"] - 1, 1), "head": "mean"}
    found = directory.chosen().get("alignment", usual)
    alignment = found["layer"], found["head"]
    return Weights(settings, {n.removeprefix("model/"): array for n, array in arrays}, alignment)


def write(
    weights: Weights,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    max_input_tokens: int,
    quantization: str,
    **about: Any,
) -> None:
    """Writes everything that translation with CTranslate2 needs into an empty folder.

    Besides the model, these are the tokenizer, a JSON file of facts, and a README.md. `about` holds
    facts to record, such as `config`, the model's configuration. Raises as `convert`.
    """
    facts = convert(weights, tokenizer, folder, max_input_tokens, quantization)
    (folder / TOKENIZER).mkdir()
    tokenizer.save(folder / TOKENIZER)
    forms = {"nfc": "bring it into Unicode normal form C", "none": "leave other characters alone"}
    write_text(folder / "README.md", _README.format(form=forms[tokenizer.source.form]))
    write_json(folder / ABOUT, {**about, **facts})


def convert(
    weights: Weights,
    tokenizer: Tokenizer,
    folder: Path,
    max_input_tokens: int,
    quantization: str = "float32",
) -> dict[str, Any]:
    """Writes `model.bin`, `config.json` and the vocabularies into a folder; returns facts about it.

    `max_input_tokens` is the longest source sentence, in tokens including `</s>`; `quantization`,
    the number format of the weights, is one of `QUANTIZATIONS`. CTranslate2 computes other
    sinusoids than the paper, so those of the model are stored, for `num_positions` tokens of either
    side.
    Raises UserError: the package is missing; OSError: a file cannot be written; ValueError,
    KeyError or TypeError: the weights do not fit the settings.
    """
    package, settings = ctranslate2_package(), weights.settings
    _check(weights, tokenizer)
    longest = int(SearchOptions().length_limit(max_input_tokens))
    num_positions = max(max_input_tokens, longest)
    spec = _spec(package, weights, num_positions, as_bfloat16=quantization == "bfloat16")
    if weights.alignment:
        _align(spec.decoder, *weights.alignment, settings["num_heads"])
    for register, vocabulary in (
        (spec.register_source_vocabulary, tokenizer.source),
        (spec.register_target_vocabulary, tokenizer.target),
    ):
        register(vocabulary.pieces(range(len(vocabulary))))
    unk, bos, eos = tokenizer.target.pieces([UNK_ID, BOS_ID, EOS_ID])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.layer_norm_epsilon = settings["norm_epsilon"]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    return {
        "max_input_tokens": max_input_tokens,
        "quantization": quantization,
        "parameters": sum(array.size for array in weights.arrays.values()),
        "alignment": weights.alignment,
        "num_positions": num_positions if _stores_positions(settings) else None,
    }


def _check(weights, tokenizer):
    """Raises `ValueError` if CTranslate2 could crash, which does not check what it loads."""
    settings, arrays, _ = weights
    width, heads = settings["width"], settings["num_heads"]
    table = arrays["target_embedding/embeddings"]
    tables = arrays.get("source_embedding/embeddings", table), table
    sizes = [(len(vocabulary), width) for vocabulary in (tokenizer.source, tokenizer.target)]
    fits = {
        "width": [table.shape for table in tables] == sizes,
        "num_heads": type(heads) is int and heads > 0 and width % heads == 0,
        "norm": settings["norm"] in ("post", "pre"),
        "activation": settings["activation"] in ACTIVATIONS,
    }
    for name in ("num_encoder_layers", "num_decoder_layers"):
        fits[name] = type(settings[name]) is int and 0 < settings[name] <= _MOST_LAYERS
    wrong = [f"{name}={settings[name]!r}" for name, is_right in fits.items() if not is_right]
    if wrong:
        raise ValueError(wrong[0])


def _spec(package, of_model, num_positions, as_bfloat16):
    settings, weights, _ = of_model
    width = weights["target_embedding/embeddings"].shape[1]
    positions = _sinusoids(num_positions, width, settings["positions"])
    if as_bfloat16:  # The package itself would need PyTorch to convert to this format.
        bfloat16 = np.dtype("bfloat16")
        weights = {path: array.astype(bfloat16) for path, array in weights.items()}
        positions = positions.astype(bfloat16)
    of_both = {
        "num_heads": settings["num_heads"],
        "pre_norm": settings["norm"] == "pre",
        "relative_position": settings["positions"] == "relative",
        "rotary_dim": 0 if settings["positions"] == "rotary" else None,  # 0: all units.
        "rotary_interleave": False,
        "activation": getattr(package.specs.Activation, ACTIVATIONS[settings["activation"]]),
        "layernorm_embedding": settings["norm_embeddings"],
    }
    spec = package.specs.TransformerSpec(
        package.specs.TransformerEncoderSpec(settings["num_encoder_layers"], **of_both),
        package.specs.TransformerDecoderSpec(settings["num_decoder_layers"], **of_both),
    )
    target = weights["target_embedding/embeddings"]
    spec.encoder.embeddings[0].weight = weights.get("source_embedding/embeddings", target)
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = (
        weights["output/kernel"].T if "output/kernel" in weights else target
    )
    bias = weights.get("output/bias", weights.get("output_bias"))
    if bias is not None:
        spec.decoder.projection.bias = bias
    for stack, side in ((spec.encoder, "source_input"), (spec.decoder, "target_input")):
        stack.scale_embeddings = settings["scale_embeddings"]
        if settings["norm_embeddings"]:
            _set_norm(stack.layernorm_embedding, weights, f"{side}/norm")
        if settings["positions"] == "learned":
            # As in our model, the last position serves all later ones, too.
            learned = weights[f"{side}/positions/vectors"]
            rest = max(num_positions - len(learned), 0)
            stack.position_encodings.encodings = np.pad(learned, ((0, rest), (0, 0)), "edge")
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        if _stores_positions(settings) and settings["positions"] != "learned":
            stack.position_encodings.encodings = positions
        if settings["norm"] == "pre":
            _set_norm(stack.layer_norm, weights, f"{name}/norm")
        sharing = settings["distinct_layers"], settings["share_layers"]
        order = layer_order(len(stack.layer), *sharing)
        for layer, ours in zip(stack.layer, order, strict=True):
            _set_layer(layer, weights, f"{name}/layer_{ours}")
    return spec


def _align(decoder, layer, head, num_heads):
    """Chooses the attention that `return_attention` shows: the mean of the first heads of a layer.

    A head that aligns alone becomes the first, which leaves the layer's output as it is.
    """
    count = num_heads if head == "mean" else 1
    decoder.alignment_layer, decoder.alignment_heads = np.int16(layer - 1), np.int16(count)
    order = list(range(num_heads))
    if head != "mean":
        order.insert(0, order.pop(head - 1))
    *inputs, output = decoder.layer[layer - 1].attention.linear
    for linear in inputs:  # Of queries; of keys and values.
        for name in ("weight", "bias"):
            rows = getattr(linear, name)
            by_head = rows.reshape(
                -1, num_heads, output.weight.shape[0] // num_heads, *rows.shape[1:]
            )
            setattr(linear, name, by_head[:, order].reshape(rows.shape))
    columns = output.weight.reshape(len(output.weight), num_heads, -1)
    output.weight = columns[:, order].reshape(output.weight.shape)


def _stores_positions(settings):
    """Returns whether a model's positions are stored; all others are computed for any length."""
    return settings["positions"] not in ("relative", "rotary")


def _sinusoids(num_positions, width, kind):
    """Returns `models.layers.embeddings.sinusoidal_positions`, `[num_positions, width]` float32."""
    steepness = width / 2 / max(width / 2 - 1, 1) if kind == "fairseq" else 1.0
    slope = np.float32(-math.log(1e4) / width * steepness)
    steps = slope * np.arange(0, width, 2, dtype=np.float32)
    places = np.arange(num_positions, dtype=np.float32) + (2 if kind == "fairseq" else 0)
    angles = places[:, None] * np.exp(steps)
    waves = np.sin(angles), np.cos(angles)
    if kind == "sinusoidal":
        return np.stack(waves, axis=-1).reshape(-1, width)
    return np.concatenate(waves, axis=-1)


def _set_layer(layer, weights, path):
    """Sets the weights of a layer of the encoder or decoder; `path` is its name in our model."""
    is_decoder = f"{path}/cross_attention/query/kernel" in weights
    _set_linear(layer.self_attention.linear[0], weights, f"{path}/self_attention", *_QKV)
    _set_linear(layer.self_attention.linear[1], weights, f"{path}/self_attention", "output")
    _set_distances(layer.self_attention, weights, f"{path}/self_attention/attention", is_decoder)
    around = "around_self_attention" if is_decoder else "around_attention"
    _set_norm(layer.self_attention.layer_norm, weights, f"{path}/{around}/norm")
    if is_decoder:
        query, *memory = _QKV
        for linear, names in zip(
            layer.attention.linear, ([query], memory, ["output"]), strict=True
        ):
            _set_linear(linear, weights, f"{path}/cross_attention", *names)
        around = f"{path}/around_cross_attention/norm"
        _set_norm(layer.attention.layer_norm, weights, around)
    _set_linear(layer.ffn.linear_0, weights, f"{path}/feed_forward", "inner")
    _set_linear(layer.ffn.linear_1, weights, f"{path}/feed_forward", "outer")
    _set_norm(layer.ffn.layer_norm, weights, f"{path}/around_feed_forward/norm")


def _set_distances(attention, weights, path, is_decoder):
    if f"{path}/key_vectors" not in weights:
        return
    keys, values = (weights[f"{path}/{name}_vectors"] for name in ("key", "value"))
    if is_decoder:  # CTranslate2 has vectors of later positions, too, which a decoder never sees.
        keys, values = (np.pad(array, ((0, len(array) - 1), (0, 0))) for array in (keys, values))
    attention.relative_position_keys, attention.relative_position_values = keys, values


_QKV = ("query", "key", "value")


def _set_linear(linear, weights, path, *names):
    """Sets one projection, or several of the same input side by side."""
    linear.weight = np.concatenate([weights[f"{path}/{name}/kernel"].T for name in names])
    linear.bias = np.concatenate([weights[f"{path}/{name}/bias"] for name in names])


def _set_norm(norm, weights, path):
    norm.gamma, norm.beta = weights[f"{path}/gamma"], weights[f"{path}/beta"]
