"""When a run of training stops, and how often it looks."""

from typing import NamedTuple


class Limits(NamedTuple):
    """When to stop and how often to look; 0 means no limit.

    Attributes:
        max_steps: updates.
        max_epochs: passes over the training pairs.
        max_minutes: minutes of all runs of the command together, each from its start to its end.
        patience: validations without a better one.
        eval_every_steps: updates between validations.
        save_every_steps: updates between checkpoints.
        log_every_steps: updates between records in metrics.jsonl.
        keep_checkpoints: how many checkpoints are kept, and averaged in the end.
        max_bad_steps: steps in a row without a finite loss and gradient.
    """

    max_steps: int
    max_epochs: int
    max_minutes: float
    patience: int
    eval_every_steps: int
    save_every_steps: int
    log_every_steps: int
    keep_checkpoints: int
    max_bad_steps: int = 10

    def is_late(self, seconds, closing_seconds=0.0):
        """Whether the time is over.

        Args:
            seconds: that the run has taken.
            closing_seconds: that its end will take.
        """
        return 0 < self.max_minutes * 60 <= seconds + closing_seconds

    def reached(self, state, criterion="perplexity", is_late=False):
        """The first limit that a run has come to, in words, or None.

        Args:
            state: name -> value, as `training.loop.Trainer` has it.
            criterion: what says which validation is better.
            is_late: whether the time is over.
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
