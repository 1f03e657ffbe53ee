"""The pace of a new run: its warm-up, how often it validates and saves, and its precision.

The numbers of `configuration.recipes` suit long runs. A short run would end during its warm-up,
without a validation or checkpoint before its end. So a new run gets smaller numbers where its text
or its limits require them; where time is the limit, it is known how long updates take, because some
are tried. They are chosen once and stored in config.json. A resumed run reads them there, because
times measured again could give other numbers.
"""

import itertools
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.common import process
from nmt_zoo.configuration.options import AUTO, BY_NAME
from nmt_zoo.configuration.resolver import CORPUS, FLAG, TIMING, Settled
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.decoding.scores import bleu_tokenizer
from nmt_zoo.model_directory.directory import model_of
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.ways.catalogue import WAYS
from nmt_zoo.training.ways.gradient.precision import PRECISIONS

Options = Mapping[str, Any]
NAMES = ("warmup_steps", "eval_every_steps", "save_every_steps", "bleu_lines")

_SHARE = 0.8  # Share of the time left for updates; the rest: validation, saving and choices.
# Where time is the limit: validations, but at least so many seconds between them; and the lines
# for BLEU of each, for each minute of the run.
_VALIDATIONS, _APART, _LINES = 8, 120.0, 10
_MOST_SECONDS = 10.0  # To spend on timing updates.
_EXCHANGE = 1.1  # Devices that share a processor also exchange gradients, which is not timed.
_ENOUGH = 30  # Updates whose mean time is exact enough, however short they are.
# Least gain in speed for which --precision=auto takes bfloat16. The speed of a few updates is known
# to several percent only, and a smaller gain is not worth the coarser numbers.
_LEAST_GAIN = 1.15


def undecided(options: Settled) -> list[str]:
    """Returns the names of the options that a new run chooses by its text and speed.

    These are the ones that no flag gives; none if the recipe of the corpus sets its own pace, and
    time does not limit the run.
    """
    has_pace = set(NAMES) & set(options.of(CORPUS)) and not options["max_minutes"]
    if has_pace or not WAYS[options["update"]].takes_batches:
        return []
    flags = options.of(FLAG)
    names = [name for name in NAMES if name not in flags]
    # The fall of the rate follows from --max_steps, or else from the time.
    if options["max_minutes"] and not {"decay_steps", "max_steps"} & set(flags):
        names += ["decay_steps"] * BY_NAME["decay_steps"].applies(options)
    return names


def decide(run: Any) -> Any:
    """Returns a new `setup.Run` with the options that need its text and its speed to be chosen."""
    names, seconds = undecided(run.options), None
    if run.options["tokenize"] == AUTO:
        tokenize, reason = bleu_tokenizer([run.tokenizer.target_words(run.text.valid[1])])
        run = run.with_options(TIMING, tokenize=tokenize)
        if reason and run.options["bleu_lines"]:
            print(f"validation {reason}", flush=True)
    limit = 60 * run.options["max_minutes"]
    duration = min(_MOST_SECONDS, limit / 50) if limit else _MOST_SECONDS
    if run.options["precision"] == AUTO:
        precision, seconds = choose_precision(run, duration / 2)
        run = run.with_options(TIMING, precision=precision)
    if not names:
        return run
    if limit and not (seconds or why_untimed(run)):
        seconds = seconds_an_update(run, duration)
    left = max(limit - (time.monotonic() - process.BEGAN), 0.0)
    updates_an_epoch = run.epochs.num_updates(run.options["accumulate_steps"])
    expected = outlook(run.options, updates_an_epoch, left, seconds if limit else None)
    chosen = choose(run.options, names, expected)
    if line := report(chosen, run.options, expected):
        print(line, flush=True)
    if "decay_steps" in chosen:
        run.way.check(run.config["model"], {**run.options, **chosen}, {})
        chosen["max_steps"] = chosen["decay_steps"]  # Further updates would change nothing.
    return run.with_options(TIMING, **chosen)


