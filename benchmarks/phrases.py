"""Compares models of words, phrases and networks, and Thot, by amount of text.

    python benchmarks/phrases.py --multi30k=data/multi30k --europarl=data/europarl10k \\
        --thot=thot/bin/python
    python benchmarks/phrases.py --only=multi30k_1000 --systems=phrase_based
    python benchmarks/phrases.py --only=multi30k_29000 --systems=lstm_luong,gru_bahdanau --minutes=3

Multi30k English-German is lower-cased and tokenised as sacreBLEU's 13a; Europarl German-English is
both already. `transformer_started` starts from a model that translates 29,000 captions to French.
--thot is the Python of an environment with `sil-machine[thot]`. Feature weights are tuned, and
networks stopped, on validation text; the test set is translated once. Scores go to
docs/results/phrases/, where results_table.py reads them.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start(tensorflow=False)

# isort: split

from absl import flags

from benchmarks.parts.scripts import chosen, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.model_directory.metrics import read_records

# The networks have their default settings for the size of the text, and --minutes.
NETWORKS = (
    *("attention_ibm1", "attention_ibm2", "lstm_seq2seq", "gru_bahdanau", "lstm_luong"),
    *("lstm_conv", "lstm_lexical", "rnn_attention", "transformer_simple"),
    *("transformer_coursework", "transformer_tiny", "transformer_started"),
)
STATISTICAL = ("ibm1", "ibm2", "hmm_alignment", "ibm2_lm", "phrase_based", "hiero")
SYSTEMS = ("thot", *STATISTICAL, *NETWORKS)
# Those of all texts by default.
_USUAL = ("phrase_based", "hiero", "thot", "ibm2_lm", "lstm_lexical", "transformer_tiny")
_PARENT = "parent"  # The text of the model that another is started from.

FLAGS = flags.FLAGS

flags.DEFINE_string("multi30k", "data/multi30k", "Folder with train.en, val.en and so on.")
flags.DEFINE_string("europarl", "data/europarl10k", "Folder with train.de, val.de and so on.")
flags.DEFINE_string("runs", "runs/phrases", "Folder for texts and model directories.")
flags.DEFINE_string("thot", "", "Python with the package sil-machine[thot]; empty: without Thot.")
flags.DEFINE_integer("thot_seconds", 300, "Longest search for Thot's weights, for each of two.", 1)
flags.DEFINE_list("only", [], "Names of the texts. Default: all.")
flags.DEFINE_list("systems", list(_USUAL), "Names of the systems.")
flags.DEFINE_integer("minutes", 10, "Minutes of training for each network.", 1)

RESULTS = ROOT / "docs" / "results" / "phrases"
TEXTS = {
    **{f"multi30k_{count}": ("multi30k", "en", "de", count) for count in (29000, 5000, 1000, 300)},
    **{f"europarl_{count}": ("europarl", "de", "en", count) for count in (10000, 300)},
    _PARENT: ("multi30k", "en", "fr", 29000),
}
_FILES = {"train": "train", "valid": "val", "test": "test"}
_MULTI30K_TEST = "test_2016_flickr"


def prepare(name):
    """Writes a text as `train.src`, `train.trg` and so on; returns its folder."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    corpus, source, target, count = TEXTS[name]
    folder, tokenize = Path(FLAGS.runs, "texts", name), Tokenizer13a()
    for split, file in _FILES.items():
        if corpus == "multi30k" and split == "test":
            file = _MULTI30K_TEST
        for side, language in (("src", source), ("trg", target)):
            lines = read_lines(Path(getattr(FLAGS, corpus), f"{file}.{language}"))
            if corpus == "multi30k":
                lines = [tokenize(line.strip()).lower() for line in lines]
            folder.mkdir(parents=True, exist_ok=True)
            write_lines(folder / f"{split}.{side}", lines[: count if split == "train" else None])
    return folder


def train_flags(folder, model_dir):
    """Returns the flags of train.py for a text."""
    texts = [
        f"--{split}_{side}={folder / split}.{suffix}"
        for split in ("train", "valid")
        for side, suffix in (("source", "src"), ("target", "trg"))
    ]
    return [*texts, f"--model_dir={model_dir}", "--tokenize=none"]


