"""Kills small runs at random moments; each must end with the same files as an undisturbed run.

    python tests/system/kills/harness.py --kills=200 --output=docs/results/faults/kills.json

Importing TensorFlow takes longer than such a run. So it is imported once, by a process that never
starts TensorFlow's run-time, and every process of a run is a fork of that process.

There are three kinds of moments: `time`, at a random time after the start; `step`, soon after the
record of a certain step; `save`, while a file is being written. Weights, optimizer, seeds, best
model and metrics must equal those of the undisturbed run bit for bit; times and speeds are not
compared.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
# Such small runs gain nothing from more threads.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import numpy as np  # noqa: E402

from nmt_zoo.command_line import train  # noqa: E402
from nmt_zoo.command_line.console import status_of  # noqa: E402
from nmt_zoo.command_line.machine import machine  # noqa: E402
from nmt_zoo.common.files import write_text  # noqa: E402
from nmt_zoo.configuration.resolver import options_of  # noqa: E402
from nmt_zoo.model_directory.directory import ModelDirectory, read_archive  # noqa: E402
from tests.tiny import corpus_flags, small_flags  # noqa: E402

SAVE_EVERY = 3  # Neither a multiple of LOG_EVERY nor of the steps between validations.
LOG_EVERY = 2
PRESETS = ("transformer_tiny", "lstm_luong", "ibm2")
STEPS = {"ibm2": 20}  # Others: 40.
KILLS_A_RUN = 8
MOMENTS = ("time", "step", "save")
CLOCKS = ("seconds", "tokens_per_second")
LONGEST_SITTING = 600.0  # Most seconds of a process.


def command(preset, folder, corpus):
    """Returns the flags of train.py for a run in a folder."""
    return [
        *corpus,
        *small_flags(preset),
        *["--num_pieces=300"] * (options_of(preset, "files", {})["tokenizer"] == "bpe"),
        *("--bleu_lines=5", "--max_tokens_per_batch=128"),
        *(
            f"--save_every_steps={SAVE_EVERY}",
            f"--log_every_steps={LOG_EVERY}",
            "--eval_every_steps=10",
        ),
        *("--average_checkpoints=2", f"--max_steps={STEPS.get(preset, 40)}"),
        *(f"--model_dir={folder / 'run'}", f"--data_dir={folder / 'data'}"),
    ]


def start(arguments, log):
    """Forks a process that begins or resumes a run; returns its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        status = status_of(train.main, ["train", *arguments], train.Arguments)
    finally:
        os._exit(status or 0)


def last_step(directory):
    """Returns the step of the last complete record, or 0."""
    try:
        lines = directory.metrics_path.read_text().splitlines()
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        try:
            return json.loads(line)["step"]
        except json.JSONDecodeError:  # The line is being written.
            continue
    return 0


def being_written(directory):
    """Returns whether a checkpoint or a best model is being written."""
    for folder in (directory.checkpoint_folder, directory.path):
        try:
            if any(entry.name.startswith(".unfinished-") for entry in os.scandir(folder)):
                return True
        except FileNotFoundError:
            pass
    return False


def end_or_kill(child, directory, moment, rng, duration):
    """Waits until a process ends, or kills it at the chosen moment; returns its status."""
    began = time.monotonic()
    due = rng.uniform(0.0, duration)
    step = last_step(directory) + rng.randint(1, 2 * SAVE_EVERY)
    saves_to_pass = rng.randint(0, 3)
    delay = rng.expovariate(1 / 0.003)
    writing = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        elapsed = time.monotonic() - began
        if moment == "save":
            was, writing = writing, being_written(directory)
            saves_to_pass -= writing and not was
        reached = {
            None: elapsed > LONGEST_SITTING,
            "time": elapsed > due,
            "step": moment == "step" and last_step(directory) >= step,
            "save": writing and saves_to_pass < 0,
        }[moment]
        if reached:
            time.sleep(delay if moment else 0.0)
            os.kill(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.0003 if moment == "save" else 0.003)


def whole(preset, folder, corpus):
    """Trains without a kill; returns the directory and the seconds that it took."""
    directory, began = ModelDirectory(folder / "run"), time.monotonic()
    child = start(command(preset, folder, corpus), folder / "log")
    status = end_or_kill(child, directory, None, random.Random(0), 0.0)
    if status:
        raise RuntimeError(f"{preset}: status {status}\n{(folder / 'log').read_text()}")
    return directory, time.monotonic() - began


