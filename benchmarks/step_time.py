"""Measures time and memory of training updates of a Transformer, and compares them.

    pip install torch
    python benchmarks/step_time.py --output=speed.json
    python benchmarks/step_time.py --source=train.de --target=train.en
    python benchmarks/step_time.py --preset=transformer_base --precision=bfloat16

Six candidates take turns with the same batches:

* ours: `Gradient`, fed by the pipeline, with figures summed as in the training loop;
* replicas: the same update without the pipeline, a part of every batch on each thread, as with
  `train.py --distribution=mirrored --num_replicas`;
* minimal: the same Keras model in ten lines, without clipping, checks, figures or pipeline;
* pytorch: the same network around `nn.Transformer`, with clipping; bfloat16 by autocast;
* compiled: the same by `torch.compile`, unless that fails;
* products: only the matrix products of an update, one after the other.

All ratios are ratios of rates. Ours / minimal shows the cost of our training loop. Ours / pytorch
compares the two choices of a user. Ours / products is the share of an update that is unavoidable
arithmetic. First, all networks get the same weights and no dropout, and must compute the same
losses in two successive updates, in float32 and in the precision that is measured.
"""

import os
import statistics
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

from absl import flags

from benchmarks.parts.matrix_products import Task, operations, products
from benchmarks.parts.scripts import own_command, require, write_record
from benchmarks.parts.side_by_side import (
    Candidate,
    ratio,
    read_corpus,
    record,
    spread,
    take_turns,
)
from nmt_zoo.command_line import console
from nmt_zoo.common.files import check_writable

# The process of a candidate may import only its own framework, after its number of threads is set.
# So both frameworks are imported inside functions.

# Largest relative differences of loss and gradient norm, in the first and the second update. Adam's
# first step follows the sign of every gradient, even of a gradient that is only rounding error. The
# norm of the gradients of transformer_base, the largest model, differs by 2.2e-6 in float32.
TOLERANCES = {"float32": (5e-6, 1e-3), "bfloat16": (0.02, 0.05)}

FLAGS = flags.FLAGS

PRESETS = ("transformer_tiny", "transformer_small", "transformer_base")
flags.DEFINE_enum("preset", "transformer_small", PRESETS, "Model to update.")
flags.DEFINE_enum("precision", "float32", TOLERANCES, "Number type of matrix products.")
flags.DEFINE_string(
    "source", "", "File of source text, one sentence a line. Default: the demo corpus."
)
flags.DEFINE_string("target", "", "File of its translation.")
flags.DEFINE_string("data_dir", "data", "Folder of the demo corpus.")
flags.DEFINE_integer("vocab_size", 8000, "Number of BPE pieces.", lower_bound=1)
flags.DEFINE_integer(
    "max_tokens", 4096, "Largest number of padded tokens in a batch, per side.", lower_bound=1
)
flags.DEFINE_integer(
    "threads", os.cpu_count() or 1, "Number of threads of every candidate.", lower_bound=1
)
flags.DEFINE_integer("rounds", 9, "Number of turns of each candidate.", lower_bound=1)
flags.DEFINE_integer("steps", 4, "Number of updates in a turn.", lower_bound=1)
flags.DEFINE_integer("warmup_steps", 3, "Number of updates before the first turn.", lower_bound=1)
flags.DEFINE_bool("compile", True, "Whether torch.compile, which takes minutes, is measured, too.")
flags.DEFINE_integer("seed", 1, "Seed of weights, dropout and batches.", lower_bound=0)
flags.DEFINE_string("output", "", "JSON file for all figures.")


def create_model(task):
    """Starts TensorFlow and makes our model for a `Task`."""
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import keras

    from nmt_zoo import models
    from nmt_zoo.training.ways.gradient.precision import PRECISIONS

    process.start_tensorflow()
    keras.utils.set_random_seed(task.seed)
    dtype = PRECISIONS[task.precision]
    sizes = (task.vocab_size, task.vocab_size)
    return models.create(task.preset, *sizes, **task.settings, dtype=dtype)