class Outlook(NamedTuple):
    """The expected length of a run."""

    updates_an_epoch: int
    updates: int | None = None  # most updates that the run can make; None without a limit
    limit: str = "no limit of steps, epochs or measured time"  # in words
    seconds_an_update: float | None = None  # if time is the limit, else None


def outlook(
    options: Options,
    updates_an_epoch: int,
    seconds_left: float = 0.0,
    seconds_an_update: float | None = None,
) -> Outlook:
    """Makes the `Outlook` of a run by its training options.

    `seconds_left` are left of --max_minutes. `seconds_an_update` is None if not measured.
    """
    multiples = {"max_steps": 1, "decay_steps": 1, "max_epochs": updates_an_epoch}
    limits = [
        (options[name] * updates, f"--{name}={options[name]}", None)
        for name, updates in multiples.items()
        if options[name]
    ]
    if seconds_an_update:
        words = f"--max_minutes={options['max_minutes']:g} at {seconds_an_update:.3g} s an update"
        updates = max(1, int(_SHARE * seconds_left / seconds_an_update))
        limits.append((updates, words, seconds_an_update))
    if not limits:
        return Outlook(updates_an_epoch)
    return Outlook(updates_an_epoch, *min(limits, key=lambda limit: limit[0]))


def choose(options: Options, names: Collection[str], outlook: Outlook) -> dict[str, int]:
    """Chooses the pace of a new run; returns name -> number, of all `names`.

    Warm-up takes a quarter of the expected updates, or an eighth if the rate falls to 0 with the
    last of them because time is the limit. There are about eight validations, at least 50
    updates apart, and about twenty checkpoints, at least 10 updates apart, so that the checkpoints
    averaged in the end come from the last quarter. An epoch of 100 updates or more has at least one
    validation and one checkpoint. There are two exceptions. If time is the limit, validations are
    at least two minutes apart, or there are two in all, and they translate fewer lines unless BLEU
    chooses the best weights. And validations are so far apart that `patience` cannot end a run
    before twice its warm-up. No number exceeds the recipe's, which `options` have; `names` are
    `undecided`.
    """
    expected, seconds = outlook.updates, outlook.seconds_an_update
    epoch = max(outlook.updates_an_epoch, 100)
    numbers = {name: options[name] for name in (*NAMES, "decay_steps")}
    if expected and "decay_steps" in names:
        # A rate that rises for a given number of updates is to fall, too.
        rising = 0 if "warmup_steps" in names else options["warmup_steps"]
        numbers["decay_steps"] = max(expected, 4 * rising)
    if expected and "warmup_steps" in names:
        share = 8 if seconds and "decay_steps" in names else 4
        numbers["warmup_steps"] = min(numbers["warmup_steps"], max(1, expected // share))
    patient = 2 * numbers["warmup_steps"] // options["patience"] if options["patience"] else 0
    validation, saving = max(epoch, patient), epoch
    if expected:
        apart = 0
        if seconds:
            apart = min(max(int(_APART / seconds), expected // _VALIDATIONS), expected // 2)
        validation = min(max(validation, apart), max(expected // 8, 50, apart))
        saving = min(saving, max(expected // 20, 10))
    numbers["eval_every_steps"] = min(numbers["eval_every_steps"], validation)
    numbers["save_every_steps"] = min(numbers["save_every_steps"], saving)
    if seconds and options["keep_best_by"] != "bleu":
        lines = max(100, int(_LINES * options["max_minutes"]))
        numbers["bleu_lines"] = min(numbers["bleu_lines"], lines)
    return {name: numbers[name] for name in names}


def report(chosen: dict[str, int], options: Options, outlook: Outlook) -> str:
    """Returns a line with the chosen numbers that are not those of `options`, and the reason."""
    changed = [
        f"--{name}={number}" + (f" instead of {options[name]}" if options[name] else "")
        for name, number in chosen.items()
        if number != options[name]
    ]
    if not changed:
        return ""
    limit = outlook.limit
    if outlook.updates:
        limit = f"about {outlook.updates:,} updates at most ({limit})"
    epoch = f"{outlook.updates_an_epoch:,} updates an epoch"
    return f"pace: {limit}, {epoch}; so {', '.join(changed)}"


def choose_precision(run: Any, duration: float) -> tuple[str, float | None]:
    """Chooses and prints the precision of a new run that leaves the choice to this function.

    Each precision is timed for `duration` seconds. Returns (precision, seconds of an update with
    it; None if updates are not timed).
    """
    if reason := why_untimed(run):
        print(f"precision: float32, because {reason}", flush=True)
        return "float32", None
    seconds = {
        name: seconds_an_update(run.with_options(TIMING, precision=name), duration)
        for name in ("float32", "bfloat16")
    }
    plain, half = seconds["float32"], seconds["bfloat16"]
    precision = "bfloat16" if plain / half >= _LEAST_GAIN else "float32"
    print(
        f"precision: {precision}; bfloat16 is {plain / half:.2f} times as fast as float32 here "
        f"({half:.3g} s per update instead of {plain:.3g} s)",
        flush=True,
    )
    return precision, seconds[precision]


def why_untimed(run: Any) -> str:
    """Returns the reason why updates of a run cannot be timed before it, or an empty text."""
    if not run.way.takes_batches:
        return f"--update={run.options['update']} trains without gradients"
    if isinstance(run.devices.strategy, tf.distribute.TPUStrategy):
        return "updates on a TPU are not timed"  # The host's processor would make them.
    return ""


def seconds_an_update(run: Any, duration: float) -> float:
    """Returns mean seconds of an update of a fresh model; as `time_updates`.

    Each of several devices has a batch. GPUs take about as long as one; devices that share a
    processor are timed at once. XLA would compile for each new shape first, so it is left out.
    """
    with process.temporary_graphs():  # Two models at once may be too much for an accelerator.
        # The fall of the rate is chosen next, and the rate does not change the time.
        way = on_trial(run.with_options(TIMING, schedule="constant", jit_compile=False))
        batches = dataset_of(run.epochs.corpus_of(0), run.epochs.first)
        at_once = 1 if tf.config.list_physical_devices("GPU") else run.devices.num_local
        seconds = time_updates(way, batches, run.options["accumulate_steps"], duration, at_once)
        return seconds * (_EXCHANGE if at_once > 1 else 1.0)


def on_trial(run: Any) -> Any:
    """Returns the training of a fresh model on one device, for measurements before a run."""
    alone = run._replace(devices=OneDevice())
    model = model_of(run.config, PRECISIONS[run.options["precision"]])
    run.prepared.fill(model)
    return run.way.of_run(alone, model)


def time_updates(
    way: Any, batches: Iterable[Any], accumulate_steps: int, duration: float, at_once: int = 1
) -> float:
    """Returns mean seconds of 2 to 30 updates without the first, which TensorFlow traces.

    So many updates as `at_once` says are made at the same time. The model must not be used
    afterwards, because the updates have changed it. Timing ends after `duration` seconds, once
    there are enough updates.
    """
    batches, began, count = itertools.cycle(batches), 0.0, 0

    def update(batches: list[Any]) -> None:
        float(way.step(*batches)["loss"][0])  # Waits for the update.

    with ThreadPoolExecutor(at_once) as pool:
        while count < 2 or (count < _ENOUGH and time.monotonic() - began < duration):
            taken = [list(itertools.islice(batches, accumulate_steps)) for _ in range(at_once)]
            list(pool.map(update, taken if began else taken[:1]))
            began, count = (began, count + 1) if began else (time.monotonic(), 0)
    return (time.monotonic() - began) / count
