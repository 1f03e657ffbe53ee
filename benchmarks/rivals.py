"""Trains one Transformer on one text with several toolkits, for equal minutes, and compares them.

    python benchmarks/rivals.py --text=data/multi30k --minutes=3
    python benchmarks/rivals.py --only=zoo,ctranslate2

Each toolkit has an environment of its own below --runs, which `pip` fills, and a driver in
benchmarks/parts/rivals/. All learn the same pieces of one SentencePiece model, with the same sizes,
learning rates and batches as far as the toolkit allows, in float32 on --threads threads. The
minutes count from the start of the process. Results are added to --output; a toolkit that fails
leaves the last line of its error there.
"""

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start(tensorflow=False)

# isort: split

from absl import flags

from benchmarks.parts.scripts import chosen, measured, own_command, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.models.transformer_settings import transformer_settings

FLAGS = flags.FLAGS

flags.DEFINE_string("text", "data/multi30k", "Folder with train.en, val.en and so on.")
flags.DEFINE_string("runs", "runs/rivals", "Folder for environments, texts and models.")
flags.DEFINE_float("minutes", 3, "Minutes of training for each toolkit.", 0)
flags.DEFINE_integer("threads", os.cpu_count() or 1, "Threads of each toolkit.", 1)
flags.DEFINE_list("only", [], "Names of the systems. Default: all.")
flags.DEFINE_string("output", "docs/results/studies/rivals.json", "JSON file of the results.")

# name: (driver, packages of its environment (none: this one), the package whose version counts).
# JoeyNMT does not name importlib_metadata; setuptools had pkg_resources until 81.
SYSTEMS = {
    "zoo": ("zoo", [], "tensorflow"),
    "pytorch": ("pytorch", ["torch==2.13.0", "numpy"], "torch"),
    "joeynmt": (
        "joeynmt",
        ["torch==2.13.0", "JoeyNMT==2.3.0", "setuptools<81", "importlib_metadata"],
        "joeynmt",
    ),
    "opennmt_tf": (
        "opennmt_tf",
        ["tensorflow==2.13.*", "OpenNMT-tf==2.32.0", "setuptools<81"],
        "OpenNMT-tf",
    ),
    "tf_models": ("tf_models", ["tf-models-official==2.20.0"], "tf-models-official"),
    "ctranslate2": ("ctranslate2", ["ctranslate2==4.8.5"], "ctranslate2"),
    "ctranslate2_int8": ("ctranslate2", ["ctranslate2==4.8.5"], "ctranslate2"),
}
SETTINGS = {
    **{"seed": 1, "max_tokens_per_batch": 1024, "learning_rate": 0.001, "warmup_steps": 200},
    **{"dropout": 0.1, "label_smoothing": 0.1, "clip_norm": 1.0, "num_pieces": 8000},
    **{"beam": 4, "length_penalty": 0.6, "batch_sizes": [16, 64]},
}
_SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def prepare(folder):
    """Writes the text, its pieces and their model into a folder; returns the vocabulary."""
    (folder / "pieces").mkdir(parents=True, exist_ok=True)
    texts = {
        f"{split}.{side}": read_lines(Path(FLAGS.text, f"{file}.{language}"))
        for split, file in _SPLITS.items()
        for side, language in (("src", "en"), ("trg", "de"))
    }
    sides = texts["train.src"], texts["train.trg"]
    vocabulary = train_tokenizer("bpe", *sides, vocab_size=SETTINGS["num_pieces"]).source
    vocabulary.save(folder / "pieces.model")
    write_lines(folder / "pieces.txt", vocabulary.pieces(range(4, len(vocabulary))))
    for name, lines in texts.items():
        write_lines(folder / name, lines)
        pieces = (" ".join(vocabulary.pieces(ids[:-1])) for ids in vocabulary.encode(lines))
        write_lines(folder / "pieces" / name, pieces)
    return vocabulary


def environment(name):
    """Makes the environment of a driver, unless it is there; returns the path of its Python."""
    driver, packages, _ = SYSTEMS[name]
    if not packages:
        return sys.executable
    folder = Path(FLAGS.runs, "environments", driver)
    finished = folder / "packages.txt"
    if not finished.exists() or finished.read_text() != " ".join(packages):
        venv.create(folder, clear=True, with_pip=True)
        command = [folder / "bin" / "pip", "install", "--quiet", *packages]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            error = done.stderr.strip().splitlines()[-1]
            raise UserError(f"pip install {shlex.join(packages)}: {error}")
        finished.write_text(" ".join(packages))
    return str(folder / "bin" / "python")


def versions(python, package):
    """Returns the versions of a package, and of the frameworks beside it."""
    code = "from importlib.metadata import distributions as all"
    code += "; print({x.name: x.version for x in all()})"
    found = ast.literal_eval(subprocess.check_output([python, "-c", code], text=True))
    return {name: found[name] for name in found if name in (package, "tensorflow", "torch")}


def measure(name, vocabulary, texts):
    """Trains and runs a system; returns its record."""
    driver, packages, package = SYSTEMS[name]
    folder = Path(FLAGS.runs, name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python, exports = environment(name), Path(FLAGS.runs, "zoo", "exports")
    if driver == "ctranslate2" and not exports.exists():
        model = f"--model_dir={exports.parent / 'model'}"
        run(["export.py", "--format=ctranslate2", model, f"--export_dir={exports}"])
    task = {**SETTINGS, "run": str(folder), "texts": str(texts), "exports": str(exports)}
    task |= {"minutes": FLAGS.minutes, "threads": FLAGS.threads}
    task["compute_type"] = "int8" if name.endswith("int8") else "float32"
    rates = dict.fromkeys(("dropout", "attention_dropout", "ffn_dropout"), task["dropout"])
    task["network"] = transformer_settings("transformer_small", rates)
    write_record(folder / "task.json", task)
    command = [python, f"benchmarks/parts/rivals/with_{driver}.py", str(folder / "task.json")]
    try:
        memory = measured(command, folder / "log")[1]
    except UserError:
        raise UserError(read_lines(folder / "log")[-1]) from None
    pieces = [line.split() for line in read_lines(folder / "test.out")]
    lines = [vocabulary.decode(vocabulary.ids(line)) for line in pieces]
    score = corpus_scores(lines, [read_lines(texts / "test.trg")], metrics=["bleu"])["bleu"]
    return {
        "bleu": round(score.score, 2),
        "peak_memory_bytes": memory,
        **json.loads((folder / "result.json").read_text()),
        **{"versions": versions(python, package), "packages": packages},
        "commands": [own_command(), shlex.join(["python", *command[1:]])],
    }


def main(argv):
    """Measures the systems one after the other."""
    del argv
    os.chdir(ROOT)
    texts, path = Path(FLAGS.runs, "texts"), Path(FLAGS.output)
    vocabulary = prepare(texts)
    found = json.loads(path.read_text("utf-8"))["systems"] if path.exists() else {}
    for name in chosen(FLAGS.only, SYSTEMS, "system"):
        try:
            found[name] = measure(name, vocabulary, texts)
            print(name, {x: found[name][x] for x in ("bleu", "updates")}, flush=True)
        except UserError as error:
            found[name] = {"failed": str(error), "packages": SYSTEMS[name][1]}
            print(f"{name}: {error}", flush=True)
        found = {name: found[name] for name in SYSTEMS if name in found}
        about = {"machine": machine(), "minutes": FLAGS.minutes}
        write_record(path, {**about, "settings": SETTINGS, "systems": found})
    return 0


if __name__ == "__main__":
    console.run(main)
