"""Measures speed of translation beside CTranslate2; the engines take turns.

    python benchmarks/speed.py --model_dir=runs/x --source=data/multi30k_en_de/test.en

Needs ctranslate2.
"""

import argparse
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.parts import decoding
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import check_writable, write_json
from nmt_zoo.serving.ctranslate2.conversion import ctranslate2_package


def parser():
    """Makes the parser of the command line."""
    main = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    main.add_argument("--output", help="JSON file to write")
    main.add_argument("--model_dir", default="", help="model to time, besides random ones")
    main.add_argument("--source", help="text that --model_dir translates")
    presets = ["transformer_small", "transformer_base"]
    main.add_argument("--random", nargs="*", default=presets, help="presets with random weights")
    main.add_argument("--beams", type=int, nargs="+", default=[4, 1], help="numbers of hypotheses")
    main.add_argument("--lines", type=int, default=128, help="lines in a turn with batches")
    main.add_argument("--rounds", type=int, default=7, help="turns of each engine")
    main.add_argument("--threads", type=int, default=2, help="of every engine")
    return main


def main(argv):
    """Reads the command line, measures, writes the record."""
    arguments = parser().parse_args(argv[1:])
    record = {"versions": {"ctranslate2": ctranslate2_package().__version__}}
    if arguments.output:
        check_writable(arguments.output)
    decoding.measure(arguments, record)
    if arguments.output:
        command = shlex.join(["python", *sys.argv])
        write_json(arguments.output, {"machine": machine(), "command": command, **record})


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
