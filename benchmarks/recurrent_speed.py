"""Compares the training speed of `lstm_luong` with the same network in PyTorch.

    pip install torch
    python benchmarks/recurrent_speed.py --output=speed.json
    python benchmarks/recurrent_speed.py --source=train.de --target=train.en

Whole updates are timed: loss, gradient, clipping, Adam. First, both networks get the same weights
and no dropout, and must compute the same loss and gradient norm for a batch. Then the candidates,
each a framework with a number of threads, take turns with the same batches.
"""

import os
import statistics
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

from absl import flags

from benchmarks.parts.scripts import own_command, require, write_record
from benchmarks.parts.side_by_side import (
    Candidate,
    ratio,
    read_corpus,
    record,
    take_turns,
)
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_writable

# The process of a candidate may import only its own framework, after its number of threads is set.
# So both frameworks are imported inside functions.
PRESET = "lstm_luong"
TOLERANCE = 1e-5  # Largest relative difference of the loss and of the gradient's norm.

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "source", "", "File of source text, one sentence a line. Default: the demo corpus."
)
flags.DEFINE_string("target", "", "File of its translation.")
flags.DEFINE_string("data_dir", "data", "Folder of the demo corpus.")
flags.DEFINE_integer("max_length", 256, "Longest sentence, in words with </s>.", lower_bound=1)
flags.DEFINE_multi_integer(
    "sentences", [64, 10], "Number of sentences in a batch. Repeatable.", lower_bound=1
)
flags.DEFINE_integer(
    "threads", os.cpu_count() or 1, "Largest number of threads to try.", lower_bound=1
)
flags.DEFINE_integer("rounds", 9, "Number of turns of each candidate.", lower_bound=1)
flags.DEFINE_integer("steps", 10, "Number of updates in a turn.", lower_bound=1)
# PyTorch is slow in the first batches of new shapes, and almost every batch has a new shape.
flags.DEFINE_integer("warmup_steps", 20, "Number of updates before the first turn.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of weights, dropout and batches.", lower_bound=0)
flags.DEFINE_string("output", "", "JSON file for all figures.")


