"""Measures the pipeline from text to batches at the size of WMT14, on text made from small corpora.

    python benchmarks/wmt_rehearsal.py --data=data
    python benchmarks/wmt_rehearsal.py --data=data --pairs=450000

The folder holds `wmt_sample`, `europarl10k` and `multi30k`. Each stage runs in its own process, so
that its peak memory can be measured. The stages: making the corpus, cleaning it, learning the BPE,
encoding (compared with sentencepiece alone), starting and resuming a run, an epoch of batches with
dynamic and with static shapes, and tf.data's `bucket_by_sequence_length` with the length boundaries
of tensor2tensor. `--stages` runs only some stages, on the files that earlier stages have written.
Seconds are wall-clock time. `cpu_seconds` are summed over all cores and depend less on other load.
"""

import itertools
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks.parts.rehearsal_corpus import make
from benchmarks.parts.scripts import chosen, own_command, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import atomic_path, write_text
from nmt_zoo.data_pipeline import encoding, pipeline, streams
from nmt_zoo.data_pipeline.batching import Batching, padding_share
from nmt_zoo.data_pipeline.downloads import cleaning
from nmt_zoo.data_pipeline.encoded import PairFilter
from nmt_zoo.data_pipeline.static_shapes import MAX_SHAPES, choose_shapes
from nmt_zoo.data_pipeline.tokenization import tokenizers

FLAGS = flags.FLAGS

flags.DEFINE_string("data", "data", "Folder of the small corpora.")
flags.DEFINE_string("work", "runs/wmt_rehearsal", "Folder for everything that is made.")
flags.DEFINE_integer("pairs", 4_500_000, "Number of sentence pairs.", lower_bound=10_000)
flags.DEFINE_integer("vocab_size", 37_000, "Number of BPE pieces.")
flags.DEFINE_integer("max_tokens", 25_000, "Largest number of tokens in a batch, per side.")
flags.DEFINE_list("stages", [], "Names of the stages to run. Default: all.")
flags.DEFINE_string("stage", "", "Stage that this process runs; set by the script itself.")
flags.DEFINE_string(
    "output",
    "",
    "JSON file for all figures. Default: a file in docs/results/pipeline/ named by --pairs.",
)

SIDES = ("en", "de")
COMPARED_PAIRS = 100_000  # Encoded both by sentencepiece alone and by this project.
ROUNDS = 5
TF_DATA_PAIRS = 200_000


def path(name):
    """Returns the path of a file in the working folder."""
    return Path(FLAGS.work, name)


def files(name):
    """Returns the paths of both sides of a text."""
    return [path(f"{name}.{side}") for side in SIDES]


def cleaned():
    """Opens both sides of the cleaned training text."""
    return streams.open_splits(files("clean"))


def tokenizer():
    """Loads the tokenizer from the stage `vocabulary`."""
    return tokenizers.Tokenizer.load("bpe", path("tokenizer"))


def encoded(text):
    """Returns the encoded corpus; encodes the text if this has not been done."""
    pair_filter = PairFilter(256, 9.0)
    return encoding.encode_pairs(
        *text, tokenizer(), FLAGS.work, "training pairs", pair_filter
    ).corpus


def stage_corpus():
    """Makes the text; this is only preparation and measures nothing of the product."""
    make(FLAGS.data, files("raw"), FLAGS.pairs)
    return {"pairs": FLAGS.pairs, "bytes": sum(file.stat().st_size for file in files("raw"))}


def stage_cleaning():
    """Cleans the text as WMT14 is cleaned."""
    cleaner = cleaning.Cleaner(cleaning.Rules())
    sides = [iter(side) for side in streams.open_splits(files("raw"))]
    source, target = files("clean")
    with (
        atomic_path(source) as one,
        atomic_path(target) as two,
        open(one, "wb") as source_file,
        open(two, "wb") as target_file,
    ):
        while (block := [list(itertools.islice(side, 10_000)) for side in sides])[0]:
            lines = cleaner.clean(*block)
            for file, kept in zip((source_file, target_file), lines, strict=True):
                file.write("".join(f"{line}\n" for line in kept).encode())
    return {"read": cleaner.read, "kept": cleaner.kept, "dropped": dict(cleaner.dropped)}


