"""Reads models in the form of Hugging Face's hub: OPUS-MT, M2M-100, SMaLL-100, NLLB and mBART-50.

config.json tells the sizes, tensors are in `model.safetensors` or `pytorch_model.bin`, pieces in
SentencePiece models and `vocab.json`.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, read_bytes
from nmt_zoo.data_pipeline.tokenization.languages import Languages
from nmt_zoo.data_pipeline.tokenization.sentencepiece_models import TAG, pieces_of
from nmt_zoo.model_directory.pretrained.entries import Entries, Listed
from nmt_zoo.model_directory.weight_files import Arrays

WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # The first one that is there is read.
# The other files that are read, where they are there.
SMALL_FILES = (
    *("config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("generation_config.json", "vocab.json", "target_vocab.json", "source.spm", "target.spm"),
    *("sentencepiece.bpe.model", "tokenizer.json", "README.md"),
    *(f"{name}.index.json" for name in WEIGHTS),
)
_KINDS = {
    "marian": {"positions": "marian", "norm": "post"},
    "m2m_100": {"positions": "fairseq", "norm": "pre"},
    "mbart": {"positions": "learned", "norm": "pre", "norm_embeddings": True},
}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Fields of config.json that are sizes or ids. Of the others, a model of these types reads no more
# than `settings_of` does.
_SIZES = (
    *("d_model", "vocab_size", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
    *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
)
_SUBLAYERS = {
    "encoder": {"self_attn_layer_norm": "around_attention/norm"},
    "decoder": {
        "self_attn_layer_norm": "around_self_attention/norm",
        "encoder_attn_layer_norm": "around_cross_attention/norm",
    },
}
_PARTS = {
    "self_attn.q_proj": "self_attention/query",
    "self_attn.k_proj": "self_attention/key",
    "self_attn.v_proj": "self_attention/value",
    "self_attn.out_proj": "self_attention/output",
    "encoder_attn.q_proj": "cross_attention/query",
    "encoder_attn.k_proj": "cross_attention/key",
    "encoder_attn.v_proj": "cross_attention/value",
    "encoder_attn.out_proj": "cross_attention/output",
    "fc1": "feed_forward/inner",
    "fc2": "feed_forward/outer",
    "final_layer_norm": "around_feed_forward/norm",
}
# The languages of M2M-100 in the order of their ids, which no file tells.
_M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms "
    "my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur "
    "uz vi wo xh yi yo zh zu"
)
# Those of mBART-50.
_MBART_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "
    "lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL "
    "hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN "
    "th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
_LARGEST = 10_000_000  # Far above the sizes of any model of these kinds.
# A logit that is never the largest, and leaves all probabilities as they are. Not -1e9: label
# smoothing in fine-tuning asks each entry for a share.
MASKED = -30.0
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # The first entries of fairseq's vocabularies.


def read_json(path: Path) -> Any:
    """Reads a JSON file; raises `UserError` if it is damaged or no object."""
    try:
        record = json.loads(read_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged ({str(error)[:100]}); expected JSON") from None
    if not isinstance(record, dict):
        raise UserError(f"{path}: expected an object, {{...}}")
    return record


def read_folder(folder: Path) -> tuple[dict[str, Any], list[Listed], Arrays]:
    """Returns settings of our `Transformer`, the entries of the vocabularies, and all tensors.

    There is one vocabulary for both sides, or one for each.
    Raises UserError: a file is missing or damaged, or the model computes what ours cannot.
    """
    path = folder / "config.json"
    config = read_json(path)
    settings = settings_of(config, path)
    return settings, listed_entries(config, folder), read_weights(folder)


def settings_of(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Returns the settings of our `Transformer` for a config.json, whose path errors name.

    Raises UserError: a model of another kind, or a value out of its range.
    """
    kind = config.get("model_type")
    if kind not in _KINDS:
        raise UserError(
            f"{path}: a model of the type {kind!r}; expected one of {', '.join(_KINDS)}"
        )
    for name in _SIZES:
        if type(config.get(name)) is not int or not 0 <= config[name] <= _LARGEST:
            raise UserError(
                f"{path}: {name} is {config.get(name)!r}, not a whole number up to {_LARGEST:,}"
            )
    for name in ("attention_heads", "ffn_dim"):
        both = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if both[0] != both[1]:
            raise UserError(
                f"{path}: {name} of encoder and decoder are {both[0]} and {both[1]}; models with "
                "different ones are not read"
            )
    activation = config.get("activation_function", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{path}: activation_function is {activation!r}; expected one of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    is_learned = _KINDS[kind]["positions"] == "learned"
    return {
        "num_encoder_layers": config["encoder_layers"],
        "num_decoder_layers": config["decoder_layers"],
        "width": config["d_model"],
        "num_heads": config["encoder_attention_heads"],
        "ffn_width": config["encoder_ffn_dim"],
        "dropout": _rate(config, "dropout", path),
        "attention_dropout": _rate(config, "attention_dropout", path),
        "ffn_dropout": _rate(config, "activation_dropout", path),
        "tie_embeddings": "all" if _is_shared(config) else "target",
        "activation": _ACTIVATIONS[activation],
        "scale_embeddings": bool(config.get("scale_embedding", False)),
        "norm_epsilon": 1e-5,
        "output_bias": True,
        **_KINDS[kind],
        **({"max_positions": config["max_position_embeddings"]} if is_learned else {}),
    }


def _rate(config, name, path):
    rate = config.get(name, 0.0)
    if type(rate) not in (int, float) or not 0 <= rate < 1:
        raise UserError(f"{path}: {name} is {rate!r}, expected a number from 0 to 1")
    return float(rate)


def listed_entries(config: dict[str, Any], folder: Path) -> list[Listed]:
    """Finds the entries of the vocabulary in the files of a folder.

    Raises UserError: a file is missing or damaged, or an id is out of range.
    """
    if config["model_type"] == "marian":
        return _of_marian(config, folder)
    names = [folder / "sentencepiece.bpe.model"]
    model, size = read_bytes(names[0]), config["vocab_size"]
    if config["model_type"] == "m2m_100" and (folder / "vocab.json").exists():
        pieces = by_id(read_json(folder / "vocab.json"), size, folder / "vocab.json")
        tokens = [f"__{language}__" for language in _M2M_LANGUAGES.split()]
        first = max(i for i, piece in enumerate(pieces) if piece is not None) + 1
    else:
        pieces = [*_FAIRSEQ, *pieces_of(model, names[0])]
        first = len(pieces)
        pieces = [*pieces, *[None] * (size - len(pieces))][:size]
        tokens = _MBART_LANGUAGES.split() if config["model_type"] == "mbart" else []
    added = _added_tokens(folder)
    if not added:
        added = {token: first + i for i, token in enumerate(tokens)}
    for piece, i in added.items():
        if not (type(i) is int and 0 <= i < size):
            raise UserError(f"{folder}: the token {piece!r} has the id {i!r}, not below {size}")
        pieces[i] = piece
    path = folder / "tokenizer_config.json"
    kind = read_json(path).get("tokenizer_class") if path.exists() else None
    signs = {_language(piece): piece for piece in pieces if piece and _language(piece)}
    languages = Languages(signs, kind == "SMALL100Tokenizer") if signs else None
    unk, start = _FAIRSEQ.index("<unk>"), config["decoder_start_token_id"]
    pad, eos = config["pad_token_id"], config["eos_token_id"]
    return [Listed(pieces, pad, unk, start, eos, names, languages)]


def _of_marian(config, folder):
    if not (folder / "source.spm").exists():
        raise UserError(
            f"{folder}: no source.spm; models of OPUS-MT that split words with subword-nmt are not "
            "read"
        )
    files = [folder / "source.spm", folder / "target.spm"]
    source, start = config["vocab_size"], config["decoder_start_token_id"]
    if _is_shared(config):
        return [_listed_by_marian(config, folder / "vocab.json", source, start, files)]
    target = config.get("decoder_vocab_size", source)
    return [
        _listed_by_marian(config, folder / "vocab.json", source, config["pad_token_id"], files[:1]),
        _listed_by_marian(config, folder / "target_vocab.json", target, start, files[1:]),
    ]


def _is_shared(config):
    return config.get("share_encoder_decoder_embeddings", True)


def _listed_by_marian(config, path, size, start, files):
    if type(size) is not int or not 0 <= size <= _LARGEST:
        raise UserError(f"{path.parent}: {size!r} entries, not a whole number up to {_LARGEST:,}")
    pieces = by_id(read_json(path), size, path)
    if "<unk>" not in pieces:
        raise UserError(f"{path}: no entry '<unk>'")
    # In a vocabulary of the target alone, padding has an id of its own.
    of_target = path.name != "vocab.json" and "<pad>" in pieces
    pad = pieces.index("<pad>") if of_target else config["pad_token_id"]
    unk, eos = pieces.index("<unk>"), config["eos_token_id"]
    return Listed(pieces, pad, unk, start, eos, files, languages_of_tags(pieces))


def languages_of_tags(pieces: list[str | None]) -> Languages | None:
    """Returns the languages whose tags, such as `>>deu<<`, are among the entries; None: none."""
    tags = [piece for piece in pieces if piece and TAG.fullmatch(f"▁{piece}")]
    return Languages.of_tags(tags) if tags else None


def by_id(vocabulary: dict[str, Any], size: int, path: Path) -> list[str | None]:
    """Turns piece -> id into a list of `size` pieces; None where an id has no piece."""
    pieces: list[str | None] = [None] * size
    for piece, i in vocabulary.items():
        if not (type(i) is int and 0 <= i < size) or pieces[i] is not None:
            raise UserError(
                f"{path}: {piece!r} has the id {i!r}; expected different ids below the vocab_size "
                f"of config.json, {size}"
            )
        pieces[i] = piece
    return pieces


def _added_tokens(folder):
    """Returns the ids of languages and other added tokens; {} if no file has them."""
    ids = {}
    config, added, whole = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in ("tokenizer_config.json", "added_tokens.json", "tokenizer.json")
    )
    try:
        ids = {x["content"]: x["id"] for x in whole.get("added_tokens", [])}
        ids.update(added)
        of_config = config.get("added_tokens_decoder", {})
        ids.update({token["content"]: int(i) for i, token in of_config.items()})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"{folder}: damaged list of added tokens ({error})") from None
    return ids if any(_language(piece) for piece in ids) else {}


