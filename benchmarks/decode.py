r"""Compares the speed of translation with CTranslate2, on the same weights and threads.

    pip install ctranslate2
    python benchmarks/decode.py --transformer=runs/multi30k \
        --source=data/multi30k/test_2016_flickr.en --output=docs/results/speed/decode.json

Two cases: a trained Transformer, and `transformer_base` with random weights. In each, all engines
take turns with the same lines, greedily and with a beam, in batches and one line at a time. An
engine is measured with every setting that may suit it best; tables show the fastest.

The random weights of `transformer_base` never let a translation end, so that all engines make the
same number of steps: twice as many as the source has tokens, plus 20. Before anything is timed, the
trained Transformer translates all lines with both engines. The lines that they translate
differently must have equal scores, up to --tolerance.
"""

import itertools
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

from absl import flags

from benchmarks.parts.decode_engines import (
    LENGTH_PENALTY,
    SEED,
    Source,
    ctranslate2_engine,
    load_ours,
    our_engines,
)
from benchmarks.parts.matrix_products import Task, decoding_operations, products
from benchmarks.parts.scripts import own_command, require, write_record
from benchmarks.parts.side_by_side import Candidate, spread
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable, read_lines

FLAGS = flags.FLAGS

flags.DEFINE_string("transformer", "", "Model directory of a Transformer. Default: no such case.")
flags.DEFINE_string("source", "", "File of source text for both, one sentence a line.")
TRANSFORMERS = ("transformer_tiny", "transformer_small", "transformer_base", "transformer_big")
flags.DEFINE_enum(
    "random", "transformer_base", (*TRANSFORMERS, "none"), "Preset with random weights, or none."
)
flags.DEFINE_integer("pieces", 32_000, "Size of its vocabulary.", lower_bound=100)
flags.DEFINE_integer("random_tokens", 15, "Tokens of its source sentences.", lower_bound=2)
flags.DEFINE_multi_integer("beam", [4, 1], "Number of hypotheses. Repeatable.", lower_bound=1)
flags.DEFINE_multi_integer(
    "batch", [32, 1], "Number of sentences in a batch. Repeatable.", lower_bound=1
)
flags.DEFINE_integer("threads", 2, "Number of threads of every engine.", lower_bound=1)
flags.DEFINE_integer("rounds", 7, "Number of turns of each engine.", lower_bound=1)
flags.DEFINE_integer("lines", 128, "Number of lines in a turn with batches.", lower_bound=1)
flags.DEFINE_integer("single_lines", 32, "Number of lines in a turn without.", lower_bound=1)
flags.DEFINE_integer(
    "divide_random", 2, "Factor by which turns with random weights are shorter.", lower_bound=1
)
flags.DEFINE_integer("compared", 1000, "Number of lines whose text is compared.", lower_bound=1)
flags.DEFINE_float("tolerance", 1e-3, "Largest difference of scores that counts as a tie.")
flags.DEFINE_string("output", "", "JSON file for all figures.")


class Case(NamedTuple):
    """A model that several engines translate with.

    Attributes:
        source: `Source`.
        model: our model.
        tokenizer: its `Tokenizer`.
        lines: list of str.
        engines: (kind, name of the setting) -> `Candidate`.
        divisor: factor by which turns are shorter.
    """

    source: Source
    model: Any
    tokenizer: Any
    lines: list
    engines: dict
    divisor: int


def transformer_case(directory, lines, folder):
    """Makes the case of a trained Transformer, or of random weights if there is no directory."""
    from nmt_zoo.serving.ctranslate2.conversion import weights_of, write

    source = Source(FLAGS.random, directory, str(folder), "word")
    model, tokenizer = load_ours(source, FLAGS.pieces)
    if directory:
        source = source._replace(name=Path(directory).name, kind=tokenizer.kind)
    else:
        rng = np.random.default_rng(SEED)
        words = rng.integers(4, FLAGS.pieces, (len(lines), FLAGS.random_tokens - 1))
        lines = [" ".join(f"w{i}" for i in row) for row in words]
    options = {"tokenizer": tokenizer.kind, "normalise": tokenizer.source.form}
    about = {"config": {"options": options}, "quantization": "float32"}
    about["max_input_tokens"] = max(map(len, tokenizer.source.encode(lines)))
    write(weights_of(model), tokenizer, Path(folder), **about)
    engines = our_engines(source, FLAGS.pieces, FLAGS.threads)
    for kind in ("float32", "int8"):
        for threads in sorted({(1, FLAGS.threads), (FLAGS.threads, 1)}):
            name = "{} translators of {} threads".format(*threads)
            engines[f"ctranslate2 {kind}", name] = Candidate(
                name, threads, ctranslate2_engine, source, kind, *threads
            )
    divisor = 1 if directory else FLAGS.divide_random
    return Case(source, model, tokenizer, lines, engines, divisor)


