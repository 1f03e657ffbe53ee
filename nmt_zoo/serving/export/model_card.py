"""The model card of an exported version: what it is, how it was made and how well it translates."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_text
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


def write_card(
    folder: Path,
    *,
    directories: Sequence[ModelDirectory],
    config: dict[str, Any],
    license: str,
    parameters: int,
    search: Mapping[str, Any],
) -> None:
    """Writes `MODEL_CARD.md`.

    There are several `directories` for an ensemble; `config` is that of the first model. `license`
    is that of the model; "": the one of an imported model, if it is known. `search` are the options
    of the search. Raises `UserError` if the recorded scores cannot be read, and `OSError` if the
    file cannot be written.
    """
    license = license or config.get("imported", {}).get("license") or _NOT_STATED
    lines = ["# Model card", ""]
    for directory in directories:
        lines += [*_about(directory, directory.config()), ""]
    lines += [
        "## Use",
        "",
        f"* Intended use: {_INTENDED_USE}",
        f"* Licence: {license}",
        f"* Lines: {_LINES}",
        f"* Software: TensorFlow {tf.__version__}; {_SOFTWARE}",
        f"* Tokenizer: {config['tokenizer']}, {config['vocab_sizes']} entries",
        f"* Parameters: {parameters:,}",
        f"* Search: {_plain(search)}",
    ]
    write_text(folder / "MODEL_CARD.md", "\n".join(lines) + "\n")


def _about(directory, config):
    """Describes the model of a directory in lines."""
    summary, scores = directory.summary(), read_scores(directory.path) or {}
    best = summary["best"] or {}
    best = {name: best[name] for name in ("step", "perplexity", "bleu") if name in best}
    return [
        f"## {config['model']}",
        "",
        f"* Settings: {_plain(config['settings']) or 'those of the preset'}",
        *([f"* Imported: {_plain(config['imported'])}"] if "imported" in config else []),
        f"* Data: {config.get('dataset') or 'files of its owner'}",
        f"* Training: {summary['steps']:,} steps, {summary['minutes']} minutes",
        f"* On its validation text: {_plain(best) or 'not measured'}",
        *(
            f"* {name} {scores[name]['score']} on {scores['sentences']:,} sentences "
            f"({scores[name]['signature']})"
            for name in _SCORES
            if name in scores
        ),
        *([] if scores else ["* Test scores: none recorded"]),
    ]


def _plain(values):
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )
