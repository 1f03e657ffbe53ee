"""The limits of a run: steps, epochs, patience, and the time that is left of --max_minutes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt_zoo.training.loop.ending import most_tries

_SHARE = 0.05  # Of the time, for averages, and for the choices of head and length penalty.
_LEAST_SECONDS = 20.0  # For the choice of the length penalty, if the run has no time limit.


@dataclass(eq=False)
class Limits:
    """Compares a run with its limits; all times are in seconds, and 0 is no limit."""

    options: Mapping[str, Any]  # Of training.
    state: dict[str, Any]  # Of the `Trainer`; it is read as it changes.
    # `time.monotonic()` from which this process counts; None: from the call of `start`.
    began: float | None = None
    chooses: bool = False  # Whether the run ends with choices of a head or a length penalty.
    validation: float | None = None  # Duration of the last validation of this process.
    save: float = 0.0  # Duration of the last save.
    step: float = 0.0  # Duration of the last step, if a step takes the whole text.
    late: bool = False  # Whether the time limit has been reached.

    @property
    def _most_seconds(self):
        return self.options["max_minutes"] * 60

    def start(self) -> None:
        """Starts to count, after all that earlier processes have used."""
        now = time.monotonic()
        self._start = (self.began or now) - self.state["seconds"]
        self.state["seconds"] = now - self._start

    def seconds(self) -> float:
        """Returns the time that all processes of the run have used."""
        return time.monotonic() - self._start

    def is_late(self) -> bool:
        """Returns whether the run has to end: another long step and the end would be too late."""
        late = self._would_be_late(self.state["seconds"] + self.step + self.closing())
        self.late = self.late or late
        return late

    def _would_be_late(self, seconds):
        return 0 < self._most_seconds <= seconds

    def closing(self) -> float:
        """Estimates the time from the last update to the end of the run.

        Averages get a twentieth of the time, or as much as a single one takes, and the choices of
        the attention head and the length penalty another twentieth.
        """
        share = self._most_seconds * _SHARE
        if self.validation is None:  # Only an earlier process has measured anything.
            return self.state.get("closing_seconds", min(2 * share, 120.0))
        closing = self.save + (share if self.chooses else 0.0)
        if self.state["evaluated_step"] != self.state["step"]:
            closing += self.validation
        count = self.options["average_checkpoints"]
        if tries := most_tries(count):
            # An average reads checkpoints, which takes about as long as writing them.
            an_average = self.validation + count * self.save
            closing += min(tries * an_average, max(an_average, share))
        return closing

    def closing_to_save(self) -> float:
        """Returns `closing` for a checkpoint: all that is left, if the time limit was reached."""
        left = self._most_seconds - self.state["seconds"]
        return max(self.closing(), left) if self.late else self.closing()

    def has_time_for_average(self, is_first: bool) -> bool:
        """Returns whether an average can be validated; the first may take a tenth more."""
        used = self.seconds() - (0.1 * self._most_seconds if is_first else 0.0)
        return not self._would_be_late(used + (self.validation or 0.0))

    def until_choices_end(self) -> Callable[[], bool]:
        """Returns a function: whether the time of a choice that begins now is over."""
        end = time.monotonic() + max(self.seconds() * _SHARE, _LEAST_SECONDS)
        if self._most_seconds:
            end = self._start + self._most_seconds
        return lambda: time.monotonic() > end

    def reached(self, is_late: bool = False) -> str | None:
        """Returns the first limit that the run has reached, in words, or None.

        `is_late` is whether all processes of the run agree that its time is over.
        """
        steps, epochs, minutes, patience, criterion = (
            self.options[name]
            for name in ("max_steps", "max_epochs", "max_minutes", "patience", "keep_best_by")
        )
        reasons = {
            f"--max_steps={steps}": 0 < steps <= self.state["step"],
            f"--max_epochs={epochs}": 0 < epochs <= self.state["epoch"],
            f"--max_minutes={minutes:g}": is_late,
            f"no better {criterion} in {patience} validations": 0
            < patience
            <= self.state["evaluations_since_best"],
        }
        return next((reason for reason, is_reached in reasons.items() if is_reached), None)
