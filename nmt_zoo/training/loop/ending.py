"""The end of a run: averages of its checkpoints, and the length penalty of its best weights."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import keras

from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays, restore
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.loop.budget import Budget
from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.stopping import StopRequest
from nmt_zoo.training.validation.averages import try_averages
from nmt_zoo.training.validation.best_weights import BestWeights
from nmt_zoo.training.validation.evaluation import Evaluation
from nmt_zoo.training.validation.length_penalty import PenaltyChoice


@dataclass
class Ending:
    """Completes a run that has reached one of its limits."""

    directory: ModelDirectory
    model: keras.Model  # With the weights of the last step.
    step: int  # The last step.
    best: BestWeights
    evaluator: Callable[[], Evaluation]
    devices: OneDevice  # Only the chief works here.
    limits: Limits
    budget: Budget
    penalty_choice: PenaltyChoice | None  # None: no length penalty is chosen.
    stop: StopRequest  # On which all processes agree.
    say: Callable[[str], None]  # Prints a line.
    best_average: Evaluation | None = None  # Of the averages so far.

    def average(self) -> None:
        """Keeps the best average of the last checkpoints as the best model if it is better."""
        if not self.devices.is_chief:
            return
        count = self.limits.keep_checkpoints
        if not self.best.are_judged:
            if count > 1:
                self.say("no averages of checkpoints: no score chooses the weights of this model")
            return
        steps = self.directory.checkpoint_steps(every=self.limits.save_every_steps)
        with self._last_weights_come_back():
            try_averages(steps[-count:], self._is_better)

    def _is_better(self, steps):
        """Validates the average of some checkpoints; as `is_better` of `try_averages`."""
        best = self.best_average
        if not self.budget.has_time_for_average(is_first=best is None):
            which = "further averages" if best else f"the average of {len(steps)} checkpoints"
            self.say(f"no time is left to validate {which}")
            return None
        steps, arrays = self.directory.average(steps)
        restore(model_arrays(self.model), arrays, "average")
        evaluation = self.devices.on_chief(self.evaluator)
        if evaluation is None:
            return None
        kept = self.best.offer(arrays, evaluation, self.step, averaged_steps=steps)
        verdict = "kept as the best" if kept else "not better than best.npz, not kept"
        which = ", ".join(f"{step:,}" for step in steps)
        self.say(f"average of {len(steps)} checkpoints ({which}): {evaluation}; {verdict}")
        better = evaluation.is_better(best and best.figures(), self.best.by)
        if better or not best:
            self.best_average = evaluation
        return better

    @contextlib.contextmanager
    def _last_weights_come_back(self):
        weights = model_arrays(self.model)
        last = {name: v.numpy() for name, v in weights.items()}
        yield
        restore(weights, last, "weights")

    def choose_length_penalty(self) -> None:
        """Chooses the length penalty with which the best weights translate by default."""
        if not (self.penalty_choice and self.devices.is_chief):
            return
        end = self.budget.end_of_penalty_choice()
        with self._last_weights_come_back():
            restore(model_arrays(self.model), self.directory.read_best()[0], "best weights")
            found = self.devices.on_chief(
                lambda: self.penalty_choice(is_late=lambda: time.monotonic() > end)
            )
        if self.stop:
            return
        if found is None:
            self.say("no time is left to choose the length penalty on validation text")
            return
        if found["length_penalty"] is None:
            self.say(f"length penalty stays {LENGTH_PENALTY:g}, because valid BLEU is 0 with each")
            return
        self.directory.write_search(found)
        bleu = ", ".join(f"{score:.2f} with {penalty:g}" for penalty, score in found["bleu"])
        self.say(
            f"length penalty {found['length_penalty']:g} from now on; valid BLEU of "
            f"{found['lines']} lines, beam {found['beam_size']}: {bleu}"
        )