def make_batches(corpus, sentences, count, seed):
    """Makes batches like those of training: sentences of similar length, in random order.

    Returns:
        List of `(source_ids [B, S], target_ids [B, T])`, int32 arrays, B = `sentences`.
    """
    from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID

    rng = np.random.default_rng(seed)
    order = rng.permutation(corpus.num_pairs)
    longest = np.maximum(corpus.source.lengths, corpus.target.lengths)
    order = order[np.argsort(longest[order], kind="stable")]
    full = order[: order.size // sentences * sentences].reshape(-1, sentences)
    if not len(full):
        raise UserError(f"the text has {order.size} pairs, a batch of --sentences={sentences} more")
    chosen = rng.permutation(len(full))
    batches = []
    for rows in full[np.resize(chosen, count)]:
        sides = []
        for side in corpus:
            ids, lengths = side.take(rows)
            real = np.arange(lengths.max()) < lengths[:, None]
            sides.append(np.full(real.shape, PAD_ID, np.int32))
            sides[-1][real] = ids
        batches.append(tuple(sides))
    return batches


def tensorflow_update(vocab_sizes, settings, options, seed):
    """Makes `(step, model, tensor)`; `step(source_ids, target_ids)` -> loss a token, gradient norm.

    `tensor` converts an array of ids to a tensor of the framework.
    """
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import keras
    import tensorflow as tf

    from nmt_zoo import models
    from nmt_zoo.training.ways.gradient.adam import adam
    from nmt_zoo.training.ways.gradient.gradient import GradientUpdate

    process.start_tensorflow()
    keras.utils.set_random_seed(seed)
    model = models.create(PRESET, *vocab_sizes, **settings)
    schedule = {name: options[name] for name in ("learning_rate", "warmup_steps")}
    rest = {name: options[name] for name in ("label_smoothing", "clip_norm")}
    update = GradientUpdate(model, adam(**schedule), **rest)

    def step(source_ids, target_ids):
        sums = update.step({"source_ids": source_ids, "target_ids": target_ids})
        return sums["loss"][0] / sums["loss"][1], sums["gradient_norm"][0]

    return step, model, tf.constant


def pytorch_update(vocab_sizes, settings, options, seed):
    """Makes the same as `tensorflow_update`, in PyTorch."""
    import torch

    from benchmarks.parts.torch_networks import LuongModel, TorchUpdate

    torch.manual_seed(seed)
    model = LuongModel(*vocab_sizes, settings)
    update = TorchUpdate(model, **options)
    return update.step, model, lambda array: torch.from_numpy(array).long()


FRAMEWORKS = {"tensorflow": tensorflow_update, "pytorch": pytorch_update}


def check_equal(batch, vocab_sizes, settings, options, seed):
    """Returns relative differences of loss and gradient norm; exits if the networks differ."""
    settings = {name: 0.0 if "dropout" in name else value for name, value in settings.items()}
    results, weights = {}, {}
    for framework, make in FRAMEWORKS.items():
        exact = {"exact_norm": True} if framework == "pytorch" else {}
        step, model, tensor = make(vocab_sizes, settings, {**options, **exact}, seed)
        if framework == "tensorflow":
            weights = {w.path.partition("/")[2]: w.numpy() for w in model.trainable_variables}
        else:
            model.take_weights(weights)
        results[framework] = np.array([float(x) for x in step(*map(tensor, batch))])
    ours, theirs = results.values()
    differences = np.abs(ours - theirs) / np.abs(theirs)
    if differences.max() > TOLERANCE:
        sys.exit(f"not the same network: (loss, gradient norm) are {results}")
    return dict(zip(("loss", "gradient_norm"), differences.tolist(), strict=True))


def thread_choices(framework, most):
    """Lists the numbers of threads to try: `(threads inside an operation, operations at a time)`.

    PyTorch runs the operations of a loss one after another, so its second number is always 1.
    """
    if framework == "pytorch":
        return sorted({(1, 1), (most, 1)})
    return sorted({(1, 1), (1, most), (most, most)})


def make_turns(framework, threads, batches, *made_of):
    """Returns `work(first, count)`, which makes `count` updates and returns the last loss."""
    if framework == "pytorch":
        import torch

        torch.set_num_threads(threads[0])
        torch.set_flush_denormal(True)  # TensorFlow does this by default.
    step, _, tensor = FRAMEWORKS[framework](*made_of)
    tensors = [[tensor(side) for side in batch] for batch in batches]

    def work(first, count):
        for batch in tensors[first : first + count]:
            loss, _ = step(*batch)
        return float(loss)

    return work


def measure(corpus, sentences, *made_of):
    """Measures all candidates in turns with batches of `sentences`; returns the record."""
    warmup, steps, rounds = FLAGS.warmup_steps, FLAGS.steps, FLAGS.rounds
    batches = make_batches(corpus, sentences, warmup + steps * rounds, FLAGS.seed)
    differences = check_equal(batches[0], *made_of)
    print(f"{sentences} sentences: the same network, relative differences {differences}")
    starts = [warmup + steps * turn for turn in range(rounds)]
    tokens = [sum(int((t > 0).sum()) for _, t in batches[i : i + steps]) for i in starts]
    candidates = [
        Candidate(framework, threads, make_turns, framework, threads, batches, *made_of)
        for framework in FRAMEWORKS
        for threads in thread_choices(framework, FLAGS.threads)
    ]
    for each in candidates:
        each.turn(0, warmup)
    take_turns(candidates, starts, steps)
    best = {
        framework: max(
            (c for c in candidates if c.name == framework),
            key=lambda c: statistics.median(c.rates(tokens)),
        )
        for framework in FRAMEWORKS
    }
    return {
        "sentences": sentences,
        "tokens": tokens,
        "relative_differences": differences,
        "candidates": [{"framework": each.name, **record(each, tokens)} for each in candidates],
        "ratio": ratio(*best.values(), "wall"),
        "cpu_ratio": ratio(*best.values(), "cpu"),
    }


def report(case):
    """Prints the record of a case."""
    for each in case["candidates"]:
        print(
            f"  {each['framework']:10} {' x '.join(map(str, each['threads']))} threads "
            f"{each['tokens_per_second']:9,.0f} target tokens/s "
            f"{each['tokens_per_cpu_second']:9,.0f} a CPU second"
        )
    for name in ("ratio", "cpu_ratio"):
        r = case[name]
        print(f"  {name} {r['median']:.2f} ({r['least']:.2f} to {r['largest']:.2f})", flush=True)


def main(argv):
    """Measures every batch size and writes the figures."""
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

    text = (FLAGS.source, FLAGS.target, FLAGS.data_dir, FLAGS.max_length)
    corpus, vocab_sizes = read_corpus(*text, kind="word", min_word_count=2)
    options = options_of(PRESET, "files", {})
    names = ("learning_rate", "warmup_steps", "label_smoothing", "clip_norm")
    options = {name: options[name] for name in names}
    settings = models.preset_settings(PRESET)
    result = {
        "model": PRESET,
        "machine": {**machine(), "keras": keras.__version__, "torch": torch.__version__},
        "command": own_command(),
        "seed": FLAGS.seed,
        "vocab_sizes": vocab_sizes,
        "options": options,
        "cases": [],
    }
    print(", ".join(f"{name} {value}" for name, value in result["machine"].items() if value))
    print(f"{corpus.num_pairs:,} pairs, vocabularies of {vocab_sizes[0]:,} and {vocab_sizes[1]:,}")
    for sentences in FLAGS.sentences:
        case = measure(corpus, sentences, vocab_sizes, settings, options, FLAGS.seed)
        report(case)
        result["cases"].append(case)
    if FLAGS.output:
        write_record(FLAGS.output, result)


if __name__ == "__main__":
    console.run(main)
