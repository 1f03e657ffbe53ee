"""Compares align.py with other word aligners: seconds, memory and alignment error rate.

    python benchmarks/aligners.py --source=a.en --target=a.fr --gold=a.gold

The text is tokenised, and the gold alignment is of its first lines. Every aligner starts from files
in its own processes, and all of its time counts: imports, reading, training, writing. align.py runs
on one direction after the other. With --held_out, train.py trains without the lines of --gold, and
then align.py aligns with its models; the first 200 lines are the validation text. The other
aligners are eflomal (`pip install eflomal`, which needs a compiler), and fast_align if such a
command is on the path. The aligners take turns, --rounds times; the seconds are medians. --only
needs quotation marks around a name with a comma: --only='"fertility, agreeing",eflomal'.
"""

import importlib.util
import itertools
import json
import re
import shutil
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from absl import flags

from benchmarks.parts.scripts import chosen, measured, own_command, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable, read_lines, write_lines
from nmt_zoo.decoding.alignment.links import (
    SYMMETRISATIONS,
    read_alignments,
    read_gold,
    score_alignments,
    symmetrise,
)

FLAGS = flags.FLAGS

flags.DEFINE_string("source", None, "File of tokenised text, one sentence a line.", required=True)
flags.DEFINE_string("target", None, "File of its translation.", required=True)
flags.DEFINE_string(
    "gold", "", "File of correct links of its first lines: i-j (sure), ipj or i?j (possible)."
)
flags.DEFINE_integer("gold_base", None, "Number of the first word in --gold, as in align.py.", 0, 1)
flags.DEFINE_integer("rounds", 1, "Number of times that each aligner runs; seconds are medians.", 1)
flags.DEFINE_bool(
    "held_out", False, "Leaves the lines of --gold out of the training of our models."
)
flags.DEFINE_integer(
    "pairs", 0, "Repeats the text, with other word endings, up to this many pairs (0: no repeats)."
)
flags.DEFINE_string("work", "runs/aligners", "Folder for texts, models and links.")
flags.DEFINE_list("only", [], "Names of the aligners to run. Default: all.")
flags.DEFINE_string("output", "", "JSON file for all figures.")

# Name -> (flags of align.py, flags of train.py for the same model).
_TRAINING = ["--model1_steps=5", "--model2_steps=0", "--alpha=0.1", "--max_steps=10"]
OURS = {
    "ibm1": (["--model=ibm1"], ["--model=ibm1", "--alpha=0.1", "--max_steps=5"]),
    "ibm1 + ibm2": (
        ["--model=ibm2"],
        ["--model=ibm2", "--set", "positions=diagonal", *_TRAINING],
    ),
    "ibm1 + hmm": (["--model=hmm"], ["--model=hmm_alignment", *_TRAINING]),
    "fertility": (["--model=fertility"], ["--model=hmm_fertility"]),
}
# The same for models whose directions are trained to agree.
AGREEING = {
    "ibm1 + hmm, agreeing": (["--model=hmm"], ["--model=hmm_alignment", *_TRAINING]),
    "fertility, agreeing": (["--model=fertility"], ["--model=hmm_fertility"]),
}
EFLOMAL = """
import sys, eflomal
source, target, forward, reverse = sys.argv[1:]
with open(source, encoding="utf-8") as s, open(target, encoding="utf-8") as t:
    eflomal.Aligner().align(s, t, links_filename_fwd=forward, links_filename_rev=reverse)
"""
RIVALS = {"eflomal": "pip install eflomal", "fast_align": "its command is not on the path"}


def ours(flags_of, sides, work, reverse):
    """Trains and aligns one direction; returns (seconds, memory, file of links)."""
    name = "reverse" if reverse else "forward"
    links = work / f"{name}.align"
    align, train = flags_of
    if not FLAGS.held_out:
        return *run_ours([*align, f"--symmetrise={name}"], links, sides, work), links
    train = [*train, *texts_of(sides[::-1] if reverse else sides), f"--model_dir={work / name}"]
    align = [f"--{'reverse_' if reverse else ''}model_dir={work / name}"]
    return *run_ours(align, links, sides, work, train), links


def agreeing(flags_of, sides, work):
    """Trains both directions so that they agree; returns as `ours`."""
    links = work / "agree.align"
    align, train = flags_of
    if not FLAGS.held_out:
        return *run_ours([*align, "--symmetrise=agree"], links, sides, work), links
    folders = [f"--model_dir={work}/forward", f"--reverse_model_dir={work}/reverse"]
    train = [*train, *folders, *texts_of(sides)]
    return *run_ours([*folders, "--symmetrise=agree"], links, sides, work, train), links


def texts_of(sides):
    """Returns the flags of train.py that name its texts."""
    return [
        f"--{split}_{side}={path}{ending}"
        for split, ending in (("train", ".train"), ("valid", ".head"))
        for side, path in zip(("source", "target"), sides, strict=True)
    ]


def run_ours(align, links, sides, work, train=()):
    """Aligns the text, after training if there are flags `train`; returns as `measured`."""
    align = [*align, f"--source={sides[0]}", f"--target={sides[1]}", f"--alignments={links}"]
    commands = [("align.py", align)]
    if train:
        more = ["--max_length_ratio=1000", f"--data_dir={work}/data"]
        commands.insert(0, ("train.py", [*train, *more]))
    parts = [
        measured([sys.executable, str(ROOT / script), *options], work / "log")
        for script, options in commands
    ]
    return sum(seconds for seconds, _ in parts), max(memory for _, memory in parts)


