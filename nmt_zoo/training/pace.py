"""The pace of a new run: its warm-up, how often it validates and saves, and how long it takes.

The numbers of `configuration.recipes` suit long runs. A short run would end during its warm-up,
without a validation or checkpoint before its end. So a new run gets smaller numbers where its text
or its limits require them. They are chosen once and stored in config.json. A resumed run reads
them there, because times measured again could give other numbers.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from nmt_zoo.configuration.options import BY_NAME
from nmt_zoo.configuration.settled import CORPUS, FLAG, Settled
from nmt_zoo.training.ways.catalogue import WAYS

Options = Mapping[str, Any]
NAMES = ("warmup_steps", "eval_every_steps", "save_every_steps", "bleu_lines")

_SHARE = 0.75  # Share of the time left for updates; the rest: validation, saving and averaging.
_APART = 120.0  # Seconds between validations where time is the limit.
_LINES = 20  # Validation lines for BLEU, for each minute of such a run.
_LONG = 600.0  # Seconds of a run that is announced.
_MANY = 2000  # Updates that may take so long.
_PATIENT_EPOCHS = 20  # A guess, of runs that validation ends.


def undecided(options: Settled) -> list[str]:
    """Returns the names of the options that a new run chooses by its text and speed.

    These are the ones that no flag gives; none if the recipe of the corpus sets its own pace.
    """
    takes_batches = WAYS[options["update"]].takes_batches
    if not takes_batches or set(NAMES) & set(options.of(CORPUS)):
        return []
    given = options.of(FLAG)
    names = [name for name in NAMES if name not in given]
    # The fall of the rate follows from --max_steps, or else from the time.
    if options["max_minutes"] and not {"decay_steps", "max_steps"} & set(given):
        names += ["decay_steps"] * BY_NAME["decay_steps"].applies(options)
    return names


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
    limits = [
        (options[name] * updates, f"--{name}={options[name]}", None)
        for name, updates in (
            ("max_steps", 1),
            ("decay_steps", 1),
            ("max_epochs", updates_an_epoch),
        )
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
    two minutes apart, or there are two in all, and they translate fewer lines unless BLEU chooses
    the best weights. And validations are so far apart that `patience` cannot end a run before twice
    its warm-up. No number exceeds the recipe's, which `options` have; `names` are `undecided`.
    """
    expected, seconds = outlook.updates, outlook.seconds_an_update
    epoch = max(outlook.updates_an_epoch, 100)
    found = {name: options[name] for name in (*NAMES, "decay_steps")}
    if expected and "decay_steps" in names:
        # A rate that rises for a given number of updates is to fall, too.
        rising = 0 if "warmup_steps" in names else options["warmup_steps"]
        found["decay_steps"] = max(expected, 4 * rising)
    if expected and "warmup_steps" in names:
        share = 8 if seconds and "decay_steps" in names else 4
        found["warmup_steps"] = min(found["warmup_steps"], max(1, expected // share))
    patient = 2 * found["warmup_steps"] // options["patience"] if options["patience"] else 0
    validation, saving = max(epoch, patient), epoch
    if expected:
        apart = min(int(_APART / seconds), expected // 2) if seconds else 0
        validation = min(max(validation, apart), max(expected // 8, 50, apart))
        saving = min(saving, max(expected // 20, 10))
    found["eval_every_steps"] = min(found["eval_every_steps"], validation)
    found["save_every_steps"] = min(found["save_every_steps"], saving)
    if seconds and options["keep_best_by"] != "bleu":
        lines = max(100, int(_LINES * options["max_minutes"]))
        found["bleu_lines"] = min(found["bleu_lines"], lines)
    return {name: found[name] for name in names}


def report(chosen: dict[str, int], options: Options, outlook: Outlook) -> list[str]:
    """Returns a list of one line that gives the chosen numbers and the reason.

    The list is empty if all numbers are the recipe's, which `options` have.
    """
    changed = [
        f"--{name}={number}" + (f" instead of {options[name]}" if options[name] else "")
        for name, number in chosen.items()
        if number != options[name]
    ]
    if not changed:
        return []
    limit = outlook.limit
    if outlook.updates:
        limit = f"about {outlook.updates:,} updates at most ({limit})"
    epoch = f"{outlook.updates_an_epoch:,} updates an epoch"
    return [f"pace: {limit}, {epoch}; so {', '.join(changed)}"]


def may_be_long(options: Options, updates_an_epoch: int) -> bool:
    """Returns whether a run without --max_minutes may be so long that it should be timed first."""
    updates = outlook(options, updates_an_epoch).updates or _PATIENT_EPOCHS * updates_an_epoch
    return not options["max_minutes"] and updates >= _MANY


def announcement(outlook: Outlook, seconds_an_update: float) -> list[str]:
    """Returns a list of one line about the time of a run without --max_minutes; empty if short."""
    updates, shorter = outlook.updates, "--max_minutes=30 ends sooner, with what suits that time"
    each = f"{seconds_an_update:.2g} s an update"
    if not updates:
        epoch = _words(outlook.updates_an_epoch * seconds_an_update)
        return [
            f"time: {each}, {epoch} an epoch on this machine, until validation no longer improves; "
            + shorter
        ]
    if updates * seconds_an_update < _LONG:
        return []
    whole = _words(updates * seconds_an_update)
    return [f"time: about {whole} on this machine, {updates:,} updates at {each}; {shorter}"]


def _words(seconds):
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"
