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
    import tensorflow as tf

    from nmt_zoo.decoding.search.terms import padded
    from nmt_zoo.decoding.translator import Translator
    from nmt_zoo.model_directory.directory import ModelDirectory
    from nmt_zoo.model_directory.pretrained import hugging_face, marian
    from nmt_zoo.model_directory.pretrained.entries import entries_of
    from nmt_zoo.models.base import shift_right

    place = Path(FLAGS.runs, name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    lines = [*read_lines(FLAGS.lines)[: FLAGS.count], *ODD]
    references = [*read_lines(FLAGS.references)[: FLAGS.count], *ODD]
    write_lines(place / "lines", lines)
    write_lines(place / "references", references)
    script = ROOT / "benchmarks" / "parts" / "transformers_system.py"
    files = [folder, place / "lines", place / "references", place / "theirs", source, target]
    subprocess.run([FLAGS.python, script, *files, str(FLAGS.translated)], check=True)
    theirs = json.loads((place / "theirs.json").read_text())

    command = [sys.executable, "import_model.py", f"--model={folder}", f"--model_dir={place}/run"]
    command += [f"--source_language={source}"] * bool(source)
    command += [f"--target_language={target}"] * bool(target)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    record = {"import_seconds": round(time.monotonic() - began, 1)}
    began = time.monotonic()
    model, tokenizer, _ = ModelDirectory(place / "run").load()
    record["load_seconds"] = round(time.monotonic() - began, 1)
    record["parameters"] = model.count_params()

    read = marian if (folder / marian.DECODER).exists() else hugging_face
    sides = [np.array(entries_of(one).rows) for one in read.read_folder(folder)[1]]
    rows = sides[-1]
    ours = tokenizer.source.encode(lines)
    alike = [
        sides[0][ids].tolist() == their for ids, their in zip(ours, theirs["ids"], strict=True)
    ]
    record["lines"], record["ids_alike"] = len(lines), sum(alike)
    record["ids_differ_in"] = [
        line[:60] for line, same in zip(lines, alike, strict=True) if not same
    ]

    arrays = np.load(place / "theirs.npz")
    count = len(arrays["labels"])
    targets = padded(tokenizer.target.encode(references[:count]))
    found = model(
        {
            "source_ids": tf.constant(padded(ours[:count])),
            "target_in_ids": shift_right(tf.constant(targets), model.bos_id),
        }
    ).numpy()
    first = np.array([i for i in range(len(rows)) if i != model.bos_id and rows[i] not in rows[:i]])
    differences = np.abs(found[:, :, first] - arrays["logits"][:, :, rows[first]])
    record["largest_difference_of_logits"] = float(differences[targets != 0].max())
    record["logits_from"], record["logits_to"] = map(float, (found.min(), found.max()))

    todo = lines[: FLAGS.translated]
    record["translated"] = len(todo)
    engine = ctranslate2(folder, place, source, target)
    for way, beam in (("greedy", 1), ("beam", 4)):
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
        translator.translate(todo[:3])
        began = time.monotonic()
        texts = [some[0].text for some in translator.translate(todo)]
        seconds = time.monotonic() - began
        their = theirs[way]
        rows_done = [k for k, done in enumerate(their["finished"]) if done]
        differ = [k for k in rows_done if texts[k] != their["texts"][k]]
        record[way] = {
            "finished": len(rows_done),
            "alike": len(rows_done) - len(differ),
            "ours_differ": [[texts[k], their["texts"][k]] for k in differ[:5]],
            "seconds": round(seconds, 2),
            "seconds_pytorch": round(their["seconds"], 2),
            "seconds_ctranslate2": engine and engine[way],
        }
    return {**record, "transformers": theirs["version"], "machine": machine()}


def ctranslate2(folder, place, source, target):
    """Times CTranslate2 with its own converter; None if it cannot convert the model."""
    script = ROOT / "benchmarks" / "parts" / "ctranslate2_system.py"
    files = [folder, place / "lines", place / "engine", source, target, str(FLAGS.translated)]
    done = subprocess.run([FLAGS.python, script, *files], check=False, stderr=subprocess.DEVNULL)
    if done.returncode:
        return None
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
