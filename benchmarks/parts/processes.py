"""Whole processes: their start, and their memory on large texts."""

import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.parts.scripts import ROOT, measured
from benchmarks.parts.serving import Server
from benchmarks.parts.turns import memory
from nmt_zoo.common.files import write_lines

IMPORT = "import tensorflow"
SENTENCE = "A dog runs ."
WORDS, LENGTH = 200_000, 12  # Of the text for align.py.
NOISE = 0.15  # Share of target words that translate nothing.


def start_times(arguments, record):
    """Times processes from their start to their first answer, beside `import tensorflow`.

    Every round runs all cases in turns.
    """
    model_dir = Path(arguments.model_dir).resolve()
    cases = {
        IMPORT: lambda: _seconds("-c", IMPORT),
        "serve.py": lambda: _seconds_of_server(model_dir),
    }
    for engine in ("ctranslate2", "tensorflow"):
        command = ("translate.py", f"--model_dir={model_dir}", f"--engine={engine}")
        cases[f"translate.py --engine={engine}"] = lambda command=command: _seconds(*command)
    rounds = [{name: run() for name, run in cases.items()} for _ in range(arguments.rounds)]
    record |= {"rounds": arguments.rounds, "cases": {}}
    for name in cases:
        seconds = statistics.median(turn[name] for turn in rounds)
        beside = statistics.median(turn[name] / turn[IMPORT] for turn in rounds)
        record["cases"][name] = {"seconds": seconds, "beside_import": beside}
        print(f"{name}: {seconds:.2f} s, {beside:.2f} of {IMPORT}")


def _seconds(*command):
    """Runs a command with a sentence on standard input to its end; returns the seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, input=f"{SENTENCE}\n".encode(), capture_output=True
    )
    if done.returncode:
        sys.exit(f"{command} failed: {done.stderr.decode()}")
    return time.monotonic() - began


def _seconds_of_server(model_dir):
    server = Server(model_dir, SENTENCE)
    server.kill()
    return server.seconds


def _noisy_pairs(count):
    """Yields (source, target) numbers of words, `[pairs, LENGTH]` each, of up to 10,000 pairs.

    Words are drawn by Zipf's law, and translated with noise, in almost the same order.
    """
    rng = np.random.default_rng(1)
    shares = np.cumsum(1 / (np.arange(WORDS) + 2.7))
    translations = rng.permuted(np.arange(WORDS).reshape(-1, 50), axis=1).ravel()

    def draw(size):
        return np.searchsorted(shares, rng.random((size, LENGTH)) * shares[-1])

    for start in range(0, count, 10_000):
        source = draw(min(10_000, count - start))
        noisy = rng.random(source.shape) < NOISE
        target = np.where(noisy, draw(len(source)), translations[source])
        order = np.argsort(np.arange(LENGTH) + rng.normal(size=source.shape), axis=1)
        yield source, np.take_along_axis(target, order, axis=1)


def memory_of_align(arguments, record):
    """Runs align.py on made texts of several sizes; a row of memory and time for each model."""
    rows = record["rows"] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for count in arguments.pairs:
            for side, name in enumerate(("source", "target")):
                lines = (row for both in _noisy_pairs(count) for row in both[side].tolist())
                write_lines(folder / name, (" ".join(f"{name}{n}" for n in row) for row in lines))
            flags = [f"--{n}={folder / n}" for n in ("source", "target", "alignments")]
            for model in arguments.models:
                command = [sys.executable, str(ROOT / "align.py"), f"--model={model}", *flags]
                seconds, peak = measured(command, folder / "log")
                figures = {"gigabytes": round(peak / 1e9, 2), "seconds": round(seconds, 1)}
                rows.append({"model": model, "pairs": count, **figures})
                print(rows[-1], flush=True)


def memory_of_pipe(arguments, record):
    """Lets a pipe give translate.py many lines; a row of memory for each tenth of them.

    Lines are written as fast as they are read, a tenth of them empty.
    """
    command = [sys.executable, "translate.py", f"--model_dir={Path(arguments.model_dir).resolve()}"]
    command += ["--engine=tensorflow", "--beam_size=1", "--batch_size=128"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, **pipes)

    def feed():
        rng, words = random.Random(1), SENTENCE.split()
        with process.stdin as stream:
            for _ in range(arguments.lines):
                size = rng.randint(1, 7) if rng.random() < 0.9 else 0
                stream.write((" ".join(rng.choices(words, k=size)) + "\n").encode())

    threading.Thread(target=feed, daemon=True).start()
    began, rows = time.monotonic(), []
    for done, _ in enumerate(process.stdout, start=1):
        if 10 * done >= arguments.lines * (len(rows) + 1) and process.poll() is None:
            now, most = (round(memory(process.pid, n) / 2**20) for n in ("VmRSS", "VmHWM"))
            seconds = round(time.monotonic() - began, 1)
            rows.append({"lines": done, "seconds": seconds, "megabytes": now, "most": most})
            print(f"{done:10,} lines {seconds:8.1f} s {now:6} MB, at most {most} MB", flush=True)
    if process.wait():
        sys.exit(process.returncode)
    record["rows"] = rows
