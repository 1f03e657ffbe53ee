"""Compares the speed of translation with CTranslate2 and PyTorch, on the same weights and threads.

    pip install torch ctranslate2
    python benchmarks/decode.py --transformer=runs/multi30k --recurrent=runs/multi30k_lstm \
        --source=data/multi30k/test_2016_flickr.en --output=docs/results/speed/decode.json

Three cases: a trained Transformer, and `transformer_base` with random weights, beside CTranslate2;
a trained `lstm_luong` beside the same network in PyTorch with a beam search of its own. In each
case all engines take turns with the same lines, greedily and with a beam, in batches and one line
at a time. An engine is measured with every setting that may suit it best; tables show the fastest.

The random weights of `transformer_base` never let a translation end, so that all engines make the
same number of steps: twice as many as the source has tokens, plus 20. Before anything is timed, the
trained Transformer translates all lines with both engines. The lines that they translate
differently must have equal scores, up to --tolerance.
"""

import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from matrix_products import Task, decoding_operations, products
from side_by_side import Candidate, spread

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

FLAGS = flags.FLAGS

flags.DEFINE_string("transformer", "", "Model directory of a Transformer. Default: no such case.")
flags.DEFINE_string("recurrent", "", "Model directory of an lstm_luong. Default: no such case.")
flags.DEFINE_string("source", "", "File of source text for both, one sentence a line.")
flags.DEFINE_string("random", "transformer_base", "Preset with random weights (empty: none).")
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
    "divide_random", 4, "Factor by which turns with random weights are shorter.", lower_bound=1
)
flags.DEFINE_integer("compared", 1000, "Number of lines whose text is compared.", lower_bound=1)
flags.DEFINE_float("tolerance", 1e-3, "Largest difference of scores that counts as a tie.")
flags.DEFINE_string("output", "", "JSON file for all figures.")

LENGTH_PENALTY = 0.6
SEED = 1


class Source(NamedTuple):
    """Where an engine finds its model.

    Attributes:
        name: preset.
        directory: model directory; "" for random weights.
        converted: folder with the weights for the other engine, and the tokenizer.
        kind: kind of the tokenizer.
    """

    name: str
    directory: str
    converted: str
    kind: str


# Each of the following engines is made in a process of its own, after its threads are set, and
# imports its framework there. `work(lines, beam_size, batch_size)` returns the ids of each
# translation and the seconds of each call. It includes tokenization and sorting by length.


def ours(source, pieces):
    """Makes `work` of `decoding.translator`."""
    model, tokenizer = load_ours(source, pieces)
    from decoding.translator import Translator

    translators = {}

    def work(lines, beam_size, batch_size):
        if (beam_size, batch_size) not in translators:
            settings = {"beam_size": beam_size, "length_penalty": LENGTH_PENALTY}
            translators[beam_size, batch_size] = Translator(
                model, tokenizer, batch_size=batch_size, **settings
            )
        translate = translators[beam_size, batch_size].translate
        return timed(lambda some: [best[0].ids for best in translate(some)], lines, batch_size == 1)

    return work


def load_ours(source, pieces):
    """Starts TensorFlow and returns (model, tokenizer)."""
    from command_line import quiet  # before all that imports TensorFlow

    # isort: split

    import keras

    import models
    from data_pipeline.tokenization.tokenizers import Tokenizer
    from data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
    from model_directory.directory import ModelDirectory

    quiet.start()
    if source.directory:
        return ModelDirectory(source.directory).load()[:2]
    keras.utils.set_random_seed(SEED)
    model = models.create(source.name, pieces, pieces)
    never_end(model)
    model.freeze()
    words = WordVocabulary([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), pieces))])
    return model, Tokenizer("word", words, words)