def differences(expected, found):
    """Lists the differences between two model directories, as strings."""
    last = expected.checkpoint_steps()[-1]
    names, result = [expected.checkpoint_path(last).relative_to(expected.path), "best.npz"], []
    for name in names:
        (arrays, state), (others, other) = (
            read_archive(directory.path / name) for directory in (expected, found)
        )
        for both in (state, other):
            both.pop("seconds", None)
        if arrays.keys() != others.keys() or state != other:
            result.append(f"{name}: {state} became {other}")
        result += [f"{name}: {n}" for n in arrays if not np.array_equal(arrays[n], others[n])]
    records = [
        [
            {key: value for key, value in json.loads(line).items() if key not in CLOCKS}
            for line in directory.metrics_path.read_text().splitlines()
        ]
        for directory in (expected, found)
    ]
    result += ["metrics.jsonl"] * (records[0] != records[1])
    if expected.config_path.read_bytes() != found.config_path.read_bytes():
        result.append("config.json")
    return result + [str(path) for path in found.path.rglob(".unfinished-*")]


def disturbed(preset, folder, corpus, kills, rng, duration):
    """Kills a run several times, then lets it end.

    Returns:
        (the run's directory, list of {"moment", "lost_steps"}, one for each kill).
    """
    directory, killed = ModelDirectory(folder / "run"), []
    while True:
        moment = rng.choice(MOMENTS) if len(killed) < kills else None
        child = start(command(preset, folder, corpus), folder / "log")
        status = end_or_kill(child, directory, moment, rng, duration)
        if status == 0:
            return directory, killed
        if status != -signal.SIGKILL or moment is None:
            raise RuntimeError(f"{preset}: status {status}\n{(folder / 'log').read_text()}")
        saved = max(directory.checkpoint_steps(), default=0)
        # An upper bound, because steps after the last record leave no trace. Saved steps are not
        # lost.
        most_made = min(last_step(directory) + LOG_EVERY - 1, saved + SAVE_EVERY)
        killed.append({"moment": moment, "lost_steps": max(most_made - saved, 0)})


def run(preset, kills, seed, folder):
    """Makes all kills of a preset; returns its part of the report."""
    rng, killed, bad, runs = random.Random(f"{seed} {preset}"), [], [], 0
    (folder / "whole").mkdir(parents=True)
    corpus = corpus_flags(folder, train=60, valid=5)
    expected, duration = whole(preset, folder / "whole", corpus)
    survived = 0
    while len(killed) < kills:
        again = folder / "again"
        shutil.rmtree(again, ignore_errors=True)
        again.mkdir()
        wanted = min(KILLS_A_RUN, kills - len(killed))
        directory, found = disturbed(preset, again, corpus, wanted, rng, duration)
        runs += 1
        bad += (differing := differences(expected, directory))
        survived += 0 if differing else len(found)
        killed += found
        print(f"{preset}: {len(killed)} kills, {survived} survived", flush=True)
    lost = [kill["lost_steps"] for kill in killed]
    return {
        "runs": runs,
        "kills": len(killed),
        "survived": survived,
        "kills_by_moment": {m: sum(kill["moment"] == m for kill in killed) for m in MOMENTS},
        "steps_between_saves": SAVE_EVERY,
        "most_steps_lost": max(lost),
        "mean_steps_lost": round(sum(lost) / len(lost), 2),
        "seconds_undisturbed": round(duration, 1),
        "differences": bad,
    }


def main():
    """Reads the command line; exits with 1 if a kill cost more than the steps since a save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="over all presets")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args()
    presets = given.presets.split(",")
    shares = {p: len(range(i, given.kills, len(presets))) for i, p in enumerate(presets)}
    with tempfile.TemporaryDirectory() as folder:
        results = {p: run(p, n, given.seed, Path(folder, p)) for p, n in shares.items() if n}
    report = {
        "kills": sum(result["kills"] for result in results.values()),
        "survived": sum(result["survived"] for result in results.values()),
        "most_steps_lost": max(result["most_steps_lost"] for result in results.values()),
        "seed": given.seed,
        "presets": results,
        "machine": machine(),
    }
    text = json.dumps(report, indent=2)
    print(text)
    if given.output:
        write_text(given.output, text + "\n")
    return int(report["survived"] < report["kills"] or report["most_steps_lost"] > SAVE_EVERY)


if __name__ == "__main__":
    sys.exit(main())