_LANGUAGE = re.compile("__([a-z]{2,3})__|([a-z]{2}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})")


def _language(piece):
    match = _LANGUAGE.fullmatch(piece)
    return next(filter(None, match.groups())) if match else None


def read_weights(folder: Path) -> Arrays:
    """Reads all tensors of a model, from one file or from those that an index names."""
    for name in WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return read_tensors(folder / name)
        if index.exists():
            tensors = {}
            for file in weight_files(index):
                tensors.update(read_tensors(folder / file))
            return tensors
    raise UserError(f"{folder}: no weights; expected {' or '.join(WEIGHTS)}")


def read_tensors(path: FilePath) -> Arrays:
    """Reads all tensors of a file ending in `.safetensors`, `.bin` or `.npz`; floats as float32.

    Nothing in a file is executed. Raises UserError: the file cannot be read, is damaged, contains
    something else, or ends in `.bin` and PyTorch is not installed.
    """
    path = Path(path)
    readers = {".safetensors": load_file, ".bin": _read_torch, ".npz": _read_numpy}
    try:
        if path.exists() and not path.is_file():  # A pipe or a device may never end.
            raise UserError(f"{path}: not a regular file")
        tensors = readers[path.suffix](path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # Readers of zip files and pickles raise many types for damage.
        if isinstance(error, MemoryError | UserError):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: damaged, or no file of weights ({reason})") from None
    return {
        name: array if array.dtype.kind in "biu" else array.astype(np.float32)
        for name, array in tensors.items()
    }


def _read_torch(path):
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(
            f"{path}: PyTorch's own form, which only PyTorch reads; install it (pip install "
            "torch), or convert the file to model.safetensors"
        ) from None
    state = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.detach().float().numpy() for name, tensor in state.items()}


