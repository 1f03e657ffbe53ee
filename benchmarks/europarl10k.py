"""Trains small models on 10,000 German-English pairs of Europarl, scores and compares them.

    python benchmarks/europarl10k.py
    python benchmarks/europarl10k.py --only=lstm_luong,lstm_lexical

The text is downloaded, lower-cased and tokenised as it is. A complete run is not trained again; a
run that was stopped resumes. Scores are written to
docs/results/europarl10k/, where results_table.py reads them. BLEU by source length is drawn in
docs/bleu_by_length.png; a model that was not run again keeps its earlier figures there.
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
from benchmarks.parts.europarl import SMALL, WORDS, corpus_flags, file_of
from benchmarks.parts.scripts import chosen, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.decoding.pictures.figures import save_curves
from nmt_zoo.decoding.scores import corpus_scores

FLAGS = flags.FLAGS

flags.DEFINE_string("runs", "runs/europarl10k", "Folder for the model directories.")
flags.DEFINE_list("only", [], "Names of the runs to make. Default: all.")

RESULTS = ROOT / "docs" / "results" / "europarl10k"
PICTURE = ROOT / "docs" / "bleu_by_length.png"
SCORING = {"tokenize": "none", "lowercase": True}  # Like multi-bleu on lower-cased tokens.

# All options were chosen on validation data.
# Small recurrent models process as many tokens a second in small batches as in large ones, so small
# batches give more updates in the same time.
RECURRENT = [
    *("--max_tokens_per_batch=400", "--schedule=constant", "--warmup_steps=200"),
    *("--learning_rate=1.5e-3", "--eval_every_steps=1000", "--save_every_steps=500"),
    *("--average_checkpoints=8", "--patience=5"),
]
TRANSFORMER = [
    *("--max_tokens_per_batch=1024", "--warmup_steps=1000", "--learning_rate=1e-3"),
    *("--label_smoothing=0.2", "--eval_every_steps=250", "--save_every_steps=125"),
    *("--average_checkpoints=8", "--patience=4"),
]

# name: flags of train.py
RUNS = {
    # As many updates as lstm_luong made in its 30 minutes, so that both can be compared.
    "lstm_seq2seq": ["--model=lstm_seq2seq", *WORDS, *RECURRENT, "--max_steps=15781"],
    "lstm_luong": ["--model=lstm_luong", *WORDS, *RECURRENT, "--max_minutes=30"],
    "lstm_luong_deep": ["--model=lstm_luong_deep", *WORDS, *RECURRENT, "--max_minutes=55"],
    "lstm_lexical": ["--model=lstm_lexical", *WORDS, *RECURRENT, *SMALL, "--max_minutes=30"],
    "transformer_coursework": [
        *("--model=transformer_coursework", *WORDS, *TRANSFORMER, "--max_minutes=30")
    ],
}

# Published in the table of Q1, Q4, Q5 and Q7 of a coursework report of the University of Edinburgh
# (NLU+, 2022): BLEU of greedy translations, perplexity on the validation set.
PUBLISHED = {
    "lstm_luong": (10.91, 27.0),
    "lstm_luong_deep": (9.97, 29.0),
    "lstm_lexical": (12.68, 24.1),
    "transformer_coursework": (11.03, 30.9),
}

SEARCHES = {
    "greedy": ["--beam_size=1"],
    "beam": ["--beam_size=5", "--length_penalty=1.5"],
    "replaced": ["--beam_size=5", "--length_penalty=1.5", "--replace_unknowns"],
}
# Models that emit UNK and have an attention that finds the source word for it.
WITH_UNKNOWNS = ("lstm_luong", "lstm_luong_deep", "lstm_lexical", "transformer_coursework")

COMPARED_BY_LENGTH = ("lstm_seq2seq", "lstm_luong", "transformer_coursework")
LENGTHS = ((1, 8), (9, 11), (12, 14), (15, 30))  # Source words; groups of about equal size.


def train_command(name):
    """Returns the command that trains a run, as a list."""
    return ["train.py", *RUNS[name], *corpus_flags(), f"--model_dir={FLAGS.runs}/{name}"]


def translate_command(name, search):
    """Returns the command that translates and scores the test set, as a list."""
    run = f"{FLAGS.runs}/{name}"
    return [
        *("translate.py", f"--model_dir={run}", *SEARCHES[search]),
        *(f"--input={file_of('test', 'de')}", f"--reference={file_of('test', 'en')}"),
        *(f"--tokenize={SCORING['tokenize']}", "--lowercase"),
        *(f"--output={run}/{search}.en", f"--save_scores={run}/{search}.json"),
    ]


def score(name):
    """Writes the result file of a trained run."""
    found = {}
    for search in SEARCHES:
        if search != "replaced" or name in WITH_UNKNOWNS:
            run(translate_command(name, search))
            found[search] = json.loads(Path(FLAGS.runs, name, f"{search}.json").read_text("utf-8"))
    figures = ("bleu", "chrf", "translation_seconds")
    of_search = (*figures, "beam_size", "replace_unknowns")
    record = {key: value for key, value in found["beam"].items() if key not in of_search}
    record["scores"] = {
        search: {figure: scores[figure] for figure in figures} for search, scores in found.items()
    }
    preset = models.preset_settings(record["model"])
    record["settings"] = {k: v for k, v in record["settings"].items() if preset[k] != v}
    if name in PUBLISHED:
        record["published"] = dict(zip(("bleu", "perplexity"), PUBLISHED[name], strict=True))
    record["command"] = shlex.join(["python", *train_command(name)])
    write_record(RESULTS / f"{name}.json", record)


def source_lengths():
    """Returns the number of words of each source line of the test set."""
    lengths = [len(line.split()) for line in read_lines(file_of("test", "de"))]
    if not all(LENGTHS[0][0] <= length <= LENGTHS[-1][1] for length in lengths):
        raise UserError(f"{file_of('test', 'de')}: lines of 0 or more than {LENGTHS[-1][1]} words")
    return lengths


def compare_lengths(lengths):
    """Draws BLEU by source length; `lengths` as from `source_lengths`."""
    references = read_lines(file_of("test", "en"))
    groups = [
        [row for row, length in enumerate(lengths) if least <= length <= most]
        for least, most in LENGTHS
    ]
    path = RESULTS / "bleu_by_length.json"
    earlier = json.loads(path.read_text("utf-8"))["bleu"] if path.exists() else {}
    table = {
        "source words": [f"{least} to {most}" for least, most in LENGTHS],
        "mean source words": [
            round(sum(lengths[row] for row in rows) / len(rows), 1) for rows in groups
        ],
        "lines": [len(rows) for rows in groups],
        "bleu": {},
    }
    for name in COMPARED_BY_LENGTH:
        translations = Path(FLAGS.runs, name, "beam.en")
        if not translations.exists():
            if name not in earlier:
                return  # The comparison needs this model, which has not been run yet.
            table["bleu"][name] = earlier[name]
            continue
        outputs = read_lines(translations)
        table["bleu"][name] = [
            round(
                corpus_scores(
                    [outputs[row] for row in rows], [[references[row] for row in rows]], **SCORING
                )["bleu"].score,
                2,
            )
            for rows in groups
        ]
    write_record(path, table)
    save_curves(
        {name: (table["mean source words"], bleu) for name, bleu in table["bleu"].items()},
        PICTURE,
        x_label="source words (mean of the group)",
        y_label="BLEU, beam 5",
    )


def main(argv):
    """Trains, scores, compares."""
    del argv
    for name in chosen(FLAGS.only, RUNS, "run"):
        run(train_command(name))
        score(name)
    compare_lengths(source_lengths())
    return 0


if __name__ == "__main__":
    console.run(main)