def stage_vocabulary():
    """Learns the BPE from a sample."""
    text = cleaned()
    start = time.monotonic()
    found = tokenizers.train_tokenizer("bpe", *text, vocab_size=FLAGS.vocab_size)
    seconds = time.monotonic() - start
    found.save(path("tokenizer"))
    pairs = min(len(text[0]), tokenizers.SAMPLE_PAIRS)
    return {"pieces": len(found.source), "sample_pairs": pairs, "training_seconds": seconds}


def stage_encoding():
    """Compares encoding with sentencepiece alone on a part of the text; then encodes everything."""
    text, found = cleaned(), tokenizer()
    lines = list(tokenizers.sample_lines(*text, COMPARED_PAIRS))
    halves = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    scratch = path("scratch")

    def alone():
        found.source.processor.encode(lines, out_type=int, add_eos=True)

    def ours():
        shutil.rmtree(scratch, ignore_errors=True)
        encoding.encode_pairs(*halves, found, scratch)

    rounds = [(_timed(alone), _timed(ours)) for _ in range(ROUNDS)]
    shutil.rmtree(scratch)
    record = {"compared_lines": len(lines)}
    for clock in ("seconds", "cpu_seconds"):
        for name, side in (("sentencepiece_alone", 0), ("ours", 1)):
            rate = statistics.median(len(lines) / times[side][clock] for times in rounds)
            record[f"{name}_lines_per_{clock[:-1]}"] = rate
        ratios = [theirs[clock] / ours[clock] for theirs, ours in rounds]
        record[f"ratio_by_{clock}"] = statistics.median(ratios)
    for folder in Path(FLAGS.work).glob("encoded-*"):
        shutil.rmtree(folder)
    whole = _timed(lambda: encoded(text))
    (folder,) = Path(FLAGS.work).glob("encoded-*")
    size = sum(file.stat().st_size for file in folder.iterdir())
    return {**record, "lines": 2 * len(text[0]), "bytes": size, **whole}


def stage_start():
    """Times the start of a new run, and of a run resumed in mid-epoch 3, up to its first batch."""
    found = {}
    for name, epoch, share in (("start", 0, 0.0), ("resume", 3, 0.5)):
        begin = time.monotonic()
        corpus = encoded(cleaned())
        opened = time.monotonic()
        batches = int(share * corpus.target.ids.size / FLAGS.max_tokens)
        options = {"seed": 1, "epoch": epoch, "first_batch": batches}
        next(iter(pipeline.batches(corpus, Batching(FLAGS.max_tokens), **options)))
        found[f"{name}_seconds"] = time.monotonic() - begin
        found[f"{name}_reading_seconds"] = opened - begin
    return found


def stage_dynamic():
    """Reads an epoch of batches, each padded to its longest sentences."""
    return _epoch(static=False)


def stage_static():
    """Reads an epoch of batches of at most 24 shapes; computes the padding for twice as many."""
    corpus = encoded(cleaned())
    lengths = [side.lengths for side in corpus]
    shapes = choose_shapes(*lengths, FLAGS.max_tokens, max_shapes=2 * MAX_SHAPES)
    plan = pipeline.plan_batches(corpus, Batching(FLAGS.max_tokens, shapes=shapes), seed=1, epoch=1)
    return {**_epoch(static=True), "padding_of_twice_the_shapes": padding_share(plan, *lengths)}