def never_end(model):
    """Changes weights so that the logit of EOS is very low, whatever the input is.

    The first number of the decoder's output becomes 1. The output weights of EOS have a large
    negative number in its place, those of all other words 0.
    """
    from data_pipeline.tokenization.vocabularies import EOS_ID

    norm = model.decoder_norm or model.decoder_layers[-1].around_feed_forward.norm
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        weight.assign([first, *np.array(weight)[1:]])
    embeddings = np.array(model.target_embedding.embeddings)
    embeddings[:, 0] = 0.0
    embeddings[EOS_ID, 0] = -1e4
    model.target_embedding.embeddings.assign(embeddings)


def ctranslate2_engine(source, compute_type, inter_threads, intra_threads):
    """Makes `work` of CTranslate2, which sorts the lines and makes the batches itself."""
    import ctranslate2

    from data_pipeline.tokenization.tokenizers import Tokenizer

    tokenizer = Tokenizer.load(source.kind, source.converted)
    pieces = tokenizer.target.pieces(range(len(tokenizer.target)))
    ids_of = {piece: i for i, piece in enumerate(pieces)}
    engine = ctranslate2.Translator(
        source.converted,
        compute_type=compute_type,
        inter_threads=inter_threads,
        intra_threads=intra_threads,
    )

    def work(lines, beam_size, batch_size, num_hypotheses=1):
        def translate(some):
            ids = tokenizer.source.encode(some)
            found = engine.translate_batch(
                [tokenizer.source.pieces(each) for each in ids],
                max_batch_size=batch_size,
                beam_size=beam_size,
                num_hypotheses=num_hypotheses,
                length_penalty=LENGTH_PENALTY,
                return_scores=True,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=2 * max(map(len, ids)) + 20,
                return_end_token=True,
            )
            ids = [[ids_of[piece] for piece in best_of(each)] for each in found]
            return decoded(tokenizer, ids)

        return timed(translate, lines, batch_size == 1)

    return work


def best_of(found):
    """Returns the best hypothesis by our length penalty; CTranslate2 divides by length ** alpha."""
    scores = [
        score * (6 * len(pieces) / (5 + len(pieces))) ** LENGTH_PENALTY
        for pieces, score in zip(found.hypotheses, found.scores, strict=True)
    ]
    return found.hypotheses[int(np.argmax(scores))]


def pytorch(source, threads):
    """Makes `work` of the network and the search of `torch_networks`."""
    import torch
    from torch_networks import LuongModel, beam_search

    import models
    from data_pipeline.tokenization.tokenizers import Tokenizer
    from decoding.search.searcher import padded

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # TensorFlow does this by default.
    tokenizer = Tokenizer.load(source.kind, source.converted)
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = LuongModel(*sizes, models.preset_settings(source.name)).eval()
    with np.load(Path(source.converted, "weights.npz")) as weights:
        model.take_weights(weights)

    def work(lines, beam_size, batch_size):
        def translate(some):
            ids = tokenizer.source.encode(some)
            order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
            found = {}
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = torch.from_numpy(padded([ids[i] for i in rows])).long()
                best = beam_search(model, batch, beam_size, LENGTH_PENALTY)
                found.update(zip(rows, best, strict=True))
            return decoded(tokenizer, [found[i] for i in range(len(ids))])

        return timed(translate, lines, batch_size == 1)

    return work


def timed(translate, lines, one_by_one):
    """Translates lines, in one call or in one for each; returns (ids, seconds of each call)."""
    found, seconds = [], []
    for some in [[line] for line in lines] if one_by_one else [lines]:
        began = time.perf_counter()
        found += translate(some)
        seconds.append(time.perf_counter() - began)
    return found, seconds


def decoded(tokenizer, ids):
    """Returns the ids after decoding them, which is part of the work of each engine."""
    for each in ids:
        tokenizer.target.decode(each)
    return ids


