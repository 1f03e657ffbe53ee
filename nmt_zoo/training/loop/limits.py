"""The limits of a training run, and how often it validates, saves and logs."""

from typing import Any, NamedTuple


class Limits(NamedTuple):
    """Limits that end a run (0: no limit), and intervals between validations, saves and records."""

    max_steps: int  # most updates
    max_epochs: int  # most passes over the training pairs
    max_minutes: float  # most minutes of all runs of the command together, each from start to end
    patience: int  # validations in a row without a better score, after which the run ends
    eval_every_steps: int  # updates between validations
    save_every_steps: int  # updates between checkpoints
    log_every_steps: int  # updates between records in metrics.jsonl
    keep_checkpoints: int  # how many checkpoints are kept, and averaged in the end
    max_bad_steps: int = 10  # steps in a row without finite loss and gradient: then, an error

    def is_late(self, seconds: float, closing_seconds: float = 0.0) -> bool:
        """Returns whether the time limit is reached, `seconds` after the run began.

        The last validation and save will take `closing_seconds`.
        """
        return 0 < self.max_minutes * 60 <= seconds + closing_seconds

    def reached(
        self, state: dict[str, Any], criterion: str = "perplexity", is_late: bool = False
    ) -> str | None:
        """Returns the first limit that a run has reached, in words, or None.

        `state` is the `state` of a `training.loop.trainer.Trainer`; `criterion` is the score by
        which validations are compared.
        """
        reasons = {
            f"{self.max_steps:,} steps": 0 < self.max_steps <= state["step"],
            f"{self.max_epochs} epochs": 0 < self.max_epochs <= state["epoch"],
            f"{self.max_minutes:g} minutes": is_late,
            f"no better {criterion} in {self.patience} validations": 0
            < self.patience
            <= state["evaluations_since_best"],
        }
        return next((reason for reason, reached in reasons.items() if reached), None)