def compare_text(case):
    """Compares our translations with those of our engine for CTranslate2; exits unless all tie."""
    from nmt_zoo.decoding.search.terms import padded
    from nmt_zoo.decoding.translator import Translator
    from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export

    lines = case.lines[: FLAGS.compared]
    beam = max(FLAGS.beam)
    ours, _ = next(iter(case.engines.values())).turn(lines, beam, max(FLAGS.batch))[-1]
    engine, tokenizer, _ = CTranslate2Export(case.source.converted).load()
    search = {"beam_size": beam, "length_penalty": LENGTH_PENALTY}
    translator = Translator(None, tokenizer, engine=engine, **search)
    theirs = [best[0].ids for best in translator.translate(lines)]
    texts = [[case.tokenizer.target.decode(ids) for ids in side] for side in (ours, theirs)]
    different = [i for i, (a, b) in enumerate(zip(*texts, strict=True)) if a != b]
    differences = []
    for i in different:
        source_ids = np.repeat(padded(case.tokenizer.source.encode([lines[i]])), 2, axis=0)
        target_ids = padded([ours[i], theirs[i]])
        log_probs = np.array(case.model.score(source_ids, target_ids))
        log_probs = np.where(target_ids == case.model.pad_id, 0, log_probs).sum(axis=1)
        lengths = np.array([len(ours[i]), len(theirs[i])])
        a, b = log_probs / ((5 + lengths) / 6) ** LENGTH_PENALTY
        differences.append(float(a - b))
        print(
            f"  line {i + 1}: score {a:.5f} {texts[0][i]!r}\n      theirs {b:.5f} {texts[1][i]!r}"
        )
    print(f"{len(lines) - len(different)} of {len(lines)} lines have equal text", flush=True)
    if any(abs(d) > FLAGS.tolerance for d in differences):
        sys.exit(f"{case.source.name}: differences that are no ties: {differences}")
    return {"lines": len(lines), "equal": len(lines) - len(different), "differences": differences}


