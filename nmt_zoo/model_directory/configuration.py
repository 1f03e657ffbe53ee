"""Reads config.json, and checks all of it before anything uses it."""

import json
import reprlib
from pathlib import Path
from typing import Any

from nmt_zoo import models
from nmt_zoo.common import own_code
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.configuration.options import BUILT_IN, DEFAULTS, OPTIONS, VOCABULARY
from nmt_zoo.data_pipeline.noise import COPIES, NONE
from nmt_zoo.data_pipeline.tokenization.languages import Languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import KINDS
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS

FORMAT = 1

_MISSING = object()


def read_configuration(path: Path, *, checks_model: bool = True) -> dict[str, Any]:
    """Reads and checks a config.json; without Keras if not `checks_model`, the preset's settings.

    Raises UserError: the file is unreadable or damaged, or of another version of nmt_zoo. The error
    names the file and the key, what was found and what was expected.
    """
    text = "\n".join(read_lines(path))
    remedy = "restore the file, or train again in a new --model_dir"
    try:
        config = json.loads(text)
        _require(isinstance(config, dict), "config.json", config, "an object, {...}")
        if config.get("format") != FORMAT:
            raise UserError(
                f"{path}: 'format' is {reprlib.repr(config.get('format'))}, expected {FORMAT}; "
                "written by another version of nmt_zoo; train again or use that version"
            )
        _load_code(config.get("code", []), path.parent)
        options = config.get("options")
        if isinstance(options, dict) and "copy_share" in options:  # Of the first release.
            share = options.pop("copy_share")
            options["noise"] = f"{COPIES}={share:g}" if share else NONE
        if isinstance(options, dict) and "adam_beta_2" in options:
            options.setdefault("optimizer", "adam")  # The first release had no other.
        _check(config, checks_model)
        # Options of the user's own may be registered after the run.
        added = {name: DEFAULTS[name] for name in DEFAULTS if name not in BUILT_IN}
        return {**config, "options": {**added, **config["options"]}}
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: damaged ({error.msg}); {remedy}") from None
    except RecursionError:
        raise UserError(f"{path}: damaged (nested too deeply); {remedy}") from None
    except ValueError as error:  # Raised by `_check`, or by a number with thousands of digits.
        raise UserError(f"{path}: {error}; {remedy}") from None


def _check(config, checks_model):
    """Raises `ValueError` if a configuration cannot be used."""
    required = {"model": str, "settings": dict, "tokenizer": str, "options": dict}
    names = ("dataset", "training_text", "validation_text", "corpus_lines", "reverse_of")
    weights = ("guide_weights", "teacher_weights", "init_weights")
    optional = {**dict.fromkeys((*names, *weights), str), "imported": dict}
    for key, kind in {**required, **optional}.items():
        value = config.get(key, kind() if key in optional else _MISSING)
        _require(isinstance(value, kind), key, value, "a text" if kind is str else "an object")
    choices = f"one of {', '.join(KINDS)}"
    _require(config["tokenizer"] in KINDS, "tokenizer", config["tokenizer"], choices)
    required, corpus_sizes = BUILT_IN, None
    if checks_model:
        models.check_settings(config["model"], config["settings"])
        kind = models.model_class(config["model"])
        # Counted models have no options but those of their vocabulary.
        required = BUILT_IN if kind.reads_source else VOCABULARY
        corpus_sizes = kind.corpus_sizes
    _check_sizes(config, corpus_sizes)
    _check_languages(config.get("languages"))
    for option in OPTIONS:
        if option.name in required or option.name in config["options"]:
            value = config["options"].get(option.name, _MISSING)
            _require(option.takes(value), f"options.{option.name}", value, option.expected())


def _load_code(paths, model_dir):
    """Loads the files of the user's own that register what the configuration names."""
    fits = isinstance(paths, list) and all(isinstance(p, str) and p.endswith(".py") for p in paths)
    _require(fits, "code", paths, "a list of Python files")
    for path in paths:
        folders = Path(path).resolve().parents
        if model_dir.resolve() in folders or any(map(_is_model_directory, folders)):
            raise UserError(
                f"{path}: code inside a model directory is never run, because the directory may "
                "come from someone else; read the file, move it elsewhere, and write its place "
                "under `code` in config.json"
            )
        own_code.load(path)


def _is_model_directory(folder):
    return (folder / "config.json").is_file() and (folder / "tokenizer").is_dir()


def _check_sizes(config, names):
    """Checks the sizes of the vocabularies, and those of the model (`names`; None: any)."""
    value = config.get("vocab_sizes", _MISSING)
    least = len(SPECIALS) + 1
    _require(
        isinstance(value, list) and len(value) == 2 and all(_is_count(n, least) for n in value),
        "vocab_sizes",
        value,
        f"two whole numbers of at least {least}, the source and the target entries",
    )
    value = config.get("sizes", {})
    _require(
        isinstance(value, dict)
        and all((names is None or name in names) and _is_count(n) for name, n in value.items()),
        "sizes",
        value,
        f"whole numbers of {' and '.join(names)}" if names else "an empty object",
    )
    value = config.get("vocabulary_crc32", _MISSING)
    _require(
        isinstance(value, dict)
        and all(Path(name).name == name and _is_count(n, most=2**32) for name, n in value.items()),
        "vocabulary_crc32",
        value,
        "names of files with their checksums",
    )


def _check_languages(languages):
    fits = languages is None or (
        isinstance(languages, dict)
        and {*languages} <= {*Languages._fields}
        and isinstance(languages.get("signs"), dict)
        and all(isinstance(sign, str) for sign in languages["signs"].values())
        and isinstance(languages.get("on_source"), bool)
        and all(isinstance(languages.get(side, ""), str) for side in ("source", "target"))
    )
    expected = "an object with `signs`, an object of texts, and `on_source`, true or false"
    _require(fits, "languages", languages, expected)


def _is_count(value, least=0, most=2**31 - 1):
    return type(value) is int and least <= value <= most


def _require(fits, key, value, expected):
    if not fits:
        shown = "missing" if value is _MISSING else reprlib.repr(value)
        raise ValueError(f"{key!r} is {shown}, expected {expected}")
