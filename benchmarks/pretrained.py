"""Compares imported models with the same models in PyTorch and CTranslate2.

    python benchmarks/pretrained.py --python=hf/bin/python --folders=opus=hub/opus,m=hub/m:en:de \\
        --lines=data/multi30k/train.en --references=data/multi30k/train.de

--python is the Python of an environment with torch, transformers, sentencepiece, sacremoses and
ctranslate2. A folder may be followed by the languages of source and target. Results go to
docs/results/pretrained/.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()

# isort: split

import numpy as np
from absl import flags

from benchmarks.parts.scripts import write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_lines

FLAGS = flags.FLAGS

flags.DEFINE_list("folders", [], "Models, NAME=FOLDER or NAME=FOLDER:SOURCE:TARGET.")
flags.DEFINE_string("python", "", "Python with transformers.")
flags.DEFINE_string("lines", "data/multi30k/train.en", "Source text.")
flags.DEFINE_string("references", "data/multi30k/train.de", "Its translation.")
flags.DEFINE_integer("count", 5000, "Lines whose ids are compared.", 1)
flags.DEFINE_integer("translated", 100, "Lines that are translated.", 1)
flags.DEFINE_string("runs", "runs/pretrained", "Folder for model directories and outputs.")

RESULTS = ROOT / "docs" / "results" / "pretrained"
ODD = [
    *(
        "",
        " ",
        "🙂🙂 smile 🙂",
        "ẞ ß ÄÖÜ",
        "</s> <unk> <pad> <s>",
        "日本語のテキスト",
        "a\tb",
        "x" * 300,
    ),
    *("“quoted” – dash…", "\u200bzero width", "e\u0301 combined", ">>deu<< tag", "1,234.5 %"),
]
_MOST = 60  # As in transformers_system.py.


def compare(name, folder, source, target):
    """Runs one model in all ways; returns what is recorded."""
    place = Path(FLAGS.runs, name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    lines = [*read_lines(FLAGS.lines)[: FLAGS.count], *ODD]
    references = [*read_lines(FLAGS.references)[: FLAGS.count], *ODD]
    write_lines(place / "lines", lines)
    write_lines(place / "references", references)
    theirs = transformers(folder, place, source, target)
    seconds, model, tokenizer = imported(folder, place, source, target)
    rows = rows_of(folder)
    ids, todo = tokenizer.source.encode(lines), lines[: FLAGS.translated]
    engine = ctranslate2(folder, place, source, target)
    return {
        **seconds,
        "parameters": model.count_params(),
        **compare_ids(ids, rows[0], lines, theirs),
        **compare_logits(model, ids, tokenizer.target, references, rows[-1], place),
        "translated": len(todo),
        **{
            way: compare_translations(model, tokenizer, beam, todo, theirs[way], engine.get(way))
            for way, beam in (("greedy", 1), ("beam", 4))
        },
        "transformers": theirs["version"],
        "machine": machine(),
    }


def transformers(folder, place, source, target):
    """Encodes, scores and translates with transformers; logits are in theirs.npz."""
    script = ROOT / "benchmarks" / "parts" / "transformers_system.py"
    files = [folder, place / "lines", place / "references", place / "theirs", source, target]
    subprocess.run([FLAGS.python, script, *files, str(FLAGS.translated)], check=True)
    return json.loads((place / "theirs.json").read_text())


def imported(folder, place, source, target):
    """Imports a model and loads it; returns the seconds of both, the model and its tokenizer."""
    from nmt_zoo.model_directory.directory import ModelDirectory

    command = [sys.executable, "import_model.py", f"--model={folder}", f"--model_dir={place}/run"]
    command += [f"--source_language={source}"] * bool(source)
    command += [f"--target_language={target}"] * bool(target)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    done = time.monotonic()
    model, tokenizer, _ = ModelDirectory(place / "run").load()
    seconds = {"import_seconds": done - began, "load_seconds": time.monotonic() - done}
    return {key: round(value, 1) for key, value in seconds.items()}, model, tokenizer


def rows_of(folder):
    """Returns for each side of our vocabulary the ids that the published model has for it."""
    from nmt_zoo.model_directory.pretrained import hugging_face, marian
    from nmt_zoo.model_directory.pretrained.entries import entries_of

    read = marian if (folder / marian.DECODER).exists() else hugging_face
    return [np.array(entries_of(one).rows) for one in read.read_folder(folder)[1]]


def compare_ids(ours, rows, lines, theirs):
    """Counts the lines of which both make the same tokens."""
    differ = [
        line[:60]
        for line, ids, their in zip(lines, ours, theirs["ids"], strict=True)
        if rows[ids].tolist() != their
    ]
    return {
        "lines": len(lines),
        "ids_alike": len(lines) - len(differ),
        "ids_differ_in": differ,
    }


def compare_logits(model, ids, vocabulary, references, rows, place):
    """Returns the largest difference of the logits of true translations, and their range."""
    import tensorflow as tf

    from nmt_zoo.decoding.search.terms import padded
    from nmt_zoo.models.base import shift_right

    arrays = np.load(place / "theirs.npz")
    count = len(arrays["labels"])
    targets = padded(vocabulary.encode(references[:count]))
    found = model(
        {
            "source_ids": tf.constant(padded(ids[:count])),
            "target_in_ids": shift_right(tf.constant(targets), model.bos_id),
        }
    ).numpy()
    first = np.array([i for i in range(len(rows)) if i != model.bos_id and rows[i] not in rows[:i]])
    differences = np.abs(found[:, :, first] - arrays["logits"][:, :, rows[first]])
    return {
        "largest_difference_of_logits": float(differences[targets != 0].max()),
        "logits_from": float(found.min()),
        "logits_to": float(found.max()),
    }


def compare_translations(model, tokenizer, beam, lines, theirs, engine):
    """Counts the translations that are the same, of those that transformers finished."""
    from nmt_zoo.decoding.translator import Translator

    translator = Translator(
        model,
        tokenizer,
        beam_size=beam,
        batch_size=1,
        length_penalty=1.0,
        divide_by_length=True,
        max_length_factor=0.0,
        max_length_extra=_MOST - (tokenizer.target.sign is not None),
    )
    translator.translate(lines[:3])
    began = time.monotonic()
    texts = [some[0].text for some in translator.translate(lines)]
    seconds = time.monotonic() - began
    finished = [k for k, done in enumerate(theirs["finished"]) if done]
    differ = [k for k in finished if texts[k] != theirs["texts"][k]]
    return {
        "finished": len(finished),
        "alike": len(finished) - len(differ),
        "ours_differ": [[texts[k], theirs["texts"][k]] for k in differ[:5]],
        "seconds": round(seconds, 2),
        "seconds_pytorch": round(theirs["seconds"], 2),
        "seconds_ctranslate2": engine,
    }


def ctranslate2(folder, place, source, target):
    """Times CTranslate2 with its own converter; returns {} if it cannot convert the model."""
    script = ROOT / "benchmarks" / "parts" / "ctranslate2_system.py"
    files = [folder, place / "lines", place / "engine", source, target, str(FLAGS.translated)]
    done = subprocess.run([FLAGS.python, script, *files], check=False, stderr=subprocess.DEVNULL)
    if done.returncode:
        return {}
    return json.loads((place / "engine.json").read_text())


def main(argv):
    """Compares every model."""
    del argv
    os.chdir(ROOT)
    process.start_tensorflow()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for each in FLAGS.folders:
        name, _, place = each.partition("=")
        folder, source, target = [*place.split(":"), "", ""][:3]
        record = compare(name, Path(folder), source, target)
        write_record(RESULTS / f"{name}.json", record)
        shown = {k: v for k, v in record.items() if k not in ("machine", "ids_differ_in")}
        print(json.dumps({"model": name, **shown}, ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    console.run(main)
