"""Reads models in Marian's own form, as OPUS-MT publishes them in archives.

A folder has decoder.yml, which names the weights (`.npz`) and the vocabularies (`.yml`), and the
SentencePiece models source.spm and target.spm. The settings are in the file of weights.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.model_directory.pretrained.entries import Listed
from nmt_zoo.model_directory.pretrained.hugging_face import (
    MASKED,
    by_id,
    languages_of_tags,
    read_tensors,
)
from nmt_zoo.model_directory.weight_files import Arrays

DECODER = "decoder.yml"
_CONFIG = "special:model.yml"
_NORMS = {"post": ("", "dan", ""), "pre": ("n", "da", "n")}
_ACTIVATIONS = ("relu", "swish")  # Marian's gelu is an approximation, which ours is not.
# Settings that have to have these values, where they are given.
_FIXED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": ("false",),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-train-position-embeddings": ("false",),
    "transformer-train-positions": ("false",),
    "tied-embeddings-all": ("true",),
    "lemma-dim-emb": ("0",),
    "factors-combine": ("sum",),
}
_ATTENTIONS = {"self": "self_attn", "context": "encoder_attn"}
_PROJECTIONS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
_NORM_NAMES = {
    "self_Wo": "self_attn_layer_norm",
    "context_Wo": "encoder_attn_layer_norm",
    "ffn_ffn": "final_layer_norm",
    "emb": "layernorm_embedding",
    "top": "layer_norm",
}
_PRODUCT = re.compile(r"(encoder|decoder)_l(\d+)_(self|context|ffn)_([Wb])([qkvo12])")
_NORM = re.compile(
    rf"(encoder|decoder)_(?:l(\d+)_)?({'|'.join(_NORM_NAMES)})_ln_(scale|bias)(?:_pre)?"
)
_ENTRY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?): *(\d+)""")


def read_folder(folder: Path) -> tuple[dict[str, Any], list[Listed], Arrays]:
    """Returns settings of our `Transformer`, entries, and tensors by their names on the hub.

    Raises UserError: a file is missing or damaged, or the model computes what ours cannot.
    """
    named = _fields(read_lines(folder / DECODER))
    (weights, *several), vocabularies = (
        _files(named.get(key, []), folder, folder / DECODER) for key in ("models", "vocabs")
    )
    if several or len({*vocabularies}) > 1:
        raise UserError(
            f"{folder / DECODER}: several models, or a vocabulary for each side; expected one "
            "model with one vocabulary"
        )
    arrays = read_tensors(weights)
    if _CONFIG not in arrays:
        raise UserError(f"{weights}: no {_CONFIG}; expected a model of Marian")
    text = arrays.pop(_CONFIG).tobytes().rstrip(b"\0").decode(errors="replace")
    config = _fields(text.splitlines())
    settings = _settings(config, weights)
    table = arrays.pop("Wemb", None)
    if table is None or table.ndim != 2:
        raise UserError(f"{weights}: no table of embeddings, Wemb")
    pieces = [*_vocabulary(vocabularies[0], len(table)), None]
    padding = len(table)  # It is not in the file: the decoder starts with zeros.
    if not {"</s>", "<unk>"} <= {*pieces}:
        raise UserError(f"{vocabularies[0]}: no entries </s> and <unk>")
    tensors = _by_names_of_the_hub(arrays)
    tensors["model.shared.weight"] = np.pad(table, ((0, 1), (0, 0)))
    bias = tensors.get("final_logits_bias", np.zeros(padding, np.float32)).reshape(-1)
    tensors["final_logits_bias"] = np.pad(bias, (0, 1), constant_values=MASKED)
    ends = pieces.index("<unk>"), padding, pieces.index("</s>")
    files = [folder / "source.spm", folder / "target.spm"]
    return settings, [Listed(pieces, padding, *ends, files, languages_of_tags(pieces))], tensors


def _fields(lines):
    """Reads the keys of YAML without indentation; a value is a text, or a list of texts."""
    fields, key = {}, ""
    for line in lines:
        if item := re.fullmatch(r" *- *(.*)", line):
            if not isinstance(fields.get(key), list):
                fields[key] = []
            fields[key].append(item[1].strip().strip("\"'"))
        elif pair := re.fullmatch(r"([\w:-]+): *(.*)", line):
            key = pair[1]
            fields[key] = pair[2].strip().strip("\"'")
    return fields


