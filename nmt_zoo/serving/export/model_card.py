"""The model card of an exported version: what it is, how it was made and how well it translates."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_json, write_text
from nmt_zoo.model_directory.directory import ModelDirectory

_NOT_STATED = "not stated; it depends on the licences of the training data"
_INTENDED_USE = (
    "Translation of sentences like those of its training data. Translations may be wrong or "
    "invented: where it matters, they are to be read by a person who knows both languages."
)
_SOFTWARE = "Apache License 2.0, for the program that made this model"
_LINES = (
    "as in its training text, usually a sentence each. A line with more sentences is translated as "
    "a whole, and some of them may be missing in the translation"
)
_SCORES = ("bleu", "chrf", "ter")


def read_scores(folder: Path) -> dict[str, Any] | None:
    """Reads the metrics and the number of sentences in a folder's `scores.json`, if there is one.

    `translate.py --save_scores` writes that file. Raises `UserError` if it holds something else.
    """
    path = folder / "scores.json"
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        scores: dict[str, Any] = {
            name: {"score": float(record[name]), "signature": str(record[f"{name}_signature"])}
            for name in _SCORES
            if name in record
        }
        return {**scores, "sentences": int(record["sentences"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: expected the scores that translate.py --save_scores writes; write them "
            "again, or move the file"
        ) from None


def signature_table(signatures: Mapping[str, Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Describes `SignatureDef`s: name -> {"inputs": {name: type}, ...}, types as `string [B]`."""
    return {
        name: {
            side: {key: _type(info) for key, info in sorted(getattr(signature, side).items())}
            for side in ("inputs", "outputs")
        }
        for name, signature in sorted(signatures.items())
        if not name.startswith("__")
    }


def _type(info):
    sizes = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
    return f"{tf.as_dtype(info.dtype).name} [{', '.join(sizes)}]"


def write_card(
    folder: Path,
    *,
    directories: Sequence[ModelDirectory],
    config: dict[str, Any],
    license: str,
    signatures: Mapping[str, Any],
    **facts: Any,
) -> None:
    """Writes `model_card.json`, and the same for people as `MODEL_CARD.md`.

    There are several `directories` for an ensemble; `config` is that of the first model. `license`
    is that of the model; "": the one of an imported model, if it is known. `signatures` are name ->
    `SignatureDef`. `facts` are the number of `parameters`, and the options of the `search`. Raises
    `UserError` if the recorded scores cannot be read, and `OSError` if a file cannot be written.
    """
    card = {
        "models": [_model(directory, directory.config()) for directory in directories],
        "tokenizer": {"kind": config["tokenizer"], "vocabulary_sizes": config["vocab_sizes"]},
        "software": {"tensorflow": tf.__version__, "license": _SOFTWARE},
        "license": license or config.get("imported", {}).get("license") or _NOT_STATED,
        "intended_use": _INTENDED_USE,
        "signatures": signature_table(signatures),
        **facts,
    }
    write_json(folder / "model_card.json", card)
    write_text(folder / "MODEL_CARD.md", _text(card))


def _model(directory, config):
    return {
        "preset": config["model"],
        "settings": config["settings"],
        **{name: config[name] for name in ("imported", "languages") if name in config},
        "training": {
            "dataset": config.get("dataset") or "files of its owner",
            "training_text": config.get("training_text"),
            "options": config["options"],
            **directory.summary(),
        },
        "scores": read_scores(directory.path),
    }


def _text(card):
    lines = ["# Model card", ""]
    for model in card["models"]:
        training, best = model["training"], model["training"]["best"] or {}
        lines += [f"## {model['preset']}", ""]
        lines += [f"* Settings: {_plain(model['settings']) or 'those of the preset'}"]
        lines += [f"* Data: {training['dataset']}"]
        lines += [f"* Training: {training['steps']:,} steps, {training['minutes']} minutes"]
        best = {name: best[name] for name in ("step", "perplexity", "bleu") if name in best}
        lines += [f"* On its validation text: {_plain(best) or 'not measured'}"]
        scores = model["scores"] or {}
        lines += [
            f"* {name} {scores[name]['score']} on {scores['sentences']:,} sentences "
            f"({scores[name]['signature']})"
            for name in _SCORES
            if name in scores
        ] or ["* Test scores: none recorded"]
        lines.append("")
    tokenizer = card["tokenizer"]
    lines += ["## Use", ""]
    lines += [f"* Intended use: {card['intended_use']}", f"* Licence: {card['license']}"]
    lines += [f"* Lines: {_LINES}"]
    lines += [f"* Software: TensorFlow {card['software']['tensorflow']}; {_SOFTWARE}"]
    lines += [f"* Tokenizer: {tokenizer['kind']}, {tokenizer['vocabulary_sizes']} entries"]
    lines += [f"* Parameters: {card['parameters']:,}", f"* Search: {_plain(card['search'])}"]
    lines += ["", "## Signatures", "", "| signature | from | to |", "|---|---|---|"]
    for name, sides in card["signatures"].items():
        cells = [
            ", ".join(f"`{key}` {kind}" for key, kind in sides[side].items())
            for side in ("inputs", "outputs")
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _plain(values):
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )
