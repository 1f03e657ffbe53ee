"""Repeats the experiments of a coursework report: its training, tables, curves and sentences.

    python benchmarks/coursework.py
    python benchmarks/coursework.py --only=lstm_luong,lstm_lexical

The report (University of Edinburgh, School of Informatics, NLU CW2, April 2022) trained with the
public code of the coursework: batches of 10 sentences, Adam at 3e-4, gradients clipped at 4, a
validation after each epoch, at most 100 epochs, or until 10 epochs brought nothing. So do the
runs here; `transformer_cured` is ours. Text is downloaded. Complete runs are not trained again, and
stopped ones resume. Figures go to docs/results/studies/coursework.json, pictures to docs/.
"""

import json
import math
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from absl import flags

from benchmarks.parts.europarl import SMALL, WORDS, corpus_flags, file_of
from benchmarks.parts.scripts import chosen, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines
from nmt_zoo.decoding.pictures.figures import save_curves

FLAGS = flags.FLAGS

flags.DEFINE_string("runs", "runs/coursework", "Folder for the model directories.")
flags.DEFINE_list("only", [], "Names of the runs to make. Default: all.")

RESULT = ROOT / "docs" / "results" / "studies" / "coursework.json"
EPOCH = 1000  # Updates: 10,000 pairs in batches of 10.
TRAINING = [
    *WORDS,
    *("--max_sentences_per_batch=10", "--max_tokens_per_batch=4096"),
    *("--loss_average=sentences", "--label_smoothing=0"),
    *("--clip_norm=4", "--learning_rate=3e-4", "--schedule=constant", "--warmup_steps=1"),
    *("--adam_beta_2=0.999", "--max_epochs=100", "--patience=10", "--average_checkpoints=1"),
    "--intra_op_threads=1",  # Two threads would not be faster with such small batches.
    *(f"--{rhythm}_every_steps={EPOCH}" for rhythm in ("eval", "save", "log")),
]
# The public code drops states at 0.2 and activations at 0.1; the report's attention drops nothing.
OTHER_DROPOUT = ["--set=attention_dropout=0", "--set=ffn_dropout=0.1"]
DROPOUT = ["--set=dropout=0.2", *OTHER_DROPOUT]
# Cures that the report proposes: masked input (its point 2), smaller weights (3), the best epoch.
CURE = ["--set=dropout=0.3", *OTHER_DROPOUT, "--token_dropout=0.1", "--weight_decay=0.01"]

RUNS = {  # name: flags of train.py
    "lstm_luong": ["--model=lstm_luong"],
    "lstm_luong_deep": ["--model=lstm_luong_deep"],
    "lstm_lexical": ["--model=lstm_lexical", *SMALL],
    "transformer_coursework": ["--model=transformer_coursework", *DROPOUT],
    "transformer_cured": ["--model=transformer_coursework", *CURE],
}
EXAMPLES = (20, 204, 432, 44, 13, 242)  # Lines of the test set in tables 4 and 6 of the report.


def train_command(name):
    """Returns the command that trains a run, as a list."""
    folder = f"--model_dir={FLAGS.runs}/{name}"
    return ["train.py", *corpus_flags(), *RUNS[name], *TRAINING, folder]


def curves(name):
    """Returns the mean loss per token of every epoch: in training, and of validation text."""
    found = {"train": [], "valid": []}
    for line in read_lines(Path(FLAGS.runs, name, "metrics.jsonl")):
        row = json.loads(line)
        if row["step"] % EPOCH == 0 and row["kind"] in found:
            found[row["kind"]].append(round(math.log(row["perplexity"]), 4))
    return found


def measure(name):
    """Translates the test set greedily; returns the figures of a trained run."""
    folder, (source, reference) = f"{FLAGS.runs}/{name}", (file_of("test", x) for x in ("de", "en"))
    output, scores = Path(folder, "test.en"), Path(folder, "test.json")
    run(
        [
            *("translate.py", f"--model_dir={folder}", "--beam_size=1", f"--input={source}"),
            *(f"--reference={reference}", "--tokenize=none", "--lowercase", f"--output={output}"),
            f"--save_scores={scores}",
        ]
    )
    record = json.loads(scores.read_text(encoding="utf-8"))
    lines = read_lines(output)
    return {
        **{key: record[key] for key in ("bleu", "chrf", "parameters", "training")},
        "loss": curves(name),
        "examples": {str(number): lines[number - 1] for number in EXAMPLES},
        "command": shlex.join(["python", *train_command(name)]),
    }


def text_facts():
    """Returns the lines of the examples."""
    test = [read_lines(file_of("test", side)) for side in ("de", "en")]
    return {"lines": {str(number): [side[number - 1] for side in test] for number in EXAMPLES}}


def draw(runs):
    """Draws figures 1 and 2 of the report: loss by epoch, as far as the runs are there."""
    words = {"train": "training", "valid": "validation"}
    pictures = {
        "lstm": ("lstm_luong", "lstm_luong_deep", "lstm_lexical"),
        "transformer": ("transformer_coursework", "transformer_cured"),
    }
    for picture, names in pictures.items():
        series = {
            f"{name}, {words[kind]}": (range(1, len(losses) + 1), losses)
            for name in names
            if name in runs
            for kind, losses in runs[name]["loss"].items()
        }
        if series:
            path = ROOT / "docs" / f"coursework_{picture}.svg"
            save_curves(series, path, x_label="epoch", y_label="loss (nats per token)")


def main(argv):
    """Trains, translates, records and draws."""
    del argv
    record = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"runs": {}}
    for name in chosen(FLAGS.only, RUNS, "run"):
        run(train_command(name))
        record["runs"][name] = measure(name)
        record |= text_facts() | {"machine": machine()}
        write_record(RESULT, record)
    draw(record["runs"])
    return 0


if __name__ == "__main__":
    console.run(main)