def parent():
    """Trains the model that `transformer_started` starts from, once; returns the flags for it."""
    model_dir = Path(FLAGS.runs, _PARENT)
    if not model_dir.exists():
        limit = f"--max_minutes={FLAGS.minutes}"
        text = train_flags(prepare(_PARENT), model_dir)
        run(["train.py", "--model=transformer_tiny", limit, *text])
    return [f"--init_from={model_dir}", "--new_vocabulary"]


def with_zoo(system, folder, output):
    """Trains and runs a system of the zoo; returns what is recorded of it."""
    model_dir = Path(FLAGS.runs, folder.name, system)
    limit = [f"--max_minutes={FLAGS.minutes}"] if system in NETWORKS else []
    is_started = system == "transformer_started"
    start = parent() if is_started else [f"--model={system.removesuffix('_lm')}"]
    command = ["train.py", *start, *limit, *train_flags(folder, model_dir)]
    began = time.monotonic()
    run(command)
    record = {"training_seconds": round(time.monotonic() - began, 1), "command": [command]}
    valid = [r for r in read_records(model_dir / "metrics.jsonl") if r.get("bleu") is not None]
    record["curve"] = [[round(r["seconds"], 1), round(r["bleu"], 2)] for r in valid]
    arguments = [f"--model_dir={model_dir}"]
    if system == "ibm2_lm":
        language = Path(FLAGS.runs, folder.name, "lm")
        files = [f"--{split}_target={folder / split}.trg" for split in ("train", "valid")]
        vocabulary = f"--vocab_file={model_dir / 'tokenizer' / 'target.vocab'}"
        command = ["train.py", "--model=ngram_lm", *files, vocabulary, f"--model_dir={language}"]
        run(command)
        record["command"].append(command)
        arguments.append(f"--language_model={language}")
    command = ["translate.py", *arguments, f"--input={folder / 'test.src'}", f"--output={output}"]
    began = time.monotonic()
    run(command)
    record["decoding_seconds"] = round(time.monotonic() - began, 1)
    record["command"] = [shlex.join(["python", *one]) for one in [*record["command"], command]]
    return record


def with_thot(folder, output):
    """Trains and runs Thot; returns what is recorded of it."""
    script = ROOT / "benchmarks" / "parts" / "thot_system.py"
    command = [FLAGS.thot, script, folder, output, str(FLAGS.thot_seconds)]
    record = json.loads(subprocess.check_output(command, text=True))
    names = ["thot_system.py", folder, output, FLAGS.thot_seconds]
    return {**record, "command": [shlex.join(map(str, names))]}


def main(argv):
    """Runs every system on every text, and writes its scores."""
    del argv
    os.chdir(ROOT)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in chosen(FLAGS.only, [name for name in TEXTS if name != _PARENT], "text"):
        folder = prepare(name)
        references = [read_lines(folder / "test.trg")]
        path = RESULTS / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8"))["systems"] if path.exists() else {}
        for system in chosen(FLAGS.systems, SYSTEMS, "system", "--systems"):
            if system == "thot" and not FLAGS.thot:
                continue
            output = Path(FLAGS.runs, folder.name, f"{system}.out")
            output.parent.mkdir(parents=True, exist_ok=True)
            if system == "thot":
                record = with_thot(folder, output)
            else:
                record = with_zoo(system, folder, output)
            scores = corpus_scores(
                read_lines(output), references, tokenize="none", metrics=["bleu", "chrf"]
            )
            record["bleu"], record["chrf"] = (round(scores[n].score, 2) for n in ("bleu", "chrf"))
            record["brevity"] = round(scores["bleu"].bp, 3)
            record["lines_per_second"] = round(len(references[0]) / record["decoding_seconds"], 1)
            found[system] = {**record, "machine": machine()}
            print(f"{name}, {system}: BLEU {record['bleu']}, chrF {record['chrf']}", flush=True)
            found = {system: found[system] for system in SYSTEMS if system in found}
            write_record(path, {"systems": found})
    return 0


if __name__ == "__main__":
    console.run(main)
