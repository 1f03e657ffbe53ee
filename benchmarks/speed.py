"""Measures speed of translation beside CTranslate2, with the same weights and threads.

    python benchmarks/speed.py --model_dir=runs/x --source=data/multi30k_en_de/test.en

Needs ctranslate2. Cases: a trained Transformer, and `transformer_small` and `transformer_base` with
random weights, which never let a translation end, so that all engines make the same number of
steps. An engine is measured with every setting that may suit it best; tables show the fastest.
Before anything is timed, the trained Transformer translates lines with both engines; CTranslate2,
which ends some searches sooner, must not find a better translation.

The engines take turns, each in its own process. Only one works at a time, and turns are short, so
that other load on the machine affects all alike. Ratios are computed for each round.
"""

import argparse
import itertools
import multiprocessing
import os
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

import keras

from nmt_zoo import models
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable, read_lines, write_json
from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, SPECIALS, WordVocabulary
from nmt_zoo.decoding.search.types import ALWAYS, NEVER, padded
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2.conversion import Weights, ctranslate2_package, write

SEED = 1
TOLERANCE = 1e-3  # Largest difference of scores that counts as a tie.
PIECES, WORDS = 32_000, 14  # Of the random case: vocabulary, words of a sentence.


class Source(NamedTuple):
    """Where an engine finds its model."""

    name: str  # Preset.
    directory: str  # Model directory; "" for random weights.
    converted: str  # Folder with the weights for CTranslate2, and a folder of the tokenizer.
    kind: str  # Kind of the tokenizer.


class Candidate:
    """A process that takes turns; keeps `seconds` and `results` of each.

    `threads` are, for TensorFlow, (threads inside an operation, operations at a time).
    `make(*arguments)`, which is called in the new process, returns `work`, a function of the items
    of a turn.
    """

    def __init__(self, name, threads, has_onednn, make, *arguments):
        self.name, self.seconds, self.results = name, [], []
        # TensorFlow reads these variables once, during its import.
        names = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS"
        os.environ.update(zip(names, map(str, (*threads, int(has_onednn))), strict=True))
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=_work, args=(other, make, arguments), daemon=True).start()
        other.close()  # Otherwise `recv` would wait forever if the process died.

    def turn(self, *items):
        """Calls `work(*items)`; returns (seconds, result). Raises `UserError` if it has ended."""
        try:
            self.connection.send(items)
            return self.connection.recv()
        except (EOFError, OSError):
            raise UserError(f"{self.name}: its process has ended; see its error above") from None


def _work(connection, make, arguments):
    work = make(*arguments)
    for items in iter(connection.recv, None):
        began = time.perf_counter()
        result = work(*items)
        connection.send((time.perf_counter() - began, result))


def ratio(ours, theirs):
    """Returns how many times as fast we are, by the seconds of both in the same rounds."""
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)}


# Settings of ours: (kind, name) -> (whether each thread has a batch of its own, or all share an
# operation; oneDNN; number format; when searches are compiled). translate.py has the first, and
# compiles searches of one or two sentences; with --precision=int8, it has the first of int8.
OURS = {
    ("ours", "a batch for each thread"): (True, False, "float32", NEVER),
    ("ours", "all threads in an operation"): (False, False, "float32", NEVER),
    ("ours", "compiled, a batch for each thread"): (True, False, "float32", ALWAYS),
    ("ours bfloat16", "all threads in an operation"): (False, True, "bfloat16", NEVER),
    ("ours int8", "a batch for each thread"): (True, False, "int8", ALWAYS),
}


def ours(source, num_batches, dtype, compiles):
    """Returns `work(lines, beam_size, batch_size)` of our translator: ids and seconds of calls."""
    model, tokenizer = load_ours(source, dtype)
    translators = {}

    def work(lines, beam_size, batch_size):
        if (beam_size, batch_size) not in translators:
            translators[beam_size, batch_size] = Translator.of(
                model,
                tokenizer,
                beam_size=beam_size,
                batch_size=batch_size,
                length_penalty=LENGTH_PENALTY,
                num_threads=num_batches,
                compile=compiles,
            )
        translate = translators[beam_size, batch_size].translate
        return _timed(lambda text: [best[0].ids for best in translate(text)], lines, batch_size)

    return work


