"""Makes tiny trained models once; every worker of the harness has a copy of them.

A case runs in a folder beside `models`, so it finds a model directory in `../models/bpe`.
"""

import importlib.util
import json
import os
import shutil
from pathlib import Path

from tests.hostile.case import Case, Works
from tests.tiny import corpus_flags, rate_flags, small_flags

CORPUS = tuple(
    f"--{split}_{side}=../models/{split}.{side}"
    for split in ("train", "valid")
    for side in ("source", "target")
)
SWAPPED = tuple(
    f"--{split}_{side}=../models/{split}.{other}"
    for split in ("train", "valid")
    for side, other in (("source", "target"), ("target", "source"))
)
QUICK = (
    *("--max_steps=1", "--max_tokens_per_batch=512", "--bleu_lines=0"),
    "--average_checkpoints=2",
)


def quick(preset, *more, corpus=CORPUS, model_dir="run"):
    """Returns arguments of train.py for one step of a tiny model; `more` overrides the others."""
    if not any(os.fsencode(flag).startswith(b"--model_dir") for flag in more):
        more = (f"--model_dir={model_dir}", *more)
    has_pieces = any(os.fsencode(flag).startswith(b"--vocab_file") for flag in more)
    pieces = () if has_pieces else ("--vocab_size=300",)
    return (*corpus, *small_flags(preset), *rate_flags(preset)[1:], *QUICK, *pieces, *more)


# Name -> (script, arguments); a command may use the results of earlier commands.
_COMMANDS = {
    "bpe": (
        "train",
        quick(
            *("transformer_tiny", "--max_steps=300", "--learning_rate=0.01", "--set=dropout=0"),
            *("--save_every_steps=100", "--eval_every_steps=100", "--label_smoothing=0"),
        ),
    ),
    "word": ("train", quick("lstm_luong", "--tokenizer=word", "--min_word_count=1")),
    "ibm1": ("train", quick("ibm1")),
    "ibm1_bpe": ("train", quick("ibm1", "--tokenizer=bpe", "--max_steps=5")),
    "ibm1_reverse": ("train", quick("ibm1", corpus=SWAPPED)),
    "lm": (
        "train",
        (
            *("--model=ngram_lm", "--train_target=../models/train.target"),
            *("--valid_target=../models/valid.target", "--model_dir=run"),
            "--vocab_file=../models/bpe/tokenizer/shared.model",
        ),
    ),
    "saved_model": ("export", ("--model_dir=../models/bpe", "--export_dir=run")),
}


HAS_CTRANSLATE2 = importlib.util.find_spec("ctranslate2") is not None  # An optional package.
if HAS_CTRANSLATE2:
    _COMMANDS["ctranslate2"] = (
        "export",
        ("--model_dir=../models/bpe", "--export_dir=run", "--format=ctranslate2"),
    )


def commands():
    """Yields (name, `Case`) for the commands that make the models, in order."""
    for name, (script, arguments) in _COMMANDS.items():

        def start(name=name):
            if name == "bpe":
                Path("../models").mkdir()
                corpus_flags(Path("../models"), train=60, valid=5)

        yield name, Case("models", name, script, arguments, Works(), prepare=start, seconds=600)


def keep(name, folder):
    """Moves the result of a command to the folder where cases find it."""
    folder.joinpath("run").rename(folder.parent / "models" / name)


def copy_model(name, to="model"):
    """Copies a model directory into the current folder; returns its new path."""
    return Path(shutil.copytree(Path("../models", name), to))


REMOVED = object()


def edit(keys, value, model="bpe"):
    path = copy_model(model) / "config.json"
    config = json.loads(path.read_text("utf-8"))
    inner = config
    for key in keys[:-1]:
        inner = inner[key]
    if value is REMOVED:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def replace(name, data, model="bpe"):
    """Copies a model and replaces a file of the copy; None cuts the file in half."""
    path = copy_model(model) / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if data is None else data)


def remove(name, model="bpe"):
    path = copy_model(model) / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def folder_for(name, model="bpe"):
    remove(name, model)
    Path("model", name).mkdir()


def loop_for(name, model="bpe"):
    remove(name, model)
    os.symlink(Path(name).name, Path("model", name))


def pipe_for(name, model="bpe"):
    remove(name, model)
    os.mkfifo(Path("model", name))


def flip(name, position=0.5, model="bpe"):
    """Copies a model and changes one byte of a file in the copy."""
    path = copy_model(model) / name
    data = bytearray(path.read_bytes())
    data[int(len(data) * position)] ^= 0x10
    path.write_bytes(data)
