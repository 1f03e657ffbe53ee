"""Predicts the training of Transformers on accelerators, and checks predictions on this processor.

    python benchmarks/on_paper.py --output=docs/results/studies/on_paper.json
    python benchmarks/on_paper.py --check --output=docs/results/studies/on_paper_check.json

The first command predicts the runs of Vaswani et al. 2017 on WMT14 English-German (4.5 million
pairs; about 25,000 source and 25,000 target tokens an update; 100,000 and 300,000 updates) by
`train.py --dry_run --device`, of which it needs no text. An update is divided among all
accelerators. Their own eight P100 took 12 hours and 3.5 days.

The second command predicts updates of five models on this processor, and measures them. The two
take turns, because other programs of the machine change its speed.
"""

import itertools
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

import tensorflow as tf
from absl import flags

from benchmarks.parts.scripts import recorded
from nmt_zoo import models
from nmt_zoo.command_line import console
from nmt_zoo.training.reports import on_paper, work
from nmt_zoo.training.reports.accelerators import ACCELERATORS
from nmt_zoo.training.reports.here import Here
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import GradientUpdate
from nmt_zoo.training.ways.gradient.precision import PRECISIONS

UPDATES = {"transformer_base": 100_000, "transformer_big": 300_000}
TOKENS, VOCABULARY, PAIRS = 25_000, 37_000, 4_500_000
LENGTH = 32  # Tokens a sentence, of all batches here; an assumption, and of little weight.
NUMBERS = (1, 8, 64)
PUBLISHED = {"transformer_base": 12, "transformer_big": 84}  # Hours on eight P100.
CHECKED = {  # Model -> (rows of a batch, rounds) of the check.
    "transformer_tiny": (64, 7),
    "transformer_small": (128, 7),
    "transformer_base": (128, 3),
    "transformer_simple": (64, 5),
    "lstm_luong": (64, 5),
}

FLAGS = flags.FLAGS
flags.DEFINE_bool("check", False, "Measures updates on this processor beside their prediction.")
flags.DEFINE_string("output", "", "JSON file for all figures.")


def make_update(preset, vocab_size, precision="float32"):
    """Makes a model and its update, as train.py does by default."""
    model = models.create(preset, vocab_size, vocab_size, dtype=PRECISIONS[precision])
    return GradientUpdate(model, adam(learning_rate=1e-3, warmup_steps=4000))


def predictions(preset, precision, devices):
    """Yields a record for each of some devices, alone and several of them."""
    update = make_update(preset, VOCABULARY, precision)
    weights = 4 * update.model.count_params()
    for number in NUMBERS:
        rows = max(1, round(TOKENS / LENGTH / number))
        done = work.of_update(update, rows, LENGTH, LENGTH)
        for device in devices:
            found = on_paper.predict(done, ACCELERATORS[device], number, weights)
            yield {
                "model": preset,
                "device": device,
                "number": number,
                "precision": precision,
                "rows_of_each": rows,
                "floating_point_operations_of_each": done.floats,
                "of_matrix_products": done.floats_of_products,
                "bytes_moved_by_each": done.moved,
                "bytes_needed_by_each": 4 * weights + done.most_alive,
                "bytes_sent_by_each": on_paper.exchanged(weights, number),
                "seconds": found._asdict(),
                "bound": found.bound,
                "hours": {
                    f"{share:g}": UPDATES[preset] * found.seconds(share) / 3600
                    for share in (1, on_paper.SHARE)
                },
                "hours_without_fusion": UPDATES[preset] * found.seconds_apart() / 3600,
            }


def check(preset):
    """Predicts and measures updates of a model in turns; returns the figures."""
    (rows, rounds), vocab_size = CHECKED[preset], 8000
    tf.keras.utils.set_random_seed(1)
    update = make_update(preset, vocab_size)
    rng = np.random.default_rng(1)
    ids = rng.integers(4, vocab_size, (2, rows, LENGTH), np.int32)
    batch = dict(zip(("source_ids", "target_ids"), map(tf.constant, ids), strict=True))
    done = work.of_update(update, rows, LENGTH, LENGTH)

    def seconds():
        start = time.perf_counter()
        float(update.step(batch)["loss"][0])
        return time.perf_counter() - start

    seconds()  # Traces the graph.
    measured, predicted = [seconds()], []
    for _ in range(rounds):
        predicted.append(on_paper.predict(done, Here(), 1, 0).seconds())
        measured.append(seconds())
    beside = [sum(pair) / 2 for pair in itertools.pairwise(measured)]
    ratios = [a / b for a, b in zip(predicted, beside, strict=True)]
    return {
        "model": preset,
        "tokens_of_a_side": rows * LENGTH,
        "floating_point_operations": done.floats,
        "measured_seconds": measured,
        "predicted_seconds": predicted,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def main(argv):
    """Predicts, or checks predictions."""
    del argv
    process.start_tensorflow()
    with recorded(FLAGS.output) as record:
        if FLAGS.check:
            record["checks"] = []
            for preset in CHECKED:
                found = check(preset)
                record["checks"].append(found)
                print(f"{preset}: predicted / measured {found['ratio']:.3f}", flush=True)
            return 0
        record |= {"pairs": PAIRS, "tokens_of_an_update": TOKENS, "tokens_of_a_sentence": LENGTH}
        record |= {"updates": UPDATES, "published_hours": PUBLISHED, "predictions": []}
        others = [name for name in ACCELERATORS if name != "p100"]
        for preset in UPDATES:
            for precision, devices in (("float32", ["p100"]), ("bfloat16", others)):
                for found in predictions(preset, precision, devices):
                    record["predictions"].append(found)
                    print(*(found[n] for n in ("model", "device", "number", "bound", "hours")))
    return 0


if __name__ == "__main__":
    console.run(main)