def ctranslate2_engine(source, compute_type, inter_threads, intra_threads):
    """Returns `work` of CTranslate2, which sorts the lines and makes the batches itself."""
    tokenizer = Tokenizer.load(source.kind, Path(source.converted, "tokenizer"))
    pieces = tokenizer.target.pieces(range(len(tokenizer.target)))
    ids_of = {piece: i for i, piece in enumerate(pieces)}
    threads = {"inter_threads": inter_threads, "intra_threads": intra_threads}
    engine = ctranslate2_package().Translator(
        source.converted, compute_type=compute_type, **threads
    )

    def work(lines, beam_size, batch_size):
        def translate(text):
            source_ids = tokenizer.source.encode(text)
            results = engine.translate_batch(
                [tokenizer.source.pieces(ids) for ids in source_ids],
                max_batch_size=batch_size,
                beam_size=beam_size,
                length_penalty=LENGTH_PENALTY,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=2 * max(map(len, source_ids)) + 20,
                return_end_token=True,
            )
            ids = [[ids_of[piece] for piece in result.hypotheses[0]] for result in results]
            for target_ids in ids:  # Part of the work of each engine.
                tokenizer.target.decode(target_ids)
            return ids

        return _timed(translate, lines, batch_size)

    return work


def _timed(translate, lines, batch_size):
    """Translates in one call, or in one for each line; returns (ids, seconds of each call)."""
    ids, seconds = [], []
    for text in [[line] for line in lines] if batch_size == 1 else [lines]:
        began = time.perf_counter()
        ids += translate(text)
        seconds.append(time.perf_counter() - began)
    return ids, seconds


def load_ours(source, dtype="float32"):
    """Starts TensorFlow and returns (model, tokenizer); `dtype` is the model's number format."""
    process.start_tensorflow()
    if source.directory:
        return ModelDirectory(source.directory).load(dtype=dtype)[:2]
    keras.utils.set_random_seed(SEED)
    exact = models.create(source.name, PIECES, PIECES)
    _never_end(exact)
    model = models.create(source.name, PIECES, PIECES, dtype=dtype.replace("int8", "float32"))
    for weight, value in zip(model.weights, exact.weights, strict=True):
        weight.assign(value)
    if dtype == "int8":
        model.quantise()
    model.precompute()
    words = WordVocabulary([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), PIECES))])
    return model, Tokenizer("word", words, words)


def _never_end(model):
    """Changes weights so that the logit of EOS is very low, whatever the input is.

    The first number of the decoder's output becomes 1. The output weights of EOS have a large
    negative number in its place, those of all other words 0.
    """
    norm = model.decoder.norm or model.decoder.layers[-1].around[-1].norm
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        weight.assign([first, *np.array(weight)[1:]])
    embeddings = np.array(model.target_embedding.embeddings)
    embeddings[:, 0] = 0.0
    embeddings[EOS_ID, 0] = -1e4
    model.target_embedding.embeddings.assign(embeddings)


