"""Studies of a recipe: one change at a time, judged by validation text; then seeds, by test text.

A module such as `record.py` describes a `Study`, and is run as `python -m docs.studies.record`.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tables.cells import markdown, with_tables
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_json, write_text

ROOT = Path(__file__).resolve().parents[2]
DATA = "{data}"  # In a value: the --data_dir.


class Trial(NamedTuple):
    """A change of the recipe, tried with few updates."""

    change: str  # in words
    flags: dict[str, Any] | None = None  # of train.py, by name
    code: str = ""  # name of a change in `Study.changes`


class Study(NamedTuple):
    """A recipe and its trials; docs/studies/NAME.md is its page, docs/results/NAME its records."""

    name: str
    # Flags of all trials, which a trial may change, or leave out by None; {data}: --data_dir.
    usual: dict[str, Any]
    prepare: Callable[[str, str], None]  # (--data_dir, trial): makes what the trial reads.
    trials: dict[str, Trial]
    changes: dict[str, Callable[[], None]]  # of the code
    score: Callable[[str, str, int], dict[str, Any]]  # (--data_dir, folder, seed) -> facts
    scores: dict[str, str]  # Heading of a column of the table of seeds -> its fact.

    @property
    def seeds(self) -> list[str]:
        """Returns the names of the runs that are scored by the test text."""
        return [f"{self.name}-{seed}" for seed in (1, 2, 3)]

    @property
    def results(self) -> Path:
        return ROOT / "docs/results" / self.name

    @property
    def page(self) -> Path:
        return ROOT / f"docs/studies/{self.name}.md"


def words_of(flags: dict[str, Any], data_dir: str) -> list[str]:
    """Returns the flags of a command that are not None, with the --data_dir in their values."""
    given = ((key, str(value)) for key, value in flags.items() if value is not None)
    return [f"--{key}={value.replace(DATA, data_dir)}" for key, value in given]


def run(*words: str, **variables: str) -> None:
    """Runs a command in the project's folder, with more environment variables."""
    subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}, check=True)


def run_python(script: str, flags: dict[str, Any], data_dir: str) -> None:
    """Runs a script of the project with the words of its flags."""
    run(sys.executable, script, *words_of(flags, data_dir))


def trial_command(study: Study, name: str, data_dir: str, runs: str) -> list[str]:
    """Returns the words after `python` that train a trial."""
    trial = study.trials[name]
    module = f"docs.studies.{study.name}"
    words = ["-m", module, f"--code={trial.code}"] if trial.code else ["train.py"]
    flags = {**study.usual, **(trial.flags or {}), "model_dir": f"{runs}/{name}"}
    return words + words_of(flags, data_dir)


def curve(folder: str) -> list[dict[str, Any]]:
    """Returns the validations of a run."""
    lines = map(json.loads, read_lines(f"{folder}/metrics.jsonl"))
    names = ("step", "seconds", "perplexity", "bleu")
    return [{n: line.get(n) for n in names} for line in lines if line["kind"] == "valid"]


def tables(study: Study) -> dict[str, list[str]]:
    """Returns the lines of the tables by name, from the records."""
    records = {path.stem: json.loads(path.read_text()) for path in study.results.glob("*.json")}
    trials = [["change", "updates", "perplexity", f"BLEU, {study.usual['bleu_lines']} lines"]]
    for name, trial in study.trials.items():
        if name in records:
            last = records[name]["validation"][-1]
            bleu = "" if last["bleu"] is None else f"{last['bleu']:.2f}"
            trials.append([trial.change, f"{last['step']:,}", f"{last['perplexity']:.2f}", bleu])
    found = [records[name] for name in study.seeds if name in records]
    seeds = [["seed", "minutes", "updates", "perplexity", *study.scores]]
    facts = [[record.get(fact, math.nan) for fact in study.scores.values()] for record in found]
    for record, values in zip(found, facts, strict=True):
        last, training = record["validation"][-1], record["training"]
        row = [str(record["options"]["seed"]), f"{training['minutes']:.1f}"]
        row += [f"{training['steps']:,}", f"{last['perplexity']:.2f}"]
        seeds.append([*row, *map("{:.2f}".format, values)])
    means = map(statistics.mean, zip(*facts, strict=True))
    seeds.append(["**mean**", "", "", "", *map("**{:.2f}**".format, means)])
    named = {"trials": trials} | ({"seeds": seeds} if found else {})
    return {name: markdown(table) for name, table in named.items()}


def page(study: Study) -> str:
    """Returns the page with the tables of the records."""
    return with_tables(study.page.read_text(encoding="utf-8"), tables(study))


def main(study: Study) -> None:
    """Trains and measures the named runs, and writes the tables."""
    if sys.argv[1:] and sys.argv[1].startswith("--code="):
        study.changes[sys.argv.pop(1).partition("=")[2]]()
        from nmt_zoo.command_line.train import command

        command()
        return
    parser = argparse.ArgumentParser(description=main.__doc__)
    choices = [*study.trials, *study.seeds, []]
    parser.add_argument("names", nargs="*", metavar="NAME", choices=choices)
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default=f"runs/{study.name}")
    flags = parser.parse_args()
    for name in flags.names:
        folder, began, facts = f"{flags.runs}/{name}", time.monotonic(), {}
        if name in study.seeds:
            facts = study.score(flags.data_dir, folder, int(name.rpartition("-")[2]))
        else:
            study.prepare(flags.data_dir, name)
            words = trial_command(study, name, flags.data_dir, flags.runs)
            run(sys.executable, *words)
        record = {"command": f"python -m docs.studies.{study.name} {name}"}
        record["minutes_of_process"] = round((time.monotonic() - began) / 60, 2)
        record |= {"machine": machine(), "validation": curve(folder), **facts}
        study.results.mkdir(exist_ok=True)
        write_json(study.results / f"{name}.json", record)
    write_text(study.page, page(study))


def kept(folder: str) -> dict[str, Any]:
    """Returns the facts of a run that are recorded, from the scores of its test text."""
    text = Path(folder, "scores.json").read_text(encoding="utf-8")
    found = json.loads(text.replace(f"{Path(folder).parent}/", ""))
    names = ("parameters", "training", "options", "length_penalty", "bleu", "bleu_signature")
    return {name: found[name] for name in (*names, "chrf", "machine")}
