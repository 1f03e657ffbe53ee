"""Trains for half an hour on lower-cased Multi30k, and tries one change of the recipe at a time.

    python -m docs.studies.record record-1 record-2 record-3
    python -m docs.studies.record muon muon_6 # Trials: validation text alone.
    python -m docs.studies.record             # The tables alone.

docs/results/record/NAME.json has the figures of a run. The lower-cased text of the trials is in
--data_dir once runs/record.sh has begun. The test text is translated by the records
alone. Its BLEU is that of papers (lower case, tokens) if the package sacremoses is installed.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tables.cells import with_tables
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_json, write_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "docs/results/record", ROOT / "docs/studies/record.md"
# Of every run, from the recipe of runs/multi30k.sh.
FLAGS = ["--model=transformer_tiny", "--num_pieces=6000", "--set=positions=rotary"]
FLAGS += ["--set=dropout=0.2"]
FLAGS += ["--noise=none", "--schedule=cosine", "--patience=0", "--precision=auto"]
SHORT = {"max_steps": 2000, "warmup_steps": 600, "learning_rate": "3e-3", "bpe_dropout": 0}
SHORT |= {"eval_every_steps": 1000, "intra_op_threads": 1, "average_checkpoints": 1}
SHORT |= {"bleu_lines": 200}


class Trial(NamedTuple):
    """A change of the recipe, tried with few updates."""

    change: str  # in words
    flags: dict[str, Any] | None = None
    code: str = ""  # name of a change in `CHANGES`


MUON = {"optimizer": "muon"}
BEST = {**MUON, "learning_rate": "1.2e-2"}
LONG = {"max_steps": 7200, "eval_every_steps": 1800, "bpe_dropout": 0.05, "bleu_lines": 1014}
HALF = {"max_tokens_per_batch": 1024, "max_steps": 4000, "warmup_steps": 1200}
TRIALS = {
    "adam": Trial("Adam, rate 3e-3"),
    "adam_6": Trial("Adam, 6e-3", {"learning_rate": "6e-3"}),
    "free": Trial("schedule-free AdamW, 3e-3", {"schedule": "constant"}, "free"),
    "muon": Trial("Muon, 3e-3", MUON),
    "muon_6": Trial("Muon, 6e-3", {**MUON, "learning_rate": "6e-3"}),
    "muon_12": Trial("Muon, 1.2e-2", BEST),
    "muon_24": Trial("Muon, 2.4e-2", {**MUON, "learning_rate": "2.4e-2"}),
    "half": Trial("as 1.2e-2, half the tokens an update", {**BEST, **HALF}),
    "squared": Trial("as 1.2e-2, squared ReLU", BEST, "squared"),
    "zero": Trial("as 1.2e-2, sub-layers begin at 0", BEST, "zero"),
    "norm": Trial("as 1.2e-2, normalised queries and keys", {**BEST, "bleu_lines": 0}, "norm"),
    "pre": Trial("as 1.2e-2, normalisation before sub-layers", {**BEST, "set=norm": "pre"}),
    "pieces": Trial("as 1.2e-2, 4,000 pieces", {**BEST, "num_pieces": 4000}),
    "long": Trial("as 1.2e-2, BPE-dropout 0.05, 7,200 updates; all lines", {**BEST, **LONG}),
    "long_0": Trial("the same without BPE-dropout", {**BEST, **LONG, "bpe_dropout": 0}),
    "long_15": Trial("the same with dropout 0.15", {**BEST, **LONG, "set=dropout": 0.15}),
}


def squared() -> None:
    """Squares the ReLU of the feed-forward sub-layers (So et al. 2021)."""
    from keras import ops

    from nmt_zoo.models.layers import transformer_layers

    transformer_layers.ACTIVATIONS["relu"] = lambda x: ops.square(ops.relu(x))


def zero() -> None:
    """Lets attention and feed-forward sub-layers return 0 at first."""
    from nmt_zoo.models.layers import basic

    make = basic.Dense.__init__

    def begin(self: Any, *sizes: Any, **settings: Any) -> None:
        if settings.get("name") in ("output", "outer"):
            settings["kernel_initializer"] = "zeros"
        make(self, *sizes, **settings)

    basic.Dense.__init__ = begin


def norm() -> None:
    """Normalises queries and keys of self-attention, and keys of all (Henry et al. 2020).

    Only whole passes do so, which is enough for a perplexity.
    """
    from keras import ops

    from nmt_zoo.models.layers.attention import MultiHeadAttention

    placed = MultiHeadAttention._placed

    def normalised(self: Any, x: Any) -> Any:
        y = ops.cast(x, "float32")
        y = y * ops.rsqrt(ops.mean(ops.square(y), axis=-1, keepdims=True) + 1e-6)
        return placed(self, ops.cast(y, x.dtype))

    MultiHeadAttention._placed = normalised


def free() -> None:
    """Takes the place of Adam by that of Defazio et al. 2024, as Keras has it."""
    import keras

    from nmt_zoo.training.ways.gradient import adam, gradient

    def make(learning_rate: float, warmup_steps: int, **_: Any) -> Any:
        rate = adam.Constant(learning_rate, warmup_steps)
        others = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "weight_decay": None}
        return keras.optimizers.ScheduleFreeAdamW(rate, warmup_steps=0, **others)

    gradient.adam = make


RECORDS = [f"record-{seed}" for seed in (1, 2, 3)]
SCORES = ("bleu", "chrf", "bleu_of_moses_tokens")  # of the test text, for the table
CHANGES = {"squared": squared, "zero": zero, "norm": norm, "free": free}


def environment(name: str, flags: Any) -> dict[str, str]:
    """Returns the variables of runs/record.sh for a record."""
    folder = f"{flags.runs}/{name}"
    given = {"PYTHON": sys.executable, "DATA": flags.data_dir, "MODEL_DIR": folder}
    return {**os.environ, **given, "SEED": name[-1]}


def trial_command(name: str, flags: Any) -> list[str]:
    """Returns the words after `python` that train a trial, on the text of runs/record.sh."""
    trial, text = TRIALS[name], f"{flags.data_dir}/multi30k_en_de_lower"
    changed = {**SHORT, **(trial.flags or {})}
    words = ["-m", "docs.studies.record", f"--code={trial.code}"] if trial.code else ["train.py"]
    words += [word for word in FLAGS if word[2:].rpartition("=")[0] not in changed]
    for split in ("train", "valid"):
        sides = zip(("source", "target"), ("en", "de"), strict=True)
        words += [f"--{split}_{side}={text}/{split}.{language}" for side, language in sides]
    words += [f"--{key}={value}" for key, value in changed.items()]
    return [*words, f"--model_dir={flags.runs}/{name}"]


def curve(folder: str) -> list[dict[str, Any]]:
    """Returns the validations of a run."""
    lines = map(json.loads, read_lines(f"{folder}/metrics.jsonl"))
    names = ("step", "seconds", "perplexity", "bleu")
    return [{n: line.get(n) for n in names} for line in lines if line["kind"] == "valid"]


def scores(folder: str, text: str) -> dict[str, Any]:
    """Returns the facts of a record, from what runs/record.sh wrote."""
    found = json.loads(Path(folder, "scores.json").read_text(encoding="utf-8"))
    kept = ("parameters", "training", "options", "length_penalty", "bleu", "bleu_signature")
    facts = {key: found[key] for key in (*kept, "chrf", "machine")}
    if importlib.util.find_spec("sacremoses"):
        facts["bleu_of_moses_tokens"] = of_tokens(f"{folder}/test.de", f"{text}/test.de")
    return facts


def of_tokens(output: str, reference: str) -> float:
    """Returns BLEU of two files, tokenised as Moses does, as papers on Multi30k count."""
    import sacrebleu
    import sacremoses

    split = sacremoses.MosesTokenizer("de").tokenize
    sides = ([split(x, return_str=True) for x in read_lines(path)] for path in (output, reference))
    found, expected = sides
    return sacrebleu.corpus_bleu(found, [expected], tokenize="none", force=True).score


def tables() -> dict[str, list[str]]:
    """Returns the lines of the tables by name, from docs/results/record."""
    records = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*.json")}
    trials = [["change", "updates", "perplexity", "BLEU, 200 lines"], ["---"] * 4]
    for name, trial in TRIALS.items():
        if name in records:
            last = records[name]["validation"][-1]
            bleu = "" if last["bleu"] is None else f"{last['bleu']:.2f}"
            trials.append([trial.change, f"{last['step']:,}", f"{last['perplexity']:.2f}", bleu])
    found = [(name, records[name]) for name in RECORDS if name in records]
    rows = [["seed", "minutes", "updates", "perplexity", "BLEU", "chrF", "BLEU of Moses tokens"]]
    rows.append(["---"] * len(rows[0]))
    for name, record in found:
        last, training = record["validation"][-1], record["training"]
        row = [name[-1], f"{training['minutes']:.1f}", f"{training['steps']:,}"]
        of_test = [f"{record.get(key, math.nan):.2f}" for key in SCORES]
        rows.append([*row, f"{last['perplexity']:.2f}", *of_test])
    if found:
        means = [f"{statistics.mean(r.get(key, math.nan) for _, r in found):.2f}" for key in SCORES]
        rows.append(["**mean**", "", "", "", *(f"**{x}**" for x in means)])
    named = {"trials": trials} | ({"records": rows} if found else {})
    return {name: [f"| {' | '.join(row)} |" for row in table] for name, table in named.items()}


def page() -> str:
    """Returns the page with the tables of the result files."""
    return with_tables(PAGE.read_text(encoding="utf-8"), tables())


def main() -> None:
    """Trains and measures the named runs, and writes the tables."""
    if sys.argv[1:] and sys.argv[1].startswith("--code="):
        CHANGES[sys.argv.pop(1).partition("=")[2]]()
        from nmt_zoo.command_line.train import command

        command()
        return
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*TRIALS, *RECORDS, []])
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default="runs/record")
    flags = parser.parse_args()
    for name in flags.names:
        folder, began = f"{flags.runs}/{name}", time.monotonic()
        if name in RECORDS:
            subprocess.run(["runs/record.sh"], cwd=ROOT, env=environment(name, flags), check=True)
        else:
            words = trial_command(name, flags)
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        record = {"command": f"python -m docs.studies.record {name}"}
        record["minutes_of_process"] = round((time.monotonic() - began) / 60, 2)
        record |= {"machine": machine(), "validation": curve(folder)}
        if name in RECORDS:
            record |= scores(folder, f"{flags.data_dir}/multi30k_en_de_lower")
        RESULTS.mkdir(exist_ok=True)
        write_json(RESULTS / f"{name}.json", record)
    write_text(PAGE, page())


if __name__ == "__main__":
    main()