class Case:
    """A model that several engines translate with.

    `directory` is that of a Transformer, or "" for random weights of a preset; `lines` are source
    text, or None for random words. The weights in the form of CTranslate2 go to
    `folder`. Every engine has as many `threads`.
    """

    def __init__(self, preset, directory, lines, folder, threads):
        source = Source(preset, directory, folder, "word")
        self.model, self.tokenizer = load_ours(source)
        words = np.random.default_rng(SEED).integers(4, PIECES, (1000, WORDS))
        self.lines = lines or [" ".join(f"w{i}" for i in row) for row in words]
        if directory:
            source = source._replace(name=Path(directory).name, kind=self.tokenizer.kind)
        options = {"tokenizer": self.tokenizer.kind, "normalise": self.tokenizer.source.form}
        about = {"config": {"options": options}, "quantization": "float32"}
        about["max_input_tokens"] = max(map(len, self.tokenizer.source.encode(self.lines)))
        arrays = {w.path.partition("/")[2]: np.array(w) for w in self.model.weights}
        write(Weights(self.model.settings, arrays), self.tokenizer, Path(folder), **about)
        self.source, self.engines = source, {}
        for key, (has_batch, has_onednn, *setting) in OURS.items():
            # Programs of XLA share the threads of operations.
            inside = 1 if has_batch and setting[-1] == NEVER else threads
            batches, several = threads if has_batch else 1, (inside, threads)
            how = several, has_onednn, ours, source, batches
            self.engines[key] = Candidate(key[1], *how, *setting)
        for kind, inter in itertools.product(("float32", "int8"), sorted({1, threads})):
            name = f"{inter} translators of {threads // inter} threads"
            several = (inter, threads // inter)
            self.engines[f"ctranslate2 {kind}", name] = Candidate(
                name, several, False, ctranslate2_engine, source, kind, *several
            )

    def compare_text(self, beam_size):
        """Compares our translations with CTranslate2's; exits if one of ours has a worse score."""
        lines = self.lines[:1000]
        first = {kind: engine for (kind, _), engine in reversed(self.engines.items())}
        (our_ids, _), (their_ids, _) = (
            first[kind].turn(lines, beam_size, 32)[1] for kind in ("ours", "ctranslate2 float32")
        )
        texts = [[self.tokenizer.target.decode(x) for x in ids] for ids in (our_ids, their_ids)]
        differences = []
        for i, (our_text, their_text) in enumerate(zip(*texts, strict=True)):
            # CTranslate2 has one limit for all lines, so that it may go on where we end.
            cut = our_ids[i][-1] != EOS_ID and their_ids[i][: len(our_ids[i])] == [*our_ids[i]]
            if cut or our_text == their_text:
                continue
            source_ids = np.repeat(padded(self.tokenizer.source.encode([lines[i]])), 2, axis=0)
            target_ids = padded([our_ids[i], their_ids[i]])
            log_probs = np.array(self.model.score(source_ids, target_ids))
            log_probs = np.where(target_ids == self.model.pad_id, 0, log_probs).sum(axis=1)
            lengths = np.array([len(our_ids[i]), len(their_ids[i])])
            our_score, their_score = log_probs / lengths**LENGTH_PENALTY
            differences.append(float(our_score - their_score))
            print(f"  line {i + 1}: {our_score:.5f} {our_text!r}, {their_score:.5f} {their_text!r}")
        if min(differences, default=0.0) < -TOLERANCE:
            sys.exit(f"{self.source.name}: CTranslate2 finds better ones: {differences}")
        equal = len(lines) - len(differences)
        return {"lines": len(lines), "equal": equal, "differences": differences}

    def measure(self, beam_size, batch_size, count, rounds):
        """Measures all engines in turns of `count` lines; returns the record."""
        for engine in self.engines.values():
            engine.seconds, engine.results = [], []
        for number in range(rounds + 1):  # The first is a warm-up that is not kept.
            lines = [self.lines[(number * count + i) % len(self.lines)] for i in range(count)]
            # Every second round runs in the opposite order.
            for engine in [*self.engines.values()][:: -1 if number % 2 else 1]:
                seconds, result = engine.turn(lines, beam_size, batch_size)
                engine.seconds += [seconds] * bool(number)
                engine.results += [result] * bool(number)
        records = []
        for (kind, name), engine in self.engines.items():
            rate = statistics.median(count / seconds for seconds in engine.seconds)
            record = {"kind": kind, "setting": name, "sentences_per_second": rate}
            record["wall_seconds"] = engine.seconds
            if batch_size == 1:
                calls = [1000 * s for _, seconds in engine.results for s in seconds]
                percentile = float(np.percentile(calls, 99))
                latency = {"median": statistics.median(calls), "percentile_99": percentile}
                record["latency_ms"] = latency
            records.append(record)
            print(f"  {kind}, {name}: {rate:.1f} sentences/s", flush=True)
        mode = {"beam": beam_size, "batch": batch_size, "lines": count, "engines": records}
        return mode | _ratios(records)


def _ratios(records):
    """Compares the fastest setting of each of our kinds with that of every other kind."""
    fastest = {}
    for record in sorted(records, key=lambda record: record["sentences_per_second"]):
        fastest[record["kind"]] = record
    beside = {
        kind: {
            other: ratio(record["wall_seconds"], theirs["wall_seconds"])
            for other, theirs in fastest.items()
            if not other.startswith("ours")
        }
        for kind, record in fastest.items()
        if kind.startswith("ours")
    }
    settings = {kind: record["setting"] for kind, record in fastest.items()}
    return {"fastest": settings, "ratios": beside}


def measure(arguments, record):
    """Measures all cases; fills the record."""
    record |= {"threads": arguments.threads, "length_penalty": LENGTH_PENALTY, "cases": []}
    trained = arguments.model_dir
    cases = [("", trained, read_lines(arguments.source))] if trained else []
    cases += [(preset, "", None) for preset in arguments.random]
    for preset, directory, lines in cases:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(preset, directory, lines, folder, arguments.threads)
            figures = {"model": case.source.name, "parameters": case.model.count_params()}
            print(f"{case.source.name}, {case.model.count_params():,} parameters:", flush=True)
            if directory:
                figures["text"] = case.compare_text(max(arguments.beams))
            modes = figures["modes"] = []
            for beam_size, batch_size in itertools.product(arguments.beams, (32, 1)):
                print(f" beam {beam_size}, batches of {batch_size}:")
                count = arguments.lines // (4 if batch_size == 1 else 1)
                # Random weights are those of a large model, whose turns are long.
                count = max(1, count // (1 if directory else 4))
                modes.append(case.measure(beam_size, batch_size, count, arguments.rounds))
            for engine in case.engines.values():
                engine.connection.send(None)
            record["cases"].append(figures)


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
    measure(arguments, record)
    if arguments.output:
        command = shlex.join(["python", *sys.argv])
        write_json(arguments.output, {"machine": machine(), "command": command, **record})


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