def measure(case, beam, batch, square):
    """Measures all engines in turns; returns the record."""
    count = max(1, (FLAGS.single_lines if batch == 1 else FLAGS.lines) // case.divisor)
    turns = [
        [case.lines[(start + i) % len(case.lines)] for i in range(count)]
        for start in range(0, (FLAGS.rounds + 1) * count, count)
    ]
    wall, parts, found = ({key: [] for key in case.engines} for _ in range(3))
    for number, lines in enumerate(turns):
        for key in list(case.engines)[:: -1 if number % 2 else 1]:
            seconds, _, (ids, of_parts) = case.engines[key].turn(lines, beam, batch)
            if number:  # The first round is a warm-up.
                wall[key].append(seconds)
                parts[key] += of_parts
                found[key].append(ids)
    expected = next(iter(found.values()))
    settings = case.model.settings
    done = [
        sum(
            decoding_operations(len(s), len(t), beam, len(case.tokenizer.target), settings)
            for s, t in zip(case.tokenizer.source.encode(lines), ids, strict=True)
        )
        if "ffn_width" in settings  # Counted for Transformers only.
        else None
        for lines, ids in zip(turns[1:], expected, strict=True)
    ]
    engines = []
    for (kind, name), seconds in wall.items():
        same = [
            a == b
            for each in zip(expected, found[kind, name], strict=True)
            for a, b in zip(*each, strict=True)
        ]
        record = {
            "kind": kind,
            "setting": name,
            "sentences_per_second": statistics.median(count / s for s in seconds),
            "wall_seconds": seconds,
            "equal_ids": statistics.mean(same),
        }
        if batch == 1:
            record["latency_ms"] = {
                "median": 1000 * statistics.median(parts[kind, name]),
                "percentile_99": 1000 * float(np.percentile(parts[kind, name], 99)),
            }
        if done[0]:
            rates = [n / s for n, s in zip(done, seconds, strict=True)]
            record["share_of_matrix_products"] = statistics.median(rates) / square
        engines.append(record)
    return {"beam": beam, "batch": batch, "lines": count, "engines": engines, **ratios(engines)}


def ratios(engines):
    """Compares the fastest setting of each of our kinds with that of every other kind."""
    fastest = {}
    for record in engines:
        best = fastest.setdefault(record["kind"], record)
        if record["sentences_per_second"] > best["sentences_per_second"]:
            fastest[record["kind"]] = record
    seconds = {kind: record["wall_seconds"] for kind, record in fastest.items()}
    return {
        "fastest": {kind: record["setting"] for kind, record in fastest.items()},
        "ratios": {
            ours: {
                theirs: spread([b / a for a, b in zip(seconds[ours], other, strict=True)])
                for theirs, other in seconds.items()
                if not theirs.startswith("ours")
            }
            for ours in seconds
            if ours.startswith("ours")
        },
    }


def report(mode):
    """Prints the record of a mode."""
    print(f"  beam {mode['beam']}, batches of {mode['batch']}:")
    for each in mode["engines"]:
        name = f"{each['kind']}, {each['setting']}"
        line = f"    {name:48} {each['sentences_per_second']:8.1f} sentences/s"
        if "latency_ms" in each:
            line += " {median:8.1f} ms, 99% {percentile_99:.1f} ms".format(**each["latency_ms"])
        if "share_of_matrix_products" in each:
            line += f", {each['share_of_matrix_products']:.1%} of the matrix products"
        print(line + f", {each['equal_ids']:.1%} equal")
    for ours, others in mode["ratios"].items():
        for theirs, r in others.items():
            print(
                f"    {ours} / {theirs}: {r['median']:.2f} ({r['least']:.2f} to {r['largest']:.2f})"
            )
    sys.stdout.flush()


def main(argv):
    """Measures all cases and writes the figures."""
    del argv
    require("ctranslate2")
    if FLAGS.transformer and not FLAGS.source:
        raise UserError("--transformer needs --source, the text that it translates")
    if FLAGS.output:
        check_writable(FLAGS.output)
    lines = read_lines(FLAGS.source) if FLAGS.source else [""] * FLAGS.compared
    if not lines:
        raise UserError(f"{FLAGS.source}: has no lines")

    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import importlib.metadata

    from nmt_zoo.command_line.machine import machine

    versions = {name: importlib.metadata.version(name) for name in ("ctranslate2",)}
    result = {
        "machine": {**machine(), **versions},
        "command": own_command(),
        "threads": FLAGS.threads,
        "length_penalty": LENGTH_PENALTY,
        "cases": [],
    }
    print(", ".join(f"{name} {value}" for name, value in result["machine"].items() if value))
    alone = Candidate(
        "products", (FLAGS.threads,) * 2, products, Task((), None, 0, [], 0, {}, {}, SEED)
    )
    square = result["square_operations_per_second"] = max(alone.turn(0, 0)[-1] for _ in range(3))
    alone.dismiss()
    trained = [FLAGS.transformer] if FLAGS.transformer else []
    for directory in [*trained, *([""] if FLAGS.random != "none" else [])]:
        with tempfile.TemporaryDirectory() as folder:
            case = transformer_case(directory, lines, folder)
            print(f"{case.source.name}, {case.model.count_params():,} parameters:", flush=True)
            record = {"model": case.source.name, "parameters": case.model.count_params()}
            if directory:
                record["text"] = compare_text(case)
            record["modes"] = []
            for beam, batch in itertools.product(FLAGS.beam, FLAGS.batch):
                record["modes"].append(measure(case, beam, batch, square))
                report(record["modes"][-1])
            for engine in case.engines.values():
                engine.dismiss()
            result["cases"].append(record)
    if FLAGS.output:
        write_record(FLAGS.output, result)


if __name__ == "__main__":
    console.run(main)
