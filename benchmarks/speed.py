r"""Measures speed and memory; candidates take turns.

    python benchmarks/speed.py updates --preset=transformer_base --precision=bfloat16 \
        --output=docs/results/speed/updates/transformer_base_bfloat16.json
    python benchmarks/speed.py decoding --model_dir=runs/x --source=data/multi30k_en_de/test.en

`updates` needs torch, unless --candidates leaves it out; `decoding` needs ctranslate2.
"""

import argparse
import importlib.metadata
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.parts import decoding, updates
from benchmarks.parts.scripts import recorded, require
from nmt_zoo.command_line import console

NAMES = list(updates.CANDIDATES)


def parser():
    """Makes the parser of the command line: one command for each kind of measurement."""
    main = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = main.add_subparsers(required=True, metavar="KIND")

    def kind(name, measure, packages=()):
        own = kinds.add_parser(name, help=measure.__doc__.splitlines()[0])
        own.set_defaults(measure=measure, packages=packages)
        own.add_argument("--output", help="JSON file to write")
        return own

    own = kind("updates", updates.measure)
    own.add_argument("--preset", default="transformer_small", help="model to update")
    own.add_argument("--precision", choices=updates.TOLERANCES, default="float32")
    own.add_argument("--candidates", nargs="+", choices=NAMES, default=NAMES)
    own.add_argument("--dataset", default="multi30k_de_en", help="corpus of train.py")
    own.add_argument("--data_dir", default="data", help="its folder, as in train.py")
    own.add_argument("--pieces", type=int, default=8000, help="size of the vocabulary")
    own.add_argument("--max_tokens", type=int, default=4096, help="padded tokens of a side")
    own.add_argument("--rounds", type=int, default=9, help="turns of each candidate")
    own.add_argument("--steps", type=int, default=4, help="updates in a turn")
    own.add_argument("--threads", type=int, default=os.cpu_count(), help="of every candidate")
    own.add_argument("--seed", type=int, default=1, help="of weights, dropout and batches")

    own = kind("decoding", decoding.measure, packages=("ctranslate2",))
    own.add_argument("--model_dir", default="", help="model to time, besides random ones")
    own.add_argument("--source", help="text that --model_dir translates")
    own.add_argument("--beams", type=int, nargs="+", default=[4, 1], help="numbers of hypotheses")
    own.add_argument("--lines", type=int, default=128, help="lines in a turn with batches")
    own.add_argument("--rounds", type=int, default=7, help="turns of each engine")
    own.add_argument("--threads", type=int, default=2, help="of every engine")
    return main


def main(argv):
    """Reads the command line, measures, writes the record."""
    arguments = parser().parse_args(argv[1:])
    packages = list(arguments.packages)
    if {"pytorch", "compiled"} & {*getattr(arguments, "candidates", ())}:
        packages.append("torch")
    require(*packages)
    with recorded(arguments.output) as record:
        record["versions"] = {name: importlib.metadata.version(name) for name in packages}
        arguments.measure(arguments, record)


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