def our_update(model, options, **of_adam):
    """Makes a `Gradient` with Adam, as train.py does; `of_adam` are arguments of `adam`."""
    from nmt_zoo.training.ways.gradient.adam import adam
    from nmt_zoo.training.ways.gradient.gradient import Gradient

    names = ("learning_rate", "warmup_steps"), ("label_smoothing", "clip_norm")
    schedule, rest = ({name: options[name] for name in group} for group in names)
    return Gradient(model, adam(**schedule, **of_adam), **rest)


def minimal_update(model, options):
    """Makes `step(source_ids, target_ids)` -> loss, in the few lines that Keras itself needs."""
    import keras
    import tensorflow as tf

    from nmt_zoo.training.ways.gradient.schedules import SCHEDULES

    rate = SCHEDULES["inverse_sqrt"](options["learning_rate"], options["warmup_steps"])
    optimizer = keras.optimizers.Adam(rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    optimizer.build(model.trainable_variables)
    smoothing = options["label_smoothing"]

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def step(source_ids, target_ids):
        target_in_ids = tf.pad(target_ids[:, :-1], [[0, 0], [1, 0]], constant_values=model.bos_id)
        real = tf.cast(target_ids != model.pad_id, tf.float32)
        with tf.GradientTape() as tape:
            inputs = {"source_ids": source_ids, "target_in_ids": target_in_ids}
            log_probs = tf.nn.log_softmax(model(inputs, training=True))
            right = tf.gather(log_probs, target_ids, batch_dims=2)
            all_words = tf.reduce_mean(log_probs, axis=-1)
            losses = -(1 - smoothing) * right - smoothing * all_words
            loss = tf.reduce_sum(losses * real) / tf.reduce_sum(real)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def torch_update(task, **more):
    """Makes a PyTorch model and its update; `more` are arguments of `TorchUpdate`."""
    import torch

    from benchmarks.parts.torch_networks import TorchUpdate, TransformerModel

    torch.manual_seed(task.seed)
    model = TransformerModel(task.vocab_size, task.settings)
    return TorchUpdate(model, **task.options, precision=task.precision, **more).step, model


def ours(task):
    """Returns `work(first, count)` of our update; batches come from the pipeline as in training."""
    model = create_model(task)
    from nmt_zoo.data_pipeline import pipeline
    from nmt_zoo.data_pipeline.batching import Batching

    update = our_update(model, task.options)
    feed, sums = iter(pipeline.batches(task.corpus, Batching(task.max_tokens), seed=task.seed)), {}

    def work(_, count):
        for _ in range(count):
            values = update.step(next(feed))
            float(values.pop("skipped")[0])
            for name, (amount, number) in values.items():
                before = sums.get(name, (0.0, 0.0))
                sums[name] = (before[0] + amount, before[1] + number)
        return float(values["loss"][0] / values["loss"][1])

    return work


def replicas(task):
    """Returns `work(first, count)` of our update by as many replicas as operations at a time."""
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    from nmt_zoo.configuration.resolver import options_of
    from nmt_zoo.training.devices.replicated_update import Share
    from nmt_zoo.training.devices.strategies import start_devices

    intra_op_threads, number = task.threads
    options = {**options_of(task.preset, "files", {}), "intra_op_threads": intra_op_threads}
    devices = start_devices(options, "mirrored", number)
    with devices.scope():
        update = our_update(create_model(task), task.options, kind=devices.make_adam)
        update = devices.replicate(update)

    def work(first, count):
        for source_ids, target_ids in task.batches[first : first + count]:
            parts = [
                {"source_ids": source_ids[i::number], "target_ids": target_ids[i::number]}
                for i in range(number)
            ]
            values = update.step(Share(parts, np.ones(number, np.float32), None, None))
        return float(values["loss"][0] / values["loss"][1])

    return work


def minimal(task):
    """Returns `work(first, count)` of the minimal update."""
    model = create_model(task)
    step = minimal_update(model, task.options)
    import tensorflow as tf

    return _steps(step, task.batches, tf.constant)


def pytorch(task, **more):
    """Returns `work(first, count)` of the PyTorch update; `more` as for `torch_update`."""
    import torch

    torch.set_num_threads(task.threads[0])
    torch.set_flush_denormal(True)  # TensorFlow does this by default.
    step, _ = torch_update(task, **more)

    def tensor(array):
        return torch.from_numpy(array).long()

    return _steps(lambda *batch: step(*batch)[0], task.batches, tensor)


def compiled(task):
    """Returns `work(first, count)` of the compiled PyTorch update, or of the reason if it fails."""
    work = pytorch(task, compiled=True)

    def tried(first, count):
        try:
            return work(first, count)
        except Exception as error:  # Any: the compiler and its C++ compiler raise errors of theirs.
            return f"{type(error).__name__}: {error}".splitlines()[0]

    return tried


def _steps(step, batches, tensor):
    batches = [[tensor(side) for side in batch] for batch in batches]

    def work(first, count):
        for batch in batches[first : first + count]:
            loss = step(*batch)
        return float(loss)

    return work


def check_equal(task):
    """Returns the largest relative differences in two updates; exits if the networks differ."""
    import tensorflow as tf
    import torch

    batches = [tuple(ids[:16] for ids in batch) for batch in task.batches[:2]]
    settings = {name: 0.0 if "dropout" in name else x for name, x in task.settings.items()}
    task, results = task._replace(settings=settings), {}
    model = create_model(task)
    start = [w.numpy() for w in model.trainable_variables]
    paths = [w.path.partition("/")[2] for w in model.trainable_variables]
    update, step = our_update(model, task.options), minimal_update(model, task.options)
    results["ours"] = []
    for source_ids, target_ids in batches:
        sums = update.step({"source_ids": source_ids, "target_ids": target_ids})
        results["ours"] += [sums["loss"][0] / sums["loss"][1], sums["gradient_norm"][0]]
    for weight, array in zip(model.trainable_variables, start, strict=True):
        weight.assign(array)
    results["minimal"] = []
    for batch, norm in zip(batches, results["ours"][1::2], strict=True):
        # The minimal update computes no norm, so it gets ours.
        results["minimal"] += [step(*map(tf.constant, batch)), norm]
    step, model = torch_update(task, exact_norm=True)
    model.take_weights(dict(zip(paths, start, strict=True)))
    results["pytorch"] = [
        x for batch in batches for x in step(*(torch.from_numpy(ids).long() for ids in batch))
    ]
    results = {name: np.array([float(x) for x in each]) for name, each in results.items()}
    worst = [
        max(float(np.abs(x[two] / results["ours"][two] - 1).max()) for x in results.values())
        for two in (slice(0, 2), slice(2, 4))
    ]
    if any(found > most for found, most in zip(worst, TOLERANCES[task.precision], strict=True)):
        sys.exit(f"not the same network: losses and gradient norms in turn are {results}")
    return worst


def make_batches(corpus, max_tokens, count, seed):
    """Returns the first training batches, `(source_ids [B, S], target_ids [B, T])`, int32."""
    from nmt_zoo.data_pipeline import pipeline
    from nmt_zoo.data_pipeline.batching import Batching

    feed = pipeline.batches(corpus, Batching(max_tokens), seed=seed).take(count).as_numpy_iterator()
    # Copies, because PyTorch warns about read-only arrays.
    found = [(batch["source_ids"].copy(), batch["target_ids"].copy()) for batch in feed]
    if len(found) < count:
        sys.exit(f"an epoch has {len(found)} batches, {count} are needed; ask for fewer --rounds")
    return found


def measure(corpus, vocab_size, settings, options):
    """Measures all candidates in turns; returns their figures."""
    warmup, steps, rounds = FLAGS.warmup_steps, FLAGS.steps, FLAGS.rounds
    batches = make_batches(corpus, FLAGS.max_tokens, warmup + steps * rounds, FLAGS.seed)
    threads = (FLAGS.threads, FLAGS.threads)
    of_model = (vocab_size, settings, options, FLAGS.seed, FLAGS.preset, FLAGS.precision)
    task = Task(threads, corpus, FLAGS.max_tokens, batches, *of_model)
    differences = {
        precision: check_equal(task._replace(precision=precision))
        for precision in dict.fromkeys(("float32", FLAGS.precision))
    }
    print(f"the same network, relative differences {differences}", flush=True)
    starts = [warmup + steps * turn for turn in range(rounds)]
    turns = [batches[i : i + steps] for i in starts]
    tokens = [sum(int((target > 0).sum()) for _, target in turn) for turn in turns]
    makers = (ours, minimal, pytorch, *([compiled] if FLAGS.compile else []), products)
    candidates = {make.__name__: Candidate(make.__name__, threads, make, task) for make in makers}
    if FLAGS.threads > 1:
        threads = (1, FLAGS.threads)
        divided = task._replace(threads=threads)
        candidates["replicas"] = Candidate("replicas", threads, replicas, divided)
    first = {name: each.turn(0, warmup)[-1] for name, each in candidates.items()}
    failures = {name: reason for name, reason in first.items() if isinstance(reason, str)}
    for name in failures:
        candidates.pop(name).dismiss()
    square = max(candidates["products"].turn(0, 0)[-1] for _ in range(3))
    take_turns(list(candidates.values()), starts, steps)
    for name, each in list(candidates.items()):
        reasons = [result for result in each.results if isinstance(result, str)]
        if reasons:  # It failed at a later batch, and its times are of no use.
            failures[name] = reasons[0]
            del candidates[name]
    alone = candidates.pop("products")
    done = [sum(operations(*b, vocab_size, settings) for b in turn) for turn in turns]
    rates = {name: each.rates(done) for name, each in candidates.items()}
    rates["products"] = alone.results
    shares = [a / b for a, b in zip(rates["ours"], rates["products"], strict=True)]
    beside = {name: ratio(candidates["ours"], each) for name, each in candidates.items()}
    del beside["ours"]
    return {
        "tokens": tokens,
        "operations": done,
        "relative_differences": differences,
        "failures": failures,
        "candidates": {name: record(each, tokens) for name, each in candidates.items()},
        "operations_per_second": {
            "square": square,
            **{name: statistics.median(each) for name, each in rates.items()},
        },
        **{f"rate_beside_{name}": each for name, each in beside.items()},
        "rate_beside_products": spread(shares),
    }


def report(result):
    """Prints the figures."""
    for name, each in result["candidates"].items():
        print(
            f"  {name:9} {each['tokens_per_second']:8,.0f} target tokens/s, at most "
            f"{each['peak_memory_bytes'] / 1e9:.2f} GB"
        )
    for name, rate in result["operations_per_second"].items():
        print(f"  {name:9} {rate / 1e9:8.1f} GFLOP/s")
    for name in ("replicas", "minimal", "pytorch", "compiled", "products"):
        if r := result.get(f"rate_beside_{name}"):
            print(f"  ours / {name} {r['median']:.3f} ({r['least']:.3f} to {r['largest']:.3f})")
    for name, reason in result["failures"].items():
        print(f"  {name} failed: {reason}")


def main(argv):
    """Measures and writes the figures."""
    del argv
    require("torch")
    if FLAGS.output:
        check_writable(FLAGS.output)

    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import keras
    import torch

    from nmt_zoo import models
    from nmt_zoo.command_line.machine import machine
    from nmt_zoo.configuration.resolver import options_of

    options = options_of(FLAGS.preset, "files", {})
    text = (FLAGS.source, FLAGS.target, FLAGS.data_dir, options["max_length"])
    corpus, vocab_sizes = read_corpus(*text, kind="bpe", vocab_size=FLAGS.vocab_size)
    names = ("learning_rate", "warmup_steps", "label_smoothing", "clip_norm")
    options = {name: options[name] for name in names}
    settings = models.preset_settings(FLAGS.preset)
    result = {
        "model": FLAGS.preset,
        "precision": FLAGS.precision,
        "machine": {**machine(), "keras": keras.__version__, "torch": torch.__version__},
        "command": own_command(),
        "seed": FLAGS.seed,
        "vocab_size": vocab_sizes[0],
        "max_tokens": FLAGS.max_tokens,
        "threads": FLAGS.threads,
        "settings": settings,
        "options": options,
    }
    print(", ".join(f"{name} {value}" for name, value in result["machine"].items() if value))
    print(f"{corpus.num_pairs:,} pairs, {vocab_sizes[0]:,} pieces", flush=True)
    result.update(measure(corpus, vocab_sizes[0], settings, options))
    report(result)
    if FLAGS.output:
        write_record(FLAGS.output, result)


if __name__ == "__main__":
    console.run(main)
