"""The end of a run: averages of its checkpoints, and choices for the use of its best weights."""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from nmt_zoo.model_directory.directory import model_arrays, restore


class Ending:
    """Completes the run of a `Trainer` that has reached one of its limits.

    Only the chief works here.
    """

    def __init__(self, trainer: Any):
        self.trainer = trainer
        self.best, self.limits = trainer.best, trainer.limits
        self.directory, self.devices = trainer.directory, trainer.devices
        self.model = trainer.way.model  # With the weights of the last step.
        self.say = trainer.progress.say
        self.best_average = None  # `Evaluation` of the best average so far.

    def average(self) -> None:
        """Keeps the best average of the last checkpoints as the best model if it is better."""
        if not self.devices.is_chief:
            return
        options = self.trainer.options
        count = options["average_checkpoints"]
        if not self.best.are_judged:
            if count > 1:
                self.say("no averages of checkpoints: no score chooses the weights of this model")
            return
        steps = self.directory.checkpoint_steps(every=options["save_every_steps"])
        with self._last_weights_come_back():
            try_averages(steps[-count:], self._is_better)

    def _is_better(self, steps):
        """Validates the average of some checkpoints; as `is_better` of `try_averages`."""
        best = self.best_average
        if not self.limits.has_time_for_average(is_first=best is None):
            which = "further averages" if best else f"the average of {len(steps)} checkpoints"
            self.say(f"no time is left to validate {which}")
            return None
        steps, arrays = self.directory.average(steps)
        restore(model_arrays(self.model), arrays, "average")
        evaluation = self.devices.on_chief(self.trainer.evaluator)
        if evaluation is None:
            return None
        last_step = self.trainer.state["step"]
        is_kept = self.best.offer(arrays, evaluation, last_step, averaged_steps=steps)
        verdict = "kept as the best" if is_kept else "not better than best.npz, not kept"
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

    def choose(self) -> None:
        """Chooses how the best weights translate and align by default."""
        choices = self.trainer.choices
        if not (choices and self.devices.is_chief):
            return
        chosen = self.directory.chosen()  # At an earlier end of the run, for the same weights.
        with self._last_weights_come_back():
            restore(model_arrays(self.model), self.directory.read_best()[0], "best weights")
            for name, choice in choices.items():
                is_late = self.limits.until_choices_end()
                made = self.devices.on_chief(functools.partial(choice, is_late))
                if self.trainer.stop:
                    return
                line, entries = made or (f"no time is left to choose {name} on validation text", {})
                self.say(line)
                if entries:
                    chosen |= entries
                    self.directory.write_search(chosen)


def most_tries(count: int) -> int:
    """Returns how many averages of `count` checkpoints `try_averages` tries at most."""
    return int(math.log2(count)) + count if count > 2 else count - 1


def try_averages(steps: Sequence[int], is_better: Callable[[tuple[int, ...]], bool | None]) -> None:
    """Tries averages of checkpoints (`steps` ascend), the most promising ones first.

    First the average of all checkpoints, and of the last half, quarter and so on of them. Then a
    greedy soup, in the manner of Wortsman et al. 2022, that starts from the best of these: each
    checkpoint in turn joins it, or leaves it, if that makes the average better.

    `is_better` takes the steps of an average; returns whether it is better than all that were tried
    before it, or None to end the search.
    """
    steps, best, tried = tuple(steps), (), set()

    def ends_with(chosen):
        nonlocal best
        tried.add(chosen)
        better = is_better(chosen)
        if better:
            best = chosen
        return better is None

    size = len(steps)
    while size > 1:
        if ends_with(steps[-size:]):
            return
        size //= 2
    for step in steps:
        changed = tuple(other for other in steps if (other in best) != (other == step))
        if len(changed) > 1 and changed not in tried and ends_with(changed):
            return