def _read_numpy(path):
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def weight_files(index: Path) -> list[str]:
    """Returns the names of the files that an index of weights lists."""
    names = read_json(index).get("weight_map")
    names = [*dict.fromkeys(names.values())] if isinstance(names, dict) else []
    endings = tuple(Path(name).suffix for name in WEIGHTS)
    if not names or not all(
        isinstance(n, str) and Path(n).name == n and n.endswith(endings) for n in names
    ):
        raise UserError(f"{index}: expected names of files of weights in the same folder")
    return names


def named_as_ours(
    tensors: Arrays, settings: dict[str, Any], entries: Sequence[Entries], folder: Path
) -> Arrays:
    """Returns the weights by the names of our `Transformer`.

    `entries` are of both sides, or of each.
    Raises UserError: a tensor is missing, has another shape, or is not known.
    """
    left, weights = dict(tensors), {}
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    if len(entries) == 1:
        source = target = "model.shared.weight"
    else:
        left.pop("model.shared.weight", None)
        table = _table(left, source, entries[0].rows, settings, folder)
        weights["source_embedding/embeddings"] = table[entries[0].rows]
    rows = entries[-1].rows
    table = _table(left, target, rows, settings, folder)
    for copy in _COPIES if len(entries) == 1 else _COPIES[:1]:
        same = left.pop(copy, None)
        if same is not None and not np.array_equal(same, table):
            raise UserError(
                f"{folder}: {copy} differs from {target}; models whose embeddings are not shared "
                "are not read"
            )
    weights["target_embedding/embeddings"] = table[rows]
    bias = left.pop("final_logits_bias", np.zeros([1, len(table)], np.float32))
    if bias.size != len(table):
        raise UserError(f"{folder}: final_logits_bias has {bias.size} numbers, not {len(table)}")
    weights["output_bias"] = bias.reshape(-1)[rows]
    weights["output_bias"][entries[-1].never] = MASKED
    _take_layers(left, weights, settings, folder)
    if left:
        names = ", ".join(sorted(left)[:3])
        raise UserError(f"{folder}: tensors that no known model has: {names}; it is not read")
    return {f"model/{name}": array for name, array in weights.items()}


