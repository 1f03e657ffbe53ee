"""Measures the memory and the time of align.py on texts of several sizes.

    python benchmarks/alignment_memory.py --output=docs/results/speed/alignment_memory.json

The texts are made: 12 words a side, drawn by Zipf's law from 200,000 words, and translated word by
word with noise, in almost the same order. Each model trains on both directions. Memory is the peak
of the process, in the operating system's count.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.parts.scripts import measured, recorded
from nmt_zoo.command_line import console
from nmt_zoo.common.files import write_lines

WORDS, LENGTH = 200_000, 12
NOISE = 0.15  # Share of target words that translate nothing.


def pairs(count, seed=1):
    """Yields (source, target) numbers of words, `[pairs, LENGTH]` each, of up to 10,000 pairs."""
    rng = np.random.default_rng(seed)
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


def main(argv):
    """Reads the command line, measures, prints a row for each model and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[30_000, 300_000], help="sizes")
    parser.add_argument("--models", nargs="+", default=["ibm1", "ibm2", "hmm", "fertility"])
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args(argv[1:])
    with recorded(given.output) as record, tempfile.TemporaryDirectory() as temporary:
        rows = record["rows"] = []
        folder = Path(temporary)
        for count in given.pairs:
            for side, name in enumerate(("a", "b")):
                lines = (row for both in pairs(count) for row in both[side].tolist())
                write_lines(folder / name, (" ".join(f"{name}{n}" for n in row) for row in lines))
            for model in given.models:
                rows.append({"model": model, "pairs": count, **align(model, count, folder)})
                print(rows[-1], flush=True)


def align(model, count, folder):
    """Runs align.py once; returns its figures."""
    files = {"source": "a", "target": "b", "alignments": "links"}
    flags = [f"--{flag}={folder / name}" for flag, name in files.items()]
    command = [sys.executable, str(ROOT / "align.py"), f"--model={model}", *flags]
    seconds, memory = measured(command, folder / "log")
    return {"gigabytes": round(memory / 1e9, 2), "seconds": round(seconds, 1)}


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
