"""Trains every preset on the demo corpus for a short time, and scores its alignments.

    python benchmarks/alignment_table.py
    python benchmarks/alignment_table.py --minutes=1 --only=ibm1_factored,transformer_tiny

The demo corpus comes with its true word alignments, so every model with alignments
can be scored against them, even if it was made for translation. A complete run is not trained
again. A run that was stopped resumes, and so does a complete run if --minutes has grown. Alignment
error rate and BLEU on the test set are written to docs/results/demo_alignment/, where
results_table.py reads them.
"""

import json
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from absl import flags

import models
from benchmarks.parts.scripts import chosen, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.model_directory.directory import ModelDirectory

FLAGS = flags.FLAGS

flags.DEFINE_float("minutes", 10, "Minutes of training for each preset.", lower_bound=0.1)
flags.DEFINE_string("runs", "runs/demo_alignment", "Folder for the model directories.")
flags.DEFINE_string("data_dir", "data", "Folder of the demo corpus and of caches, as in train.py.")
flags.DEFINE_string("results", "docs/results/demo_alignment", "Folder for the result files.")
flags.DEFINE_list("only", [], "Names of the presets to train. Default: all.")

# A validation takes as long as several hundred updates, too long for such short runs.
RARELY = ["--eval_every_steps=1000", "--save_every_steps=100", "--bleu_lines=100"]


def train_command(preset):
    """Returns the command that trains a preset, as a list."""
    limits = [f"--max_minutes={FLAGS.minutes:g}"]
    # Expectation maximisation and tuning take few iterations, and the recipe sets their number.
    if options_of(preset, "demo", {}).get("update") not in ("em", "tuning"):
        limits += ["--max_steps=0", *RARELY]
    where = [f"--data_dir={FLAGS.data_dir}", f"--model_dir={FLAGS.runs}/{preset}"]
    return ["train.py", f"--model={preset}", "--dataset=demo", *limits, *where]


def score_commands(preset):
    """Maps name -> command that writes the scores of a trained preset to FOLDER/NAME.json."""
    folder, test = f"{FLAGS.runs}/{preset}", f"{FLAGS.data_dir}/demo/test"
    commands = {
        "translation": [
            *("translate.py", f"--input={test}.en", f"--reference={test}.de"),
            f"--output={folder}/test.de",
        ],
        "alignment": [
            *("align.py", f"--source={test}.en", f"--target={test}.de"),
            *(f"--gold={test}.en-de", f"--alignments={folder}/test.en-de"),
        ],
    }
    return {
        name: [*command, f"--model_dir={folder}", f"--save_scores={folder}/{name}.json"]
        for name, command in commands.items()
    }


def score(preset):
    """Writes the result file of a trained preset."""
    folder, found = ROOT / FLAGS.runs / preset, {}
    has_alignment = ModelDirectory(folder).new_model().has_alignment
    for name, command in score_commands(preset).items():
        if name == "translation" or has_alignment:
            run(command)
            found[name] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    record = found["translation"]
    if "alignment" in found:
        figures = ("aer", "precision", "recall", "sentences", "links")
        record["alignment"] = {figure: found["alignment"][figure] for figure in figures}
    record["command"] = shlex.join(["python", *train_command(preset)])
    write_record(ROOT / FLAGS.results / f"{preset}.json", record)


def main(argv):
    """Trains and scores."""
    del argv
    for preset in chosen(FLAGS.only, models.preset_names(), "preset"):
        run(train_command(preset))
        score(preset)
    return 0


if __name__ == "__main__":
    console.run(main)
