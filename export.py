"""Exports a trained model as a SavedModel for TensorFlow Serving, and proves that it works.

    python export.py --model_dir=runs/x --export_dir=serving/x

writes serving/x/1, or the next free number: TensorFlow Serving takes the largest. Sample lines are
then translated in a fresh process that knows nothing of this project, and must come out as here.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from training import quiet  # before all that imports TensorFlow

# isort: split

from absl import app, flags

from data_pipeline.files import UserError, read_lines
from decoding.serving import ServingModule
from decoding.translator import Translator
from training.checkpoints import ModelDirectory
from training.console import one_line_errors

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Directory that train.py wrote.", required=True)
flags.DEFINE_string("export_dir", None, "Folder of versions of this model.", required=True)
flags.DEFINE_integer("beam_size", 4, "Hypotheses followed at a time; 1: greedy.", lower_bound=1)
flags.DEFINE_float("length_penalty", 0.6, "Alpha of Wu et al. 2016; 0: none.", lower_bound=0.0)
flags.DEFINE_string("check_input", "", "Source text of the check; empty: a few built-in lines.")

SAMPLES = ["A dog runs.", "", "The old man does not see the two houses.", "7 , 8 and 9 ?", "x"]

# What a client needs to know: numpy, tensorflow, and the custom ops of tensorflow_text.
CLIENT = """
import json, pathlib, sys
import tensorflow_text
import tensorflow as tf
folder, asked, answered = sys.argv[1:]
lines, batch_size = json.loads(pathlib.Path(asked).read_text()), 32
translate = tf.saved_model.load(folder).signatures["serving_default"]
order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
texts = {}
for start in range(0, len(order), batch_size):
    rows = order[start : start + batch_size]
    found = translate(text=tf.constant([lines[i] for i in rows]))["translation"].numpy()
    texts.update(zip(rows, (text.decode() for text in found)))
pathlib.Path(answered).write_text(json.dumps([texts[i] for i in range(len(lines))]))
"""


def next_version(folder):
    """The number after the largest of the versions in a folder."""
    if not folder.exists():
        return 1
    if not folder.is_dir():
        raise UserError(f"{folder}: a file; --export_dir names a folder")
    return 1 + max((int(p.name) for p in folder.iterdir() if p.name.isdecimal()), default=0)


def translate_elsewhere(saved_model, lines):
    """Translates lines with the SavedModel in a process that cannot import this project."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "lines.json"), Path(folder, "translations.json")
        asked.write_text(json.dumps(lines), encoding="utf-8")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, str(saved_model.resolve()), str(asked), str(answered)],
            cwd=folder,
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "2"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise UserError(f"the exported model fails in a fresh process: {done.stderr[-2000:]}")
        return json.loads(answered.read_text(encoding="utf-8"))


def main(argv):
    """Reads flags, exports, checks; a version appears only once it has passed."""
    if len(argv) > 1:
        raise UserError(f"unexpected argument {argv[1]!r}; flags start with --")
    quiet.start()
    model, tokenizer, _ = ModelDirectory(FLAGS.model_dir).load()
    lines = read_lines(FLAGS.check_input) if FLAGS.check_input else SAMPLES
    search = {"beam_size": FLAGS.beam_size, "length_penalty": FLAGS.length_penalty}
    folder = Path(FLAGS.export_dir)
    version = folder / str(next_version(folder))
    unfinished = folder / f".unfinished-{version.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ServingModule(model, tokenizer, **search).save(unfinished)
        found = translate_elsewhere(unfinished, lines)
        expected = Translator(model, tokenizer, **search).translate(lines, description="checking")
        different = [
            (line, best[0].text, text)
            for line, best, text in zip(lines, expected, found, strict=True)
            if best[0].text != text
        ]
        if different:
            line, here, there = different[0]
            raise UserError(
                f"the exported model translates {len(different)} of {len(lines)} lines "
                f"differently, such as {line!r}: {here!r} here, {there!r} there; not exported"
            )
        os.replace(unfinished, version)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"wrote {version}; {len(lines)} lines translated alike in a fresh process")
    return 0


if __name__ == "__main__":
    app.run(one_line_errors(main))