def _files(names, folder, path):
    """Returns the paths of files in the folder; refuses names that lead elsewhere."""
    if not isinstance(names, list) or not names:
        raise UserError(f"{path}: expected lists of `models` and `vocabs`")
    for name in names:
        if Path(name).name != name:
            raise UserError(f"{path}: {name!r}: expected the name of a file in the same folder")
    return [folder / name for name in names]


def _settings(config, path):
    for name, values in _FIXED.items():
        if config.get(name, values[0]) not in values:
            raise UserError(
                f"{path}: {name} is {config[name]!r}; only models with {' or '.join(values)} are "
                "read"
            )
    order = tuple(
        config.get(f"transformer-{name}", "")
        for name in ("preprocess", "postprocess", "postprocess-top")
    )
    norms = [norm for norm, expected in _NORMS.items() if order == expected]
    activation = config.get("transformer-ffn-activation", "")
    if not norms or activation not in _ACTIVATIONS:
        raise UserError(
            f"{path}: normalisation {order} and activation {activation!r}; expected one of "
            f"{[*_NORMS.values()]} and of {', '.join(_ACTIVATIONS)}"
        )
    try:
        sizes = {
            ours: int(config[theirs])
            for ours, theirs in {
                "num_encoder_layers": "enc-depth",
                "num_decoder_layers": "dec-depth",
                "width": "dim-emb",
                "num_heads": "transformer-heads",
                "ffn_width": "transformer-dim-ffn",
            }.items()
        }
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: {_CONFIG} has no number for {error}") from None
    return {
        **sizes,
        "dropout": 0.1,
        "tie_embeddings": "all",
        "activation": activation,
        "scale_embeddings": True,
        "norm": norms[0],
        "norm_embeddings": "n" in config.get("transformer-postprocess-emb", ""),
        "norm_epsilon": 1e-6,
        "positions": "marian",
        "output_bias": True,
    }


def _vocabulary(path, size):
    """Reads a vocabulary of Marian: a piece, quoted where YAML asks for it, and its id a line."""
    ids, key = {}, None
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith("? "):  # A long piece; its id follows in a line of its own.
            key = line[2:]
            continue
        match = _ENTRY.fullmatch(line if key is None else f"{key}{line}")
        if match is None:
            raise UserError(f"{path}, line {number}: {line[:60]!r}; expected a piece and its id")
        ids[_unquoted(match[1])], key = int(match[2]), None
    return by_id(ids, size, path)


def _unquoted(text):
    if text.startswith('"') and len(text) > 1:
        simple = re.sub(r"\\x([0-9A-Fa-f]{2})", r"\\u00\1", text)
        try:
            return json.loads(re.sub(r'\\([^u"\\/bfnrt])', r"\1", simple))
        except ValueError:
            return text[1:-1]
    return text[1:-1].replace("''", "'") if text.startswith("'") and len(text) > 1 else text


def _by_names_of_the_hub(arrays):
    """Renames the tensors of all layers, with `weight` as `[out, in]`; others keep their names."""
    tensors = {}
    for name, array in arrays.items():
        if match := _PRODUCT.fullmatch(name):
            side, layer, part, kind, which = match.groups()
            ours = f"fc{which}" if part == "ffn" else f"{_ATTENTIONS[part]}.{_PROJECTIONS[which]}"
        elif match := _NORM.fullmatch(name):
            side, layer, part, kind = match.groups()
            ours = _NORM_NAMES[part]
        else:  # What has no use is refused by name later.
            tensors[{"decoder_ff_logit_out_b": "final_logits_bias"}.get(name, name)] = array
            continue
        where = f"model.{side}" + (f".layers.{int(layer) - 1}" if layer else "")
        ending = "weight" if kind in ("W", "scale") else "bias"
        tensors[f"{where}.{ours}.{ending}"] = array.T if kind == "W" else array.squeeze()
    return tensors
