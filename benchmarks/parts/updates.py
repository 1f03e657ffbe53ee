"""An update of a Transformer by `train.py` and by PyTorch.

* ours: `Gradient`, fed by the pipeline, with figures summed as in the training loop;
* pytorch: the same network around `nn.Transformer`, with clipping; bfloat16 by autocast;
* compiled: the same by `torch.compile`.

The process of a candidate may import only its own framework, after its number of threads is set, so
both frameworks are imported inside functions. First, all networks get the same weights and no
dropout, and must compute the same loss and gradient in two successive updates.
"""

import statistics
import sys
from typing import Any, NamedTuple

import numpy as np

from benchmarks.parts.turns import Candidate, ratio, take_turns

# Largest relative differences of loss and gradient norm, in the first and the second update. Adam's
# first step follows the sign of every gradient, even of a gradient that is only rounding error. The
# norm of the gradients of transformer_base, the largest model, differs by 2.2e-6 in float32.
TOLERANCES = {"float32": (5e-6, 1e-3), "bfloat16": (0.02, 0.05)}
_OPTIONS = ("learning_rate", "warmup_steps", "label_smoothing", "clip_norm")
_WARMUP_STEPS = 3


class Task(NamedTuple):
    """The work that is given to every candidate."""

    preset: str
    settings: dict[str, Any]  # Of the model.
    options: dict[str, Any]  # Of the update.
    precision: str  # Number type of matrix products.
    seed: int  # Of weights, dropout and batches.
    threads: int
    vocab_size: int
    corpus: Any  # `EncodedCorpus`.
    max_tokens: int  # Padded tokens of a batch, per side.
    batches: list[tuple[np.ndarray, np.ndarray]]  # In turns: source_ids [B, S], target_ids [B, T].


def create_model(task):
    """Starts TensorFlow and makes our model."""
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import keras

    from nmt_zoo import models
    from nmt_zoo.training.ways.gradient.precision import PRECISIONS

    process.start_tensorflow()
    keras.utils.set_random_seed(task.seed)
    sizes, dtype = (task.vocab_size,) * 2, PRECISIONS[task.precision]
    return models.create(task.preset, *sizes, **task.settings, dtype=dtype)


def our_update(model, options):
    """Makes a `Gradient` with Adam, as train.py does."""
    from nmt_zoo.training.ways.gradient.adam import adam
    from nmt_zoo.training.ways.gradient.gradient import Gradient

    schedule, others = ({name: options[name] for name in g} for g in (_OPTIONS[:2], _OPTIONS[2:]))
    return Gradient(model, adam(**schedule), **others)


def ours(task):
    """Returns `work(first, count)` of our update; batches come from the pipeline as in training."""
    model = create_model(task)
    from nmt_zoo.data_pipeline import pipeline
    from nmt_zoo.data_pipeline.batching import Batching

    update, sums = our_update(model, task.options), {}
    feed = iter(pipeline.batches(task.corpus, Batching(task.max_tokens), seed=task.seed))

    def work(_, count):
        for _ in range(count):
            figures = update.step(next(feed))
            float(figures.pop("skipped")[0])
            for name, (amount, number) in figures.items():
                total, weight = sums.get(name, (0.0, 0.0))
                sums[name] = (total + amount, weight + number)
        return float(figures["loss"][0] / figures["loss"][1])

    return work


def torch_update(task, is_compiled=False):
    """Makes a `TorchUpdate` of a new model."""
    import torch

    from benchmarks.parts.torch_update import TorchUpdate, TransformerModel

    torch.manual_seed(task.seed)
    torch.set_num_threads(task.threads)
    torch.set_flush_denormal(True)  # TensorFlow does this by default.
    model = TransformerModel(task.vocab_size, task.settings)
    return TorchUpdate(model, task.options, task.precision, is_compiled)


def pytorch(task, is_compiled=False):
    """Returns `work(first, count)` of the PyTorch update."""
    import torch

    update = torch_update(task, is_compiled)
    batches = [[torch.from_numpy(ids).long() for ids in batch] for batch in task.batches]

    def work(first, count):
        for batch in batches[first : first + count]:
            loss = update.step(*batch)
        return float(loss)

    return work


def compiled(task):
    """Returns `work(first, count)` of the compiled PyTorch update."""
    return pytorch(task, is_compiled=True)


CANDIDATES = {make.__name__: make for make in (ours, pytorch, compiled)}


