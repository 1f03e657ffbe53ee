"""The time of a run: what is left of --max_minutes, and what its end takes."""

import time
from typing import Any

from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.validation.averages import most_tries

_SHARE = 0.05  # Of the time, for averages, and for the choice of the length penalty.
_LEAST_SECONDS = 20.0  # For the choice of the length penalty, if the run has no time limit.


class Budget:
    """Compares the time of a run with its limit; all times are in seconds.

    Args:
        state: the `state` of the `training.loop.trainer.Trainer`, which is read as it changes.
        began: `time.monotonic()` from which this process counts; None: from the call of `start`.
        chooses_penalty: whether the run ends with the choice of a length penalty.

    Attributes:
        validation: duration of the last validation; None before the first one of this process.
        save: duration of the last save.
        late: whether the time limit has been reached.
    """

    def __init__(
        self,
        limits: Limits,
        state: dict[str, Any],
        began: float | None = None,
        chooses_penalty: bool = False,
    ):
        self.validation: float | None = None
        self.save = 0.0
        self.late = False
        self._limits = limits
        self._state = state
        self._began = began
        self._chooses_penalty = chooses_penalty
        self._limit = limits.max_minutes * 60

    def start(self):
        """Starts to count, after all that earlier processes have used."""
        now = time.monotonic()
        self._start = (self._began or now) - self._state["seconds"]
        self._state["seconds"] = now - self._start

    def seconds(self) -> float:
        """Returns the time that all processes of the run have used."""
        return time.monotonic() - self._start

    def is_late(self) -> bool:
        """Returns whether the run has to end, so that its end is within the limit, too."""
        late = self._limits.is_late(self._state["seconds"], self.closing())
        self.late = self.late or late
        return late

    def closing(self) -> float:
        """Estimates the time from the last update to the end of the run.

        Averages get a twentieth of the time, or as much as a single one takes, and the choice of
        the length penalty another twentieth.
        """
        share = self._limit * _SHARE
        if self.validation is None:  # Only an earlier process has measured anything.
            return self._state.get("closing_seconds", min(2 * share, 120.0))
        closing = self.save + (share if self._chooses_penalty else 0.0)
        if self._state["evaluated_step"] != self._state["step"]:
            closing += self.validation
        tries = most_tries(self._limits.keep_checkpoints)
        if tries:
            # An average reads checkpoints, which takes about as long as writing them.
            an_average = self.validation + self._limits.keep_checkpoints * self.save
            closing += min(tries * an_average, max(an_average, share))
        return closing

    def closing_to_save(self) -> float:
        """Returns `closing` for a process that resumes; a run that has ended does not go on."""
        left = self._limit - self._state["seconds"]
        return max(self.closing(), left) if self.late else self.closing()

    def has_time_for_average(self, is_first: bool) -> bool:
        """Returns whether an average can be validated; the first may take a tenth more."""
        used = self.seconds() - (0.1 * self._limit if is_first else 0.0)
        return not self._limits.is_late(used, self.validation or 0.0)

    def end_of_penalty_choice(self) -> float:
        """Returns the `time.monotonic()` at which the choice of the length penalty ends."""
        if self._limit:
            return self._start + self._limit
        return time.monotonic() + max(self.seconds() * _SHARE, _LEAST_SECONDS)