def eflomal(sides, work):
    """Aligns both directions at once; returns (seconds, memory, the two files of links)."""
    links = [work / "forward.align", work / "reverse.align"]
    command = [sys.executable, "-c", EFLOMAL, *map(str, (*sides, *links))]
    return *measured(command, work / "log"), *links


def fast_align(sides, work, reverse):
    """Aligns one direction with fast_align's best settings; returns as `ours`."""
    joined, links = work / "joined", work / ("reverse.align" if reverse else "forward.align")
    write_lines(joined, [f"{s} ||| {t}" for s, t in zip(*map(read_lines, sides), strict=True)])
    command = f'fast_align -i "$0" -d -o -v {"-r" if reverse else ""} > "$1"'
    return *measured(["sh", "-c", command, str(joined), str(links)], work / "log"), links


def prepare(work, num_held_out):
    """Writes the texts to align and to train on; returns the paths of the texts to align."""
    sides = [read_lines(path) for path in (FLAGS.source, FLAGS.target)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(f"{FLAGS.source} and {FLAGS.target} have different numbers of lines")
    if len(sides[0]) <= num_held_out:
        raise UserError(f"{FLAGS.source}: {len(sides[0])} lines, too few to align or train on")
    paths = []
    for name, lines in zip(("source", "target"), sides, strict=True):
        rounds = itertools.count(1)
        while len(lines) < FLAGS.pairs:
            ending = f"{next(rounds)}"  # Makes the long words of every round new words.
            lines = lines + [
                " ".join(f"{w}{ending}" if len(w) > 4 else w for w in line.split())
                for line in sides[len(paths)][: FLAGS.pairs - len(lines)]
            ]
        paths.append(work / name)
        write_lines(paths[-1], lines)
        write_lines(f"{paths[-1]}.train", lines[num_held_out:])
        # train.py needs validation text, which is not to be of the pairs that are scored.
        write_lines(f"{paths[-1]}.head", lines[num_held_out:][:200])
    return paths


def scores(files, gold):
    """Computes the AER of every file of links, and of every symmetrisation of two files."""
    found = [read_alignments(path)[: len(gold)] for path in files]
    result = {
        path.stem: score_alignments(a, gold).aer for path, a in zip(files, found, strict=True)
    }
    if len(found) == 2:
        for method in SYMMETRISATIONS:
            joined = [symmetrise(*pair, method) for pair in zip(*found, strict=True)]
            result[method] = score_alignments(joined, gold).aer
    return {name: round(aer, 4) for name, aer in result.items()}


def aligners():
    """Returns name -> function of (texts, folder).

    Each function returns a list of (seconds, memory, files of links ...), one for each run.
    """
    found = {
        name: lambda sides, work, flags_of=flags_of: [
            ours(flags_of, sides, work, reverse) for reverse in (False, True)
        ]
        for name, flags_of in OURS.items()
    }
    for name, both in AGREEING.items():
        found[name] = lambda sides, work, flags_of=both: [agreeing(flags_of, sides, work)]
    if importlib.util.find_spec("eflomal"):
        found["eflomal"] = lambda sides, work: [eflomal(sides, work)]
    if shutil.which("fast_align"):
        found["fast_align"] = lambda sides, work: [
            fast_align(sides, work, reverse) for reverse in (False, True)
        ]
    return found


def main(argv):
    """Runs every aligner, prints and writes the figures."""
    del argv
    if FLAGS.held_out and not FLAGS.gold:
        raise UserError("--held_out needs --gold, whose lines it leaves out of the training")
    found = aligners()
    for name in RIVALS:
        if name not in found:
            print(f"{name} is left out: not installed ({RIVALS[name]})", flush=True)
    names = chosen(FLAGS.only, found, "aligner")
    if FLAGS.output:
        check_writable(FLAGS.output)
    gold = read_gold(FLAGS.gold, base=FLAGS.gold_base) if FLAGS.gold else None
    work = Path(FLAGS.work)
    work.mkdir(parents=True, exist_ok=True)
    sides = prepare(work, len(gold) if FLAGS.held_out else 0)
    result = {"machine": machine(), "command": own_command(), "aligners": {}}
    result["pairs"] = len(read_lines(sides[0]))
    records = {}
    for _, name in itertools.product(range(FLAGS.rounds), names):
        folder = work / re.sub(r"\W+", "_", name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        parts = found[name](sides, folder)
        records.setdefault(name, []).append(parts)
        files = [path for _, _, *paths in parts for path in paths]
        turns = zip(*records[name], strict=True)
        result["aligners"][name] = {
            "seconds": [round(statistics.median(s for s, *_ in turn), 2) for turn in turns],
            "peak_memory_gb": round(max(memory for _, memory, *_ in parts) / 1e9, 2),
            "aer": scores(files, gold) if gold else {},
        }
        print(name, json.dumps(result["aligners"][name]), flush=True)
    if FLAGS.output:
        write_record(FLAGS.output, result)
    return 0


if __name__ == "__main__":
    console.run(main)