def check_equal(task):
    """Returns the largest relative differences in two updates; exits if the networks differ."""
    import torch

    batches = [tuple(ids[:16] for ids in batch) for batch in task.batches[:2]]
    settings = {name: 0.0 if "dropout" in name else x for name, x in task.settings.items()}
    task = task._replace(settings=settings)
    model, theirs = create_model(task), torch_update(task)
    weights = {w.path.partition("/")[2]: w.numpy() for w in model.trainable_variables}
    theirs.model.take_weights(weights)
    theirs.norms = []
    ours, differences = our_update(model, task.options), []
    for source_ids, target_ids in batches:
        sums = ours.step({"source_ids": source_ids, "target_ids": target_ids})
        loss = theirs.step(*(torch.from_numpy(ids).long() for ids in (source_ids, target_ids)))
        our_figures = (float(sums["loss"][0] / sums["loss"][1]), float(sums["gradient_norm"][0]))
        their_figures = (float(loss), float(theirs.norms[-1]))
        pairs = zip(our_figures, their_figures, strict=True)
        differences.append(max(abs(b / a - 1) for a, b in pairs))
    limits = TOLERANCES[task.precision]
    if any(far > most for far, most in zip(differences, limits, strict=True)):
        sys.exit(f"not the same network: loss or norm of the gradient differ by {differences}")
    return differences


def task_of(arguments):
    """Reads, tokenizes and encodes the text; returns the `Task`."""
    from nmt_zoo import models
    from nmt_zoo.configuration.resolver import options_of
    from nmt_zoo.data_pipeline import datasets, pipeline
    from nmt_zoo.data_pipeline.batching import Batching
    from nmt_zoo.data_pipeline.encoded import EncodedCorpus, PairFilter
    from nmt_zoo.data_pipeline.encoding import encode_lines
    from nmt_zoo.data_pipeline.lines import open_split
    from nmt_zoo.data_pipeline.tokenization import tokenizers

    options = options_of(arguments.preset, "files", {})
    splits = datasets.prepare(arguments.dataset, arguments.data_dir)
    lines = [*map(list, open_split(splits["train"]))]
    vocabularies = tokenizers.train_tokenizer("bpe", *lines, vocab_size=arguments.pieces)
    vocabularies = (vocabularies.source, vocabularies.target)
    corpus = EncodedCorpus(*map(encode_lines, vocabularies, lines))
    fits, _ = PairFilter(options["max_length"], 9.0)(*(side.lengths for side in corpus))
    corpus = EncodedCorpus(*(side.take(np.flatnonzero(fits)) for side in corpus))
    feed = pipeline.batches(corpus, Batching(arguments.max_tokens), seed=arguments.seed)
    feed = feed.take(_WARMUP_STEPS + arguments.steps * arguments.rounds).as_numpy_iterator()
    # Copies, because PyTorch warns about read-only arrays.
    return Task(
        arguments.preset,
        models.preset_settings(arguments.preset),
        {name: options[name] for name in _OPTIONS},
        *(arguments.precision, arguments.seed, arguments.threads, len(vocabularies[0]), corpus),
        arguments.max_tokens,
        [(batch["source_ids"].copy(), batch["target_ids"].copy()) for batch in feed],
    )


def measure(arguments, record):
    """Measures all candidates in turns; fills the record."""
    task, names = task_of(arguments), arguments.candidates
    record |= {"model": task.preset, "precision": task.precision, "threads": task.threads}
    record |= {"seed": task.seed, "vocab_size": task.vocab_size, "max_tokens": task.max_tokens}
    record |= {"settings": task.settings, "options": task.options}
    if len(names) > 1:
        record["relative_differences"] = {
            precision: check_equal(task._replace(precision=precision))
            for precision in dict.fromkeys(("float32", task.precision))
        }
    threads = (task.threads, task.threads)
    candidates = {name: Candidate(name, threads, CANDIDATES[name], task) for name in names}
    starts = range(_WARMUP_STEPS, len(task.batches), arguments.steps)
    rounds = [(0, _WARMUP_STEPS), *((start, arguments.steps) for start in starts)]
    take_turns(list(candidates.values()), rounds)
    tokens = [sum(int((t > 0).sum()) for _, t in task.batches[a : a + n]) for a, n in rounds[1:]]
    record["candidates"] = {}
    for name, candidate in candidates.items():
        candidate.dismiss()
        rates = [count / s for count, s in zip(tokens, candidate.seconds, strict=True)]
        record["candidates"][name] = {
            "tokens_per_second": statistics.median(rates),
            "wall_seconds": candidate.seconds,
            "peak_memory_bytes": candidate.peak_memory,
            "last_loss": candidate.results[-1],
        }
        print(f"{name}: {statistics.median(rates):,.0f} target tokens/s", flush=True)
        if name != "ours":
            beside = ratio(candidates["ours"].seconds, candidate.seconds)
            record[f"rate_beside_{name}"] = beside
            print("  ours / it {median:.2f} ({least:.2f} to {largest:.2f})".format(**beside))
