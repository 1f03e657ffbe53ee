"""Predicts the time and memory of training on a device that need not be there."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.memory import in_words
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.configuration.settled import TIMING
from nmt_zoo.data_pipeline.batching import EpochPlan
from nmt_zoo.training import timing
from nmt_zoo.training.reports import work
from nmt_zoo.training.reports.accelerators import ACCELERATORS, HERE, parse
from nmt_zoo.training.reports.here import Here
from nmt_zoo.training.run import Run

# Of the peak that large language models used: GPT-3 21%, Megatron-Turing 30%, Gopher 33%, PaLM 46%
# (Chowdhery et al. 2022, "PaLM", table 3). Smaller models use less.
SHARE = 0.4


class Prediction(NamedTuple):
    """Seconds of an update, at the rates of a device."""

    arithmetic: float  # of the operations that arithmetic bounds
    memory: float  # of those that memory bounds
    unfused: float  # of memory for all else, unless XLA fuses it with products
    exchange: float  # of gradients; at best during the backward pass

    def seconds(self, share: float = 1.0) -> float:
        """Returns the seconds of an update that reaches a share of the device's rates, fused."""
        return max((self.arithmetic + self.memory) / share, self.exchange)

    def seconds_apart(self) -> float:
        """Returns the seconds of an update at the device's rates, of which nothing is fused."""
        return max(self.arithmetic + self.memory + self.unfused, self.exchange)

    @property
    def bound(self) -> str:
        """Names what takes the longest: arithmetic, memory or exchange."""
        return max((self[i], self._fields[i]) for i in (0, 1, 3))[1]


def predict(done: work.Work, device: Any, number: int, gradient_bytes: int) -> Prediction:
    """Predicts an update by `number` devices, each of which does the `Work` of a batch of its own.

    `device` is an `Accelerator` or `Here`.
    """
    each = [np.multiply(op.times, device.seconds(op)) for op in done.operations]
    sent = exchanged(gradient_bytes, number)
    return Prediction(*map(float, sum(each)), sent / device.link if sent else 0.0)


def exchanged(gradient_bytes: int, number: int) -> float:
    """Returns the bytes that each device sends in a ring all-reduce.

    The ring passes every part of the sum around twice, but for the device that has it already
    (Patarasuk and Yuan 2009).
    """
    return 2 * (number - 1) / number * gradient_bytes


def mean_batch(plan: EpochPlan, *lengths: np.ndarray) -> tuple[int, int, int]:
    """Returns (rows, source, target tokens) of a batch with the mean work of a plan's batches.

    Most work is in proportion to the padded tokens, and attention to their number times the length.
    """
    rows, source, target = plan.padded_shapes(*lengths).T.astype(float)
    length = (rows * source**2).sum() / (rows * source).sum()
    count = (rows * source).mean() / length
    sizes = count, length, (rows * target).mean() / count
    rows, source, target = (max(1, round(size)) for size in sizes)
    return rows, source, target


def with_precision(run: Run, name: str) -> Run:
    """Returns a run whose --precision suits a device; raises `UserError` if it cannot."""
    precision, device = run.options["precision"], parse(name)[0]
    known = ["float32"] if device == HERE else [*ACCELERATORS[device].floats]
    if precision == AUTO:
        precision = "bfloat16" if "bfloat16" in known else "float32"
        return run.with_options(TIMING, precision=precision)
    if device != HERE and precision not in known:
        raise UserError(
            f"--device={name}: its data sheet has no --precision={precision}; expected one of "
            f"{', '.join(known)}"
        )
    return run


def lines_of(run: Run, name: str) -> Iterator[str]:
    """Yields lines that predict the time and memory of a run on a device, a value of --device."""
    kind, number = parse(name)
    device = Here() if kind == HERE else ACCELERATORS[kind]
    lengths = [side.lengths for side in run.epochs.corpus_of(0)]
    rows, source, target = mean_batch(run.epochs.first, *lengths)
    update = timing.update_to_try(run)
    weights = 4 * update.model.count_params()
    done = work.of_update(update, rows, source, target)
    batches = run.options["accumulate_steps"]
    found = predict(done, device, number, weights)
    found = Prediction(*(batches * part for part in found[:3]), found.exchange)
    yield (
        f"on paper: {name}, {run.options['precision']}; batches an update: {batches * number:,}, "
        f"of about {rows:,} rows of {source:,} source and {target:,} target tokens"
    )
    yield (
        f"    arithmetic: {done.floats:.3g} floating-point operations a batch, forward, backward "
        f"and Adam; {done.floats_of_products:.3g} of them in products of matrices"
    )
    yield from _memory(done, weights, getattr(device, "memory", None))
    if number > 1:
        yield f"    exchange: every device sends {in_words(exchanged(weights, number))} an update"
    yield from _times(run, found, number, name)


def _memory(done, weights, available):
    needed = 4 * weights + done.most_alive
    of = f" of {in_words(available)}" if available else ""
    too_much = ": THE BATCH DOES NOT FIT" if available and needed > available else ""
    yield (
        f"    memory: weights {in_words(weights)}, gradients {in_words(weights)}, moments of Adam "
        f"{in_words(2 * weights)}, activations and other results {in_words(done.most_alive)}; "
        f"together {in_words(needed)}{of}{too_much}"
    )
    starts = sum(each.times for each in done.operations)
    yield f"    moved: {in_words(done.moved)} a batch, by {starts:,} operations one after the other"


def _times(run, found, number, name):
    is_here = name == HERE
    steps, batches = run.options["max_steps"], run.epochs.first.batch_sizes.size
    an_epoch = -(-batches // (number * run.options["accumulate_steps"]))
    times = {
        "at the peaks, if XLA fuses all between products": found.seconds(),
        "at the peaks, if nothing is fused": found.seconds_apart(),
        f"at {SHARE:.0%} of the peaks, fused": found.seconds(SHARE),
    }
    for rates, seconds in [("here", found.seconds())] if is_here else times.items():
        yield (
            f"    time {rates}: {seconds:.3g} s an update, {_duration(an_epoch * seconds)} an "
            f"epoch of {an_epoch:,}"
            + (f", {_duration(steps * seconds)} for --max_steps={steps}" if steps else "")
        )
    parts = ", ".join(f"{part} {value:.3g} s" for part, value in found._asdict().items() if value)
    yield f"    bound by {found.bound}: {parts}"
    if is_here:
        yield (
            "    by products and passes of the same sizes, measured on this processor; loops of "
            "recurrent models, with many small operations, are faster"
        )
        return
    yield (
        "    a bound from data sheets, not a measurement: no run reaches the peaks; large "
        "published runs reach 21% to 46%, small models less"
    )


def _duration(seconds):
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.3g} s"