class Case(NamedTuple):
    """A model that several engines translate with.

    Attributes:
        source: `Source`.
        model: our model.
        tokenizer: its `Tokenizer`.
        lines: list of str.
        engines: name -> `Candidate`.
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
    from decoding.serving.ctranslate2_model import convert

    source = Source(FLAGS.random, directory, str(folder), "word")
    model, tokenizer = load_ours(source, FLAGS.pieces)
    if directory:
        source = source._replace(name=Path(directory).name, kind=tokenizer.kind)
    else:
        rng = np.random.default_rng(SEED)
        words = rng.integers(4, FLAGS.pieces, (len(lines), FLAGS.random_tokens - 1))
        lines = [" ".join(f"w{i}" for i in row) for row in words]
    tokenizer.save(folder)
    longest = max(map(len, tokenizer.source.encode(lines)))
    convert(model, tokenizer, folder, num_positions=2 * longest + 20)
    threads = FLAGS.threads
    engines = {"ours": Candidate("ours", (threads, threads), ours, source, FLAGS.pieces)}
    for kind in ("float32", "int8"):
        for each in sorted({(1, threads), (threads, 1)}):
            name = f"ctranslate2 {kind} {each[0]}x{each[1]}"
            arguments = (ctranslate2_engine, source, kind, *each)
            engines[name] = Candidate(name, each, *arguments)
    divisor = 1 if directory else FLAGS.divide_random
    return Case(source, model, tokenizer, lines, engines, divisor)


def recurrent_case(directory, lines, folder):
    """Makes the case of a trained `lstm_luong`."""
    source = Source("lstm_luong", directory, str(folder), "")
    model, tokenizer = load_ours(source, 0)
    source = source._replace(kind=tokenizer.kind)
    tokenizer.save(folder)
    weights = {w.path.partition("/")[2]: np.array(w) for w in model.trainable_variables}
    np.savez(Path(folder, "weights.npz"), **weights)
    threads = FLAGS.threads
    engines = {
        "ours": Candidate("ours", (threads, threads), ours, source, 0),
        "ours 1 thread an operation": Candidate("ours", (1, threads), ours, source, 0),
        **{
            f"pytorch {n}": Candidate("pytorch", (n, 1), pytorch, source, n)
            for n in sorted({1, threads})
        },
    }
    return Case(source, model, tokenizer, lines, engines, 1)


def compare_text(case):
    """Compares our translations with those of CTranslate2; exits if a difference is no tie."""
    from decoding.search.searcher import padded

    lines = case.lines[: FLAGS.compared]
    beam = max(FLAGS.beam)
    name = f"ctranslate2 float32 1x{FLAGS.threads}"
    ours, _ = case.engines["ours"].turn(lines, beam, max(FLAGS.batch))[-1]
    theirs, _ = case.engines[name].turn(lines, beam, max(FLAGS.batch), beam)[-1]
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
    count = (FLAGS.single_lines if batch == 1 else FLAGS.lines) // case.divisor
    turns = [
        [case.lines[(start + i) % len(case.lines)] for i in range(count)]
        for start in range(0, (FLAGS.rounds + 1) * count, count)
    ]
    wall, parts, found = ({name: [] for name in case.engines} for _ in range(3))
    for number, lines in enumerate(turns):
        for name in list(case.engines)[:: -1 if number % 2 else 1]:
            seconds, _, (ids, of_parts) = case.engines[name].turn(lines, beam, batch)
            if number:  # The first round is a warm-up.
                wall[name].append(seconds)
                parts[name] += of_parts
                found[name].append(ids)
    settings = case.model.settings
    done = [
        sum(
            decoding_operations(len(s), len(t), beam, len(case.tokenizer.target), settings)
            for s, t in zip(case.tokenizer.source.encode(lines), ids, strict=True)
        )
        if "ffn_width" in settings  # Counted for Transformers only.
        else None
        for lines, ids in zip(turns[1:], found["ours"], strict=True)
    ]
    engines = {}
    for name, seconds in wall.items():
        same = [
            a == b
            for x, y in zip(found["ours"], found[name], strict=True)
            for a, b in zip(x, y, strict=True)
        ]
        engines[name] = {
            "sentences_per_second": statistics.median(count / s for s in seconds),
            "wall_seconds": seconds,
            "equal_ids": statistics.mean(same),
        }
        if batch == 1:
            engines[name]["latency_ms"] = {
                "median": 1000 * statistics.median(parts[name]),
                "percentile_99": 1000 * float(np.percentile(parts[name], 99)),
            }
        if done[0]:
            rates = [n / s for n, s in zip(done, seconds, strict=True)]
            engines[name]["share_of_matrix_products"] = statistics.median(rates) / square
    return {"beam": beam, "batch": batch, "lines": count, "engines": engines, **ratios(engines)}


def ratios(engines):
    """Returns the speed of our fastest setting beside the fastest of every other engine."""
    fastest = {}
    for name, record in engines.items():
        kind = " ".join(name.split()[:2]) if name.startswith("ctranslate2") else name.split()[0]
        best = fastest.get(kind)
        if not best or record["sentences_per_second"] > engines[best]["sentences_per_second"]:
            fastest[kind] = name
    our_seconds = engines[fastest["ours"]]["wall_seconds"]
    return {
        "fastest": fastest,
        "ratio": {
            kind: spread(
                [b / a for a, b in zip(our_seconds, engines[name]["wall_seconds"], strict=True)]
            )
            for kind, name in fastest.items()
            if kind != "ours"
        },
    }


def report(mode):
    """Prints the record of a mode."""
    print(f"  beam {mode['beam']}, batches of {mode['batch']}:")
    for name, each in mode["engines"].items():
        line = f"    {name:28} {each['sentences_per_second']:8.1f} sentences/s"
        if "latency_ms" in each:
            line += " {median:8.1f} ms, 99% {percentile_99:.1f} ms".format(**each["latency_ms"])
        if "share_of_matrix_products" in each:
            line += f", {each['share_of_matrix_products']:.1%} of the matrix products"
        print(line + f", {each['equal_ids']:.1%} like ours")
    for kind, r in mode["ratio"].items():
        print(f"    ours / {kind}: {r['median']:.2f} ({r['least']:.2f} to {r['largest']:.2f})")
    sys.stdout.flush()


def main(argv):
    """Measures all cases and writes the figures."""
    from command_line import quiet  # noqa: F401 - before all that imports TensorFlow

    # isort: split

    import importlib.metadata

    from command_line.machine import machine
    from data_pipeline.files import UserError, atomic_path, read_lines

    if len(argv) > 1:
        raise UserError(f"unexpected argument {argv[1]!r}; flags start with --")
    lines = read_lines(FLAGS.source) if FLAGS.source else [""] * FLAGS.compared
    versions = {name: importlib.metadata.version(name) for name in ("ctranslate2", "torch")}
    result = {
        "machine": {**machine(), **versions},
        "command": " ".join(["python", *sys.argv]),
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
    cases = [
        (transformer_case, FLAGS.transformer, bool(FLAGS.transformer)),
        (recurrent_case, FLAGS.recurrent, bool(FLAGS.recurrent)),
        (transformer_case, "", bool(FLAGS.random)),
    ]
    for make, directory in [(make, directory) for make, directory, asked in cases if asked]:
        with tempfile.TemporaryDirectory() as folder:
            case = make(directory, lines, folder)
            print(f"{case.source.name}, {case.model.count_params():,} parameters:", flush=True)
            record = {"model": case.source.name, "parameters": case.model.count_params()}
            if directory and make is transformer_case:
                record["text"] = compare_text(case)
            record["modes"] = []
            for beam, batch in itertools.product(FLAGS.beam, FLAGS.batch):
                record["modes"].append(measure(case, beam, batch, square))
                report(record["modes"][-1])
            for engine in case.engines.values():
                engine.dismiss()
            result["cases"].append(record)
    if FLAGS.output:
        with atomic_path(FLAGS.output) as temporary:
            temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    app.run(main)
