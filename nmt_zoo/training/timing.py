"""Times updates before a run, and chooses what depends on the text and the speed of the machine."""

import gc
import itertools
import time
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from nmt_zoo.common import process
from nmt_zoo.common.cores import num_cores
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.configuration.settled import TIMING
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.decoding.scores import bleu_tokenizer
from nmt_zoo.model_directory.directory import model_of
from nmt_zoo.training import pace
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.run import Run
from nmt_zoo.training.ways.gradient.precision import PRECISIONS, comparison, faster

_MOST = 10.0  # Most seconds to spend on timing updates.
_ENOUGH = 30  # Updates whose mean time is exact enough, however short they are.


def decide(run: Run) -> Run:
    """Returns a new `Run` with the options that need its text and its speed to be chosen."""
    undecided, seconds = pace.undecided(run.options), None
    if run.options["tokenize"] == AUTO:
        tokenize, reason = bleu_tokenizer([run.tokenizer.target_words(run.valid_lines[1])])
        run = run.with_options(TIMING, tokenize=tokenize)
        if reason and run.options["bleu_lines"]:
            print(f"validation {reason}", flush=True)
    if run.options["precision"] == AUTO:
        precision, seconds = choose_precision(run)
        run = run.with_options(TIMING, precision=precision)
    return run.with_options(TIMING, **choose_pace(run, undecided, seconds))


def choose_precision(run: Run) -> tuple[str, float | None]:
    """Chooses and prints the precision of a new run that leaves the choice to this function.

    Returns (precision, seconds of an update with it; None if updates are not timed).
    """
    if reason := why_untimed(run):
        print(f"precision: float32, because {reason}", flush=True)
        return "float32", None
    duration = _seconds_for_timing(run) / 2
    seconds = {
        name: seconds_an_update(run.with_options(TIMING, precision=name), duration)
        for name in ("float32", "bfloat16")
    }
    precision = faster(seconds)
    print(comparison(precision, seconds), flush=True)
    return precision, seconds[precision]


def choose_pace(run: Run, undecided: list[str], seconds: float | None = None) -> dict[str, int]:
    """Chooses the undecided options of a new run; prints them, and the time that it takes.

    `undecided` are names, `seconds` are of an update; None if not measured. Returns name -> value.
    """
    if not undecided:
        return {}
    options = run.options
    limit = 60 * options["max_minutes"]
    updates = run.epochs.num_updates(options["accumulate_steps"])
    is_timed = limit or pace.may_be_long(options, updates)
    if is_timed and not (seconds or why_untimed(run)):
        seconds = seconds_an_update(run, _seconds_for_timing(run))
    left = max(limit - (time.monotonic() - process.BEGAN), 0.0)
    outlook = pace.outlook(options, updates, left, seconds if limit else None)
    chosen = pace.choose(options, undecided, outlook)
    lines = pace.report(chosen, options, outlook)
    if seconds and not limit:
        lines += pace.announcement(outlook, seconds)
    for line in lines:
        print(line, flush=True)
    if "decay_steps" in chosen:
        run.way.check(run.config["model"], {**options, **chosen}, {})
        chosen["max_steps"] = chosen["decay_steps"]  # Further updates would change nothing.
    return chosen


def _seconds_for_timing(run):
    limit = 60 * run.options["max_minutes"]
    return min(_MOST, limit / 50) if limit else _MOST


def seconds_an_update(run: Run, duration: float) -> float:
    """Returns mean seconds of an update of a fresh model; as `time_updates`.

    Several devices take about as long as one, because each has a batch and, as long as there are
    enough, cores of its own. XLA would compile for each new shape first, so it is left out.
    """
    # The fall of the rate is chosen next, and the rate does not change the time.
    update = update_to_try(run.with_options(TIMING, schedule="constant", jit_compile=False))
    batches = dataset_of(run.epochs.corpus_of(0), run.epochs.first)
    seconds = time_updates(update, batches, run.options["accumulate_steps"], duration)
    del update
    gc.collect()  # Two models at once may be too much for an accelerator.
    return seconds * max(1.0, run.devices.num_local / num_cores())


def why_untimed(run: Run) -> str:
    """Returns the reason why updates of a run cannot be timed before it, or an empty text."""
    if not run.way.takes_batches:
        return f"--update={run.options['update']} trains without gradients"
    if isinstance(run.devices.strategy, tf.distribute.TPUStrategy):
        return "updates on a TPU are not timed"  # The host's processor would make them.
    return ""


def update_to_try(run: Run) -> Any:
    """Returns the update of a fresh model on one device, for measurements before a run."""
    alone = run._replace(devices=OneDevice())
    model = model_of(run.config, PRECISIONS[run.options["precision"]])
    run.prepared.fill(model)
    return run.way.of_run(alone, model)


def time_updates(
    update: Any, batches: Iterable[Any], accumulate_steps: int, duration: float
) -> float:
    """Returns mean seconds of 2 to 30 updates without the first, which TensorFlow traces.

    The model must not be used afterwards, because the updates have changed it. Timing ends after
    `duration` seconds, once there are enough updates.
    """
    batches = itertools.cycle(batches)
    began, elapsed = 0.0, 0.0
    count = -1
    while True:
        count += 1
        values = update.step(*itertools.islice(batches, accumulate_steps))
        float(values["loss"][0])  # Waits for the update.
        if not count:
            began = time.monotonic()
        elapsed = time.monotonic() - began
        if count >= _ENOUGH or (count > 1 and elapsed >= duration):
            return elapsed / count
