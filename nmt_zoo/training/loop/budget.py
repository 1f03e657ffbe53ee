"""The time of a run: what is left of --max_minutes, and what its end takes."""

import time
from dataclasses import dataclass
from typing import Any

from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.validation.averages import most_tries

_SHARE = 0.05  # Of the time, for averages, and for the choice of the length penalty.
_LEAST_SECONDS = 20.0  # For the choice of the length penalty, if the run has no time limit.


@dataclass(eq=False)
class Budget:
    """Compares the time of a run with its limit; all times are in seconds."""

    limits: Limits
    state: dict[str, Any]  # Of the `Trainer`; it is read as it changes.
    # `time.monotonic()` from which this process counts; None: from the call of `start`.
    began: float | None = None
    chooses_penalty: bool = False  # Whether the run ends with the choice of a length penalty.
    validation: float | None = None  # Duration of the last validation of this process.
    save: float = 0.0  # Duration of the last save.
    late: bool = False  # Whether the time limit has been reached.

    @property
    def _limit(self):
        return self.limits.max_minutes * 60

    def start(self) -> None:
        """Starts to count, after all that earlier processes have used."""
        now = time.monotonic()
        self._start = (self.began or now) - self.state["seconds"]
        self.state["seconds"] = now - self._start

    def seconds(self) -> float:
        """Returns the time that all processes of the run have used."""
        return time.monotonic() - self._start

    def is_late(self) -> bool:
        """Returns whether the run has to end, so that its end is within the limit, too."""
        late = self.limits.is_late(self.state["seconds"], self.closing())
        self.late = self.late or late
        return late

    def closing(self) -> float:
        """Estimates the time from the last update to the end of the run.

        Averages get a twentieth of the time, or as much as a single one takes, and the choice of
        the length penalty another twentieth.
        """
        share = self._limit * _SHARE
        if self.validation is None:  # Only an earlier process has measured anything.
            return self.state.get("closing_seconds", min(2 * share, 120.0))
        closing = self.save + (share if self.chooses_penalty else 0.0)
        if self.state["evaluated_step"] != self.state["step"]:
            closing += self.validation
        tries = most_tries(self.limits.keep_checkpoints)
        if tries:
            # An average reads checkpoints, which takes about as long as writing them.
            an_average = self.validation + self.limits.keep_checkpoints * self.save
            closing += min(tries * an_average, max(an_average, share))
        return closing

    def closing_to_save(self) -> float:
        """Returns `closing` for a checkpoint: all that is left, if the time limit was reached."""
        left = self._limit - self.state["seconds"]
        return max(self.closing(), left) if self.late else self.closing()

    def has_time_for_average(self, is_first: bool) -> bool:
        """Returns whether an average can be validated; the first may take a tenth more."""
        used = self.seconds() - (0.1 * self._limit if is_first else 0.0)
        return not self.limits.is_late(used, self.validation or 0.0)

    def end_of_penalty_choice(self) -> float:
        """Returns the `time.monotonic()` at which the choice of the length penalty ends."""
        if self._limit:
            return self._start + self._limit
        return time.monotonic() + max(self.seconds() * _SHARE, _LEAST_SECONDS)
