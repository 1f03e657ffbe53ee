"""The training loop of every model."""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.loop.ending import Ending
from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.loop.log import Log
from nmt_zoo.training.stopping import stop_on_signals
from nmt_zoo.training.validation.best_weights import ADVICE, BestWeights
from nmt_zoo.training.validation.evaluation import CRITERIA, Evaluation, is_above_zero
from nmt_zoo.training.ways.base import WayOfTraining

MAX_BAD_STEPS = 10  # Steps in a row without finite loss and gradient: then, an error.
SAVE_SECONDS = 300.0  # Most seconds between checkpoints, and so of work that a kill loses.


@dataclass(eq=False)
class Trainer:
    """Trains a model until a limit is reached; can be stopped and resumed at any step."""

    directory: ModelDirectory  # Started.
    way: WayOfTraining
    epochs: Epochs  # Of the text to train on.
    evaluator: Callable[[], Evaluation]
    options: Mapping[str, Any]  # Of training.
    _: KW_ONLY
    began: float | None = None  # As in `Limits`.
    devices: OneDevice = field(default_factory=OneDevice)
    # Name -> function that chooses it at the end of the run, as of `penalty_choice`.
    choices: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def __post_init__(self):
        self.best = BestWeights(self.directory, self.way, self.options["keep_best_by"])
        self.variables = self.way.variables()
        self.last_step = None  # The last step, until it is counted: (number, batches, values).
        self.saved = None  # Of the newest checkpoint: (step, step of the last validation).
        self.saved_at = None  # `time.monotonic()` of the newest checkpoint.
        self.again_at = None  # Step whose validation is repeated, because best.npz was lost.
        # Everything besides the variables that a run needs to resume.
        self.state = {
            "step": 0,
            "epoch": 0,
            "batch": 0,
            "seconds": 0.0,
            **{f"best_{name}": None for name in CRITERIA},  # Of one validation; to count patience.
            "evaluations_since_best": 0,
            "evaluated_step": 0,
            "skipped_steps": 0,
            "skipped_in_a_row": 0,
            "planned_replicas": 1,
        }
        self.limits = Limits(self.options, self.state, self.began, chooses=bool(self.choices))
        self.log = Log(self.directory, self.way, self.options, self.state)

    def run(self) -> int:
        """Trains; resumes the run in the directory if there is a checkpoint.

        Returns the number of the signal that stopped the run, or 0 if it reached its end.

        Raises:
            UserError: loss, weights or all validations are not finite, time is over before the
                first step, the directory cannot be written, or another process is writing it.
        """
        self.directory.lock.acquire()
        try:
            with stop_on_signals() as request, self.devices.errors():
                self.stop = self.devices.begin(request, self.limits.is_late)
                result = self._run()
                self.devices.end()
                return result
        finally:
            self.directory.lock.release()

    def _run(self):
        self.devices.resume(self._resume, lambda: self.state["step"])
        self.log.start()
        self.saved_at = time.monotonic()
        total, done = self._most_steps(), self.state["step"]
        with Progress("training", total, "steps", initial=done) as self.progress:
            # A signal may have stopped the run before its validation, or best.npz may be lost.
            if done and (done == self.again_at or done % self.options["eval_every_steps"] == 0):
                self._evaluate()
            while not (self.stop or self._finished()):
                self._epoch()
            if not (self.stop or self.state["step"]):
                raise UserError(
                    f"--max_minutes={self.options['max_minutes']:g}: starting took "
                    f"{self.state['seconds'] / 60:.1f} minutes, which left no time for an update; "
                    "give more, and a new --model_dir, as this one holds the pace of a short run"
                )
            self._end()
        self.log.close()
        return self.stop.signal_number

    def _end(self):
        """Completes the run if it has reached its end; saves in any case."""
        if not self.stop:
            self.progress.say(f"finished: {self.reason}")
            self._evaluate()
        self._save()
        if not self.stop:
            ending = Ending(self)
            ending.average()
            self.best.complete(self.state["step"])
            ending.choose()
        if self.stop:
            self.progress.say(f"stopped and saved at step {self.state['step']:,}")

    def _most_steps(self):
        """Returns the largest number of steps that the limits allow, or None without a limit."""
        most = [self.options["max_steps"]] if self.options["max_steps"] else []
        if self.options["max_epochs"]:
            by_batches = self.way.takes_batches
            batches = self.options["accumulate_steps"]
            an_epoch = self.epochs.num_updates(batches) if by_batches else 1
            most.append(self.options["max_epochs"] * an_epoch)
        return min(most, default=None)

    def _resume(self):
        restored = self.directory.restore_newest(self.variables)
        if restored:
            self.log.restore(restored.pop("sums", {}))
            self.state.update(restored)
            self.saved = self._position()
            print(f"resumed at step {self.state['step']:,}", flush=True)
        lost = not self.best.find() and self._best_figures() is not None
        if lost and self.state["evaluated_step"] == self.state["step"]:
            # best.npz is gone: these weights are validated again and become the best.
            self.state["evaluated_step"] -= 1
            self.again_at = self.state["step"]
        self.directory.rewind_metrics(self.state["step"], self.state["evaluated_step"])
        self.limits.start()

    def _position(self):
        return self.state["step"], self.state["evaluated_step"]

    def _finished(self):
        self.reason = self.limits.reached(self.devices.is_late())
        return self.reason is not None

    def _batches(self, first):
        """Returns the batches of the epoch, from number `first` on.

        An epoch begun with another number of replicas is finished with the batches planned for
        that number.
        """
        if not first:
            self.state["planned_replicas"] = self.devices.num_replicas
        corpus, plan = self.epochs.begin(self.state["epoch"], self.state["planned_replicas"])
        return self.devices.batches(corpus, plan, first)

    def _epoch(self):
        state, options = self.state, self.options
        left = iter(self.way.examples(state["batch"], self._batches))
        while group := list(itertools.islice(left, self.options["accumulate_steps"])):
            values = self.way.step(*group)
            # Counts the step before this one: waiting for its values would idle an accelerator if
            # this step were not yet under way.
            self._count()
            state["step"] += 1
            state["batch"] += len(group) * self.devices.num_replicas
            seconds, state["seconds"] = state["seconds"], self.limits.seconds()
            self.limits.step = 0.0 if self.way.takes_batches else state["seconds"] - seconds
            self.last_step = state["step"], group, values
            self.progress.update(1, **self.log.shown)
            if state["step"] % options["log_every_steps"] == 0:
                self._count()
                if line := self.log.training():
                    self.progress.say(line)
            if state["step"] % options["eval_every_steps"] == 0:
                self._evaluate()
            if state["step"] % options["save_every_steps"] == 0 or self._save_is_due():
                self._save()
            if self.stop or self._finished():
                return
        state["epoch"] += 1
        state["batch"] = 0

    def _save_is_due(self):
        is_due = time.monotonic() - self.saved_at >= SAVE_SECONDS
        at_record = self.state["step"] % self.options["log_every_steps"] == 0
        return self.devices.is_due(is_due, at_record)

    def _count(self):
        """Adds the values of the last step to the sums, or handles it as skipped."""
        if self.last_step is None:
            return
        (step, group, values), self.last_step = self.last_step, None
        values = self.devices.read_requests(values)
        skipped, _ = values.pop("skipped", (0.0, 1.0))
        if float(skipped):
            self._skip(step, group, values)
            return
        self.state["skipped_in_a_row"] = 0
        self.log.add(values)

    def _skip(self, step, group, values):
        self._check_finite(self.variables)
        state = self.state
        state["skipped_steps"] += 1
        state["skipped_in_a_row"] += 1
        values = {name: float(amount / count) for name, (amount, count) in values.items()}
        batches = self.devices.all_batches(group)
        path = self.directory.keep_bad_batches(
            step, batches, {name: str(value) for name, value in values.items()}
        )
        shown = ", ".join(f"{name} {value:g}" for name, value in values.items())
        self.progress.say(
            f"step {step:,} skipped, because a number is not finite ({shown}); batch: {path}"
        )
        if state["skipped_in_a_row"] >= MAX_BAD_STEPS:
            raise UserError(
                f"{state['skipped_in_a_row']} steps in a row, up to step {step}, had a loss or "
                f"gradient that is not finite; see the batches in {path.parent}; {self._advice()}"
            )

    def _advice(self):
        is_any_saved = self.saved or self.best.figures is not None
        return ("everything saved is still good: " if is_any_saved else "") + ADVICE

    def _check_finite(self, variables):
        for name, variable in variables.items():
            if not np.isfinite(np.asarray(variable)).all():
                step = self.state["step"]
                raise UserError(f"{name} is not finite at step {step:,}; {self._advice()}")

    def _evaluate(self):
        state = self.state
        if state["evaluated_step"] == state["step"]:
            return
        self._count()
        self._check_finite(model_arrays(self.way.model))
        began = time.monotonic()
        with self.way.for_validation():
            evaluation = self.devices.score(self.evaluator)
            if evaluation is None:
                return
            better = evaluation.is_better(self._best_figures(), self.best.by)
            is_again = state["step"] == self.again_at
            if better:
                state.update({f"best_{n}": score for n, score in evaluation.figures().items()})
                state["evaluations_since_best"] = 0
            elif not is_again:
                state["evaluations_since_best"] += 1
            weights = model_arrays(self.way.model)
            is_kept = self.best.offer(weights, evaluation, state["step"])
        if not is_again:
            self.way.after_validation(state["evaluations_since_best"])
        state["evaluated_step"] = state["step"]
        self.log.validation(evaluation)
        verdict = self._verdict(evaluation, better, is_kept)
        self.progress.say(
            f"step {state['step']:,}, epoch {self.log.epoch()}: {evaluation}{verdict}"
        )
        for name, text in evaluation.texts:
            self.progress.say(f"    {name}: {text}")
        for source, reference, output in evaluation.samples:
            self.progress.say(f"    {source}\n      -> {output}\n       = {reference}")
        self.limits.validation = time.monotonic() - began
        self.log.leave_out(self.limits.validation)
        state["seconds"] = self.limits.seconds()

    def _verdict(self, evaluation, better, is_kept):
        """Returns how a validation compares with those before, as the end of a printed line."""
        if is_kept and not self.best.are_judged:
            return "; kept, as the last weights"
        by = self.best.by
        if is_kept or (better and evaluation.figures()[by] == self.best.figures[by]):
            if by == "bleu" and not is_above_zero(evaluation.bleu):
                return ", best so far by perplexity, which decides until BLEU is above 0"
            return ", best so far"
        if better:
            return f"; best.npz holds a better model ({self.best.figures[by]:.2f}) and is kept"
        return "" if evaluation.is_finite else "; it counts as no improvement"

    def _best_figures(self):
        """Returns the best validation's `figures`; old checkpoints hold only the deciding score."""
        best = {name: self.state[f"best_{name}"] for name in CRITERIA}
        return None if best[self.best.by] is None else best

    def _save(self):
        if self.saved == self._position():
            return
        self._count()
        self._check_finite(self.variables)
        began = time.monotonic()
        self.state["seconds"] = self.limits.seconds()
        if self.options["max_minutes"]:
            self.state["closing_seconds"] = self.limits.closing_to_save()
        sums = {n: [float(amount), float(count)] for n, (amount, count) in self.log.sums.items()}
        self.directory.save_checkpoint(
            self.variables,
            {**self.state, "sums": sums},
            keep=self.options["average_checkpoints"],
            every=self.options["save_every_steps"],
        )
        self.saved = self._position()
        self.saved_at = time.monotonic()
        self.limits.save = self.saved_at - began
