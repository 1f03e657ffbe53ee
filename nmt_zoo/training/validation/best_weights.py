"""The best weights of a run."""

from dataclasses import dataclass
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays
from nmt_zoo.training.validation.evaluation import Evaluation
from nmt_zoo.training.ways.base import WayOfTraining

ADVICE = (
    "try a lower --learning_rate or more --warmup_steps (--update=em: a larger --alpha) in a new "
    "--model_dir"
)


@dataclass(eq=False)
class BestWeights:
    """Keeps the weights with the best validation score, "perplexity" or "bleu", in best.npz.

    The score is read from best.npz itself. Its weights may be an average of checkpoints, or newer
    than any checkpoint, if the run was killed between a validation and the next save.
    """

    directory: ModelDirectory
    way: WayOfTraining
    by: str  # The score.
    # Scores of the weights in best.npz, as `Evaluation.figures`; None: there are none.
    figures: dict[str, Any] | None = None

    def __post_init__(self):
        # Whether the score decides. Otherwise the last weights are the best.
        self.are_judged = self.by == "bleu" or self.way.judged_by_perplexity

    def find(self) -> bool:
        """Reads the scores of an earlier process; returns whether there is a best.npz."""
        self.figures = self.directory.best_state()
        return self.figures is not None

    def offer(self, arrays: dict[str, Any], evaluation: Evaluation, step: int, **more: Any) -> bool:
        """Writes weights (name -> array or variable) to best.npz if they are better.

        Returns whether they are better. `more` are entries of the file's state besides `evaluation`
        and `step`, the number of the last update.
        """
        better = evaluation.is_better(self.figures if self.are_judged else None, self.by)
        if better:
            for directory, model in self.way.companions().items():
                directory.write_best(model_arrays(model), {"step": step})
            self.directory.write_best(arrays, {"step": step, **evaluation.figures(), **more})
            self.figures = evaluation.figures()
        return better

    def complete(self, step: int) -> None:
        """Completes the directories at the end of a run, after `step` updates.

        Companion models whose file of best weights is missing get their last weights.

        Raises:
            UserError: no validation was finite, so there are no best weights.
        """
        if self.figures is None:
            raise UserError(
                f"{self.directory.path}: no validation was finite up to step {step:,}, so there is "
                f"no model to keep; {ADVICE}"
            )
        for directory, model in self.way.companions().items():
            if directory.best_state() is None:
                directory.write_best(model_arrays(model), {"step": step})