def stage_tf_data():
    """Reads the first pairs with `bucket_by_sequence_length` and tensor2tensor's boundaries."""
    corpus = encoded(cleaned())
    count = min(TF_DATA_PAIRS, corpus.num_pairs)
    # Slices of flat ids: the cost of indexing a ragged tensor grows with the size of the corpus.
    sides = []
    for side in corpus:
        ends = np.cumsum(side.lengths[:count], dtype=np.int64)
        sides.append((tf.constant(side.ids[: ends[-1]]), tf.constant([0, *ends])))
    boundaries = [8]
    while boundaries[-1] < 256:
        boundaries.append(max(boundaries[-1] + 1, int(boundaries[-1] * 1.1)))
    sizes = [max(1, FLAGS.max_tokens // boundary) for boundary in boundaries]
    dataset = (
        tf.data.Dataset.range(count)
        .shuffle(count, seed=1)
        .map(
            lambda i: tuple(ids[ends[i] : ends[i + 1]] for ids, ends in sides),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .bucket_by_sequence_length(
            lambda s, t: tf.maximum(tf.size(s), tf.size(t)),
            [boundary + 1 for boundary in boundaries[:-1]],
            sizes,
        )
        .prefetch(tf.data.AUTOTUNE)
    )
    cells, begin = 0, time.monotonic()
    for batch in dataset:
        cells += sum(int(tf.size(ids)) for ids in batch)
    seconds = time.monotonic() - begin
    real = [int(side.lengths[:count].sum(dtype=np.int64)) for side in corpus]
    return {
        "pairs": count,
        "buckets": len(boundaries),
        "padding": 1 - sum(real) / cells,
        "target_tokens_per_second": real[1] / seconds,
    }


STAGES = {
    name.removeprefix("stage_"): function
    for name, function in list(globals().items())
    if name.startswith("stage_")
}


def _epoch(static):
    corpus = encoded(cleaned())
    lengths = [side.lengths for side in corpus]
    shapes, choosing = None, {}
    if static:
        begin = time.monotonic()
        shapes = choose_shapes(*lengths, FLAGS.max_tokens)
        choosing = {"shapes": len(shapes), "choosing_seconds": time.monotonic() - begin}
    begin = time.monotonic()
    plan = pipeline.plan_batches(corpus, Batching(FLAGS.max_tokens, shapes=shapes), seed=1, epoch=1)
    planning = time.monotonic() - begin
    timed = _timed(lambda: sum(1 for _ in pipeline.dataset_of(corpus, plan)))
    return {
        "pairs": corpus.num_pairs,
        "source_tokens": corpus.source.ids.size,
        "target_tokens": corpus.target.ids.size,
        "batches": plan.batch_sizes.size,
        "padding": padding_share(plan, *lengths),
        **choosing,
        "planning_seconds": planning,
        **timed,
        "target_tokens_per_second": corpus.target.ids.size / timed["seconds"],
        "target_tokens_per_cpu_second": corpus.target.ids.size / timed["cpu_seconds"],
    }


def _timed(function):
    begin, cpu = time.monotonic(), time.process_time()
    function()
    return {"seconds": time.monotonic() - begin, "cpu_seconds": time.process_time() - cpu}


def run_stage(name):
    """Runs a stage in this process; writes its record."""
    begin = time.monotonic()
    found = STAGES[name]()
    found["stage_seconds"] = time.monotonic() - begin
    found["process_cpu_seconds"] = time.process_time()
    found["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    write_text(path(f"{name}.json"), json.dumps(_rounded(found)))


def _rounded(record):
    """Rounds floats of a record to four significant digits."""
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in record.items()
    }


def check_same_corpus(stages):
    """Raises `UserError` if stages would use, and report beside theirs, another number of pairs."""
    made = path("corpus.json")
    found = json.loads(made.read_text("utf-8"))["pairs"] if made.exists() else FLAGS.pairs
    if "corpus" not in stages and found != FLAGS.pairs:
        raise UserError(
            f"--work={FLAGS.work} has a corpus of {found:,} pairs; give --pairs={found}, or run "
            "the stage corpus and all later ones again"
        )


def main(argv):
    """Runs the stages and writes what they measured."""
    del argv
    if FLAGS.stage:
        run_stage(FLAGS.stage)
        return 0
    stages = chosen(FLAGS.stages, STAGES, "stage", flag="--stages")
    check_same_corpus(stages)
    Path(FLAGS.work).mkdir(parents=True, exist_ok=True)
    for name in stages:
        print(f"{name} ...", flush=True)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, *sys.argv, f"--stage={name}"])
        if done.returncode:
            return done.returncode
        record = json.loads(path(f"{name}.json").read_text("utf-8"))
        record["process_seconds"] = round(time.monotonic() - begin, 1)
        # Stages of one file may be of several runs.
        record |= {"machine": machine(), "command": own_command()}
        write_text(path(f"{name}.json"), json.dumps(record))
        print(json.dumps(record), flush=True)
    output = Path(FLAGS.output or ROOT / f"docs/results/pipeline/wmt_rehearsal_{FLAGS.pairs}.json")
    result = {
        "machine": machine(),
        "command": own_command(),
        "vocab_size": FLAGS.vocab_size,
        "max_tokens": FLAGS.max_tokens,
        "stages": {
            name: json.loads(path(f"{name}.json").read_text("utf-8"))
            for name in STAGES
            if path(f"{name}.json").exists()
        },
    }
    write_record(output, result)
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    console.run(main)