# Tensors that are copies of the target's embeddings; the last two only if both sides share them.
_COPIES = (
    *("lm_head.weight", "model.encoder.embed_tokens.weight"),
    "model.decoder.embed_tokens.weight",
)


def _table(left, name, rows, settings, folder):
    """Takes a table of embeddings, and checks its shape."""
    table, expected = _take(left, name, folder), (max(rows) + 1, settings["width"])
    if table.shape != expected:
        raise UserError(
            f"{folder}: the table of embeddings has the shape {table.shape}, and the settings say "
            f"{expected}; it belongs to another model"
        )
    return table


def _take(tensors, name, folder):
    if name not in tensors:
        raise UserError(f"{folder}: no tensor {name} among its weights; damaged or incomplete")
    return tensors.pop(name)


def _take_layers(left, weights, settings, folder):
    """Moves all tensors but embeddings and the bias of the output."""
    for side, start in (("encoder", "source_input"), ("decoder", "target_input")):
        theirs = f"model.{side}.embed_positions.weight"
        if settings["positions"] == "learned":  # fairseq counts positions from 2.
            weights[f"{start}/positions/vectors"] = _take(left, theirs, folder)[2:]
        for sinusoids in (theirs, f"{theirs}s"):  # They are computed here.
            left.pop(sinusoids, None)
    for theirs, ours in _names(settings).items():
        weight, bias = (_take(left, f"{theirs}.{name}", folder) for name in ("weight", "bias"))
        if ours.endswith("norm"):
            weights[f"{ours}/gamma"], weights[f"{ours}/beta"] = weight, bias
        else:
            weights[f"{ours}/kernel"], weights[f"{ours}/bias"] = np.transpose(weight), bias


def _names(settings):
    """Returns {name of a product or a normalisation on the hub: our name}."""
    names = {}
    for side, start in (("encoder", "source_input"), ("decoder", "target_input")):
        for layer in range(settings[f"num_{side}_layers"]):
            for theirs, ours in {**_PARTS, **_SUBLAYERS[side]}.items():
                if side == "decoder" or not theirs.startswith("encoder_attn"):
                    names[f"model.{side}.layers.{layer}.{theirs}"] = f"{side}/layer_{layer}/{ours}"
        if settings.get("norm_embeddings"):
            names[f"model.{side}.layernorm_embedding"] = f"{start}/norm"
        if settings["norm"] == "pre":
            names[f"model.{side}.layer_norm"] = f"{side}/norm"
    return names
