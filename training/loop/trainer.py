"""The training loop of every model."""

import contextlib
import itertools
import math
import time

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.model_directory.directory import model_arrays, restore
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.finite_check import ADVICE, check_finite
from nmt_zoo.training.reports.tensorboard import Board
from nmt_zoo.training.stopping import stop_on_signals
from nmt_zoo.training.validation.averages import most_tries, try_averages
from nmt_zoo.training.validation.best_weights import BestWeights
from nmt_zoo.training.validation.evaluation import CRITERIA, perplexity

SAVE_SECONDS = 300.0  # Most seconds between checkpoints, and so of work that a kill loses.
_LEAST_SECONDS = 20.0  # For the choice of the length penalty, if the run has no time limit.
_SHARE = 0.05  # Of the time, for averages, and for the choice of the length penalty.


class Trainer:
    """Trains a model until a limit is reached; can be stopped and resumed at any step.

    Args:
        directory: `ModelDirectory`, started.
        update: `training.ways.update.Update`.
        epochs: `training.corpus.epochs.Epochs` to train on.
        evaluator: returns an `Evaluation` when called.
        limits: `training.loop.limits.Limits`.
        keep_best_by: "perplexity" or "bleu", the validation score of the best weights.
        accumulate_steps: batches of an update; the last update of an epoch may have fewer.
        began: `time.monotonic()` from which --max_minutes counts; None: from the call of `run`.
        devices: `OneDevice` or `Replicas`; `OneDevice()` if None.
        penalty_choice: `PenaltyChoice` for the best weights; None: nothing is chosen.
    """

    def __init__(
        self,
        directory,
        update,
        epochs,
        evaluator,
        limits,
        *,
        keep_best_by="perplexity",
        accumulate_steps=1,
        began=None,
        devices=None,
        penalty_choice=None,
    ):
        self.directory = directory
        self.update = update
        self.epochs = epochs
        self.evaluator = evaluator
        self.limits = limits
        self.best = BestWeights(directory, update, keep_best_by)
        self.accumulate_steps = accumulate_steps
        self.began = began
        self.devices = devices or OneDevice()
        self.penalty_choice = penalty_choice
        self.variables = update.variables()
        self.sums = {}  # Of the steps since the last record: name -> (sum, count).
        self.taken = None  # The last step, until it is counted: (number, batches, values).
        self.saved = None  # Of the newest checkpoint: (step, step of the last validation).
        self.again_at = None  # Step whose validation is repeated, because best.npz was lost.
        self.tokens_before = 0.0  # Tokens of `sums` that an earlier process has trained on.
        self.saved_at = None  # `time.monotonic()` of the newest checkpoint.
        self.validation_seconds = None  # Duration of the last validation.
        self.save_seconds = 0.0  # Duration of the last save.
        self.late = False  # Whether the time limit has been reached.
        self.shown = {}  # Name -> text beside the progress bar.
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

    def run(self):
        """Trains; resumes the run in the directory if there is a checkpoint.

        Returns:
            Number of the signal that stopped the run, or 0 if it reached its end.

        Raises:
            UserError: loss, weights or all validations are not finite, time is over before the
                first step, the directory cannot be written, or another process is writing it.
        """
        self.directory.lock.acquire()
        try:
            with stop_on_signals() as asked, self.devices.errors():
                self.stop = self.devices.begin(asked, self._is_late)
                result = self._run()
                self.devices.end()
                return result
        finally:
            self.directory.lock.release()

    def _run(self):
        self.devices.resume(self._resume, lambda: self.state["step"])
        self.board = Board(self.directory.tensorboard_path)
        self.logged_at = self.saved_at = time.monotonic()
        self.clock = self.logged_at - self.state["seconds"]
        total, done = self._most_steps(), self.state["step"]
        with Progress("training", total, "steps", initial=done) as self.progress:
            # A signal may have stopped the run before its validation, or best.npz may be lost.
            if done and (done == self.again_at or done % self.limits.eval_every_steps == 0):
                self._evaluate()
            while not (self.stop or self._finished()):
                self._epoch()
            if not (self.stop or self.state["step"]):
                raise UserError(
                    f"--max_minutes={self.limits.max_minutes:g}: starting took "
                    f"{self.state['seconds'] / 60:.1f} minutes, which left no time for an update; "
                    "give more, and a new --model_dir, as this one holds the pace of a short run"
                )
            if not self.stop:
                self.progress.say(f"finished: {self.reason}")
                self._evaluate()
            self._save()
            if not self.stop:
                self._average()
                self.best.complete(self.state["step"])
                self._choose_length_penalty()
            if self.stop:
                self.progress.say(f"stopped and saved at step {self.state['step']:,}")
        self.board.close()
        return self.stop.signal_number

    def _most_steps(self):
        """Returns the largest number of steps that the limits allow, or None without a limit."""
        most = [self.limits.max_steps] if self.limits.max_steps else []
        if self.limits.max_epochs:
            by_batches = self.update.takes_batches
            an_epoch = self.epochs.num_updates(self.accumulate_steps) if by_batches else 1
            most.append(self.limits.max_epochs * an_epoch)
        return min(most, default=None)

    def _resume(self):
        restored = self.directory.restore_newest(self.variables)
        if restored:
            sums = restored.pop("sums", {})
            self.sums = {name: tuple(both) for name, both in sums.items()}
            self.tokens_before = self.sums.get("nll", (0.0, 0.0))[1]
            self.state.update(restored)
            self.saved = self._position()
            print(f"resumed at step {self.state['step']:,}", flush=True)
        lost = not self.best.find() and self._best_figures() is not None
        if lost and self.state["evaluated_step"] == self.state["step"]:
            # best.npz is gone: these weights are validated again and become the best.
            self.state["evaluated_step"] -= 1
            self.again_at = self.state["step"]
        self.directory.rewind_metrics(self.state["step"], self.state["evaluated_step"])
        now = time.monotonic()
        self.state["seconds"] += now - (self.began or now)

    def _position(self):
        return self.state["step"], self.state["evaluated_step"]

    def _finished(self):
        self.reason = self.limits.reached(self.state, self.best.by, self.devices.is_late())
        return self.reason is not None

    def _is_late(self):
        late = self.limits.is_late(self.state["seconds"], self._closing_seconds())
        self.late = self.late or late
        return late

    def _closing_seconds(self):
        """Estimates the seconds from the last update to the end of the run.

        Averages get a twentieth of the time, or as much as a single one takes, and the choice of
        the length penalty another twentieth.
        """
        share = self.limits.max_minutes * 60 * _SHARE
        if self.validation_seconds is None:  # Only an earlier process has measured anything.
            return self.state.get("closing_seconds", min(2 * share, 120.0))
        closing = self.save_seconds + (share if self.penalty_choice else 0.0)
        if self.state["evaluated_step"] != self.state["step"]:
            closing += self.validation_seconds
        tries = most_tries(self.limits.keep_checkpoints)
        if tries:
            # An average reads checkpoints, which takes about as long as writing them.
            reading = self.limits.keep_checkpoints * self.save_seconds
            an_average = self.validation_seconds + reading
            closing += min(tries * an_average, max(an_average, share))
        return closing

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
        state, limits = self.state, self.limits
        left = iter(self.update.examples(state["batch"], self._batches))
        while group := list(itertools.islice(left, self.accumulate_steps)):
            values = self.update.step(*group)
            # Counts the step before this one: waiting for its values would idle an accelerator if
            # this step were not yet under way.
            self._count()
            state["step"] += 1
            state["batch"] += len(group) * self.devices.num_replicas
            state["seconds"] = time.monotonic() - self.clock
            self.taken = state["step"], group, values
            self.progress.update(1, **self.shown)
            if state["step"] % limits.log_every_steps == 0:
                self._count()
                self._log()
            if state["step"] % limits.eval_every_steps == 0:
                self._evaluate()
            if state["step"] % limits.save_every_steps == 0 or self._save_is_due():
                self._save()
            if self.stop or self._finished():
                return
        state["epoch"] += 1
        state["batch"] = 0

    def _save_is_due(self):
        here = time.monotonic() - self.saved_at >= SAVE_SECONDS
        return self.devices.is_due(here, self.state["step"] % self.limits.log_every_steps == 0)

    def _count(self):
        """Adds the values of the last step to the sums, or handles it as skipped."""
        if self.taken is None:
            return
        (step, taken, values), self.taken = self.taken, None
        values = self.devices.agree(values)
        skipped, _ = values.pop("skipped", (0.0, 1.0))
        if float(skipped):
            self._skip(step, taken, values)
            return
        self.state["skipped_in_a_row"] = 0
        for name, (amount, count) in values.items():
            before = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = (before[0] + amount, before[1] + count)

    def _skip(self, step, taken, values):
        self._check_finite(self.variables)
        state = self.state
        state["skipped_steps"] += 1
        state["skipped_in_a_row"] += 1
        values = {name: float(amount / count) for name, (amount, count) in values.items()}
        batches = self.devices.all_batches(taken)
        shown = {name: str(value) for name, value in values.items()}
        path = self.directory.keep_bad_batches(step, batches, shown)
        found = ", ".join(f"{name} {value:g}" for name, value in values.items())
        self.progress.say(
            f"step {step:,} skipped, because a number is not finite ({found}); batch: {path}"
        )
        if state["skipped_in_a_row"] >= self.limits.max_bad_steps:
            raise UserError(
                f"{state['skipped_in_a_row']} steps in a row, up to step {step}, had a loss or "
                f"gradient that is not finite; see the batches in {path.parent}; {self._advice()}"
            )

    def _advice(self):
        anything = self.saved or self.best.figures is not None
        return ("everything saved is still good: " if anything else "") + ADVICE

    def _check_finite(self, variables):
        check_finite(variables, self.state["step"], self._advice())

    def _log(self):
        now = time.monotonic()
        seconds, self.logged_at = now - self.logged_at, now
        if not self.sums:  # All steps were skipped.
            return
        means = {n: float(total / count) for n, (total, count) in self.sums.items() if count > 0}
        rate = (float(self.sums["nll"][1]) - self.tokens_before) / max(seconds, 1e-9)
        self.tokens_before = 0.0
        rates = self.update.rates()
        record = {
            **means,
            "perplexity": perplexity(means["nll"]),
            **rates,
            "skipped_steps": self.state["skipped_steps"],
            "tokens_per_second": round(rate, 1),
        }
        self.shown = {"epoch": self._epoch_number()}
        if math.isfinite(means["loss"]):
            self.shown["loss"] = f"{means['loss']:.3f}"
        if "learning_rate" in rates:
            self.shown["rate"] = f"{rates['learning_rate']:.2g}"
        if self.state["step"] < self.update.warmup_steps:
            self.shown["warm-up"] = f"{self.state['step']:,} of {self.update.warmup_steps:,}"
        self.shown["tokens/s"] = f"{rate:,.0f}"
        if self.limits.max_minutes:  # The bar itself shows only steps.
            left = self.limits.max_minutes - self.state["seconds"] / 60
            self.shown["minutes left"] = f"{max(left, 0):.0f}"
        self._record("train", record)
        self.sums = {}
        if line := self.update.progress_line(self.state["step"], means):
            self.progress.say(line)

    def _evaluate(self):
        state = self.state
        if state["evaluated_step"] == state["step"]:
            return
        self._count()
        self._check_finite(model_arrays(self.update.model))
        began = time.monotonic()
        with self.update.for_validation():
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
            weights = model_arrays(self.update.model)
            kept = self.best.offer(weights, evaluation, state["step"])
        if not is_again:
            self.update.after_validation(state["evaluations_since_best"])
        state["evaluated_step"] = state["step"]
        self._record("valid", {**evaluation.figures(), "skipped_steps": state["skipped_steps"]})
        if kept and not self.best.are_judged:
            verdict = "; kept, as the last weights"
        elif kept or (better and self._is_best(evaluation)):
            verdict = ", best so far"
            if evaluation.is_zero(self.best.by):
                verdict += " by perplexity, which decides until BLEU is above 0"
        elif better:
            score = self.best.figures[self.best.by]
            verdict = f"; best.npz holds a better model ({score:.2f}) and is kept"
        else:
            verdict = "" if evaluation.is_finite else "; it counts as no improvement"
        self.progress.say(
            f"step {state['step']:,}, epoch {self._epoch_number()}: {evaluation}{verdict}"
        )
        for source, reference, output in evaluation.samples:
            self.progress.say(f"    {source}\n      -> {output}\n       = {reference}")
        self.board.samples(evaluation, state["step"])
        now = time.monotonic()
        self.validation_seconds = now - began
        self.logged_at += self.validation_seconds  # So that the training rate leaves them out.
        state["seconds"] = now - self.clock

    def _best_figures(self):
        """Returns the `figures` of the best validation, to count patience; None if there is none.

        Checkpoints of earlier versions hold only the score that decides.
        """
        best = {name: self.state[f"best_{name}"] for name in CRITERIA}
        return None if best[self.best.by] is None else best

    def _is_best(self, evaluation):
        return evaluation.figures()[self.best.by] == self.best.figures[self.best.by]

    def _epoch_number(self):
        """Returns the number of the last step's epoch, counted from 1."""
        return max(self.state["epoch"] + (self.state["batch"] > 0), 1)

    def _record(self, kind, values):
        state = self.state
        self.directory.append_metrics(
            {
                "step": state["step"],
                "epoch": self._epoch_number(),
                "seconds": round(state["seconds"], 3),
                "kind": kind,
                **values,
            }
        )
        self.board.scalars({f"{kind}/{name}": v for name, v in values.items()}, state["step"])

    def _save(self):
        if self.saved == self._position():
            return
        self._count()
        self._check_finite(self.variables)
        began = time.monotonic()
        self.state["seconds"] = began - self.clock
        if self.limits.max_minutes:  # So that a run that has ended does not go on by itself.
            left = self.limits.max_minutes * 60 - self.state["seconds"]
            closing = self._closing_seconds()
            self.state["closing_seconds"] = max(closing, left) if self.late else closing
        sums = {name: [float(amount), float(count)] for name, (amount, count) in self.sums.items()}
        self.directory.save_checkpoint(
            self.variables,
            {**self.state, "sums": sums},
            keep=self.limits.keep_checkpoints,
            every=self.limits.save_every_steps,
        )
        self.saved = self._position()
        self.saved_at = time.monotonic()
        self.save_seconds = self.saved_at - began

    def _average(self):
        """Keeps the best average of the last checkpoints as the best model if it is better."""
        if not self.devices.is_chief:
            return
        steps = self.directory.checkpoint_steps(every=self.limits.save_every_steps)
        if not self.best.are_judged:
            if self.limits.keep_checkpoints > 1:
                self.progress.say(
                    "no averages of checkpoints: no score chooses the weights of this model"
                )
            return
        weights, best = model_arrays(self.update.model), None

        def is_better(steps):
            nonlocal best
            # The first average may exceed --max_minutes by a tenth.
            allowed = 0.0 if best else self.limits.max_minutes * 6
            taken = time.monotonic() - self.clock - allowed
            if self.limits.is_late(taken, self.validation_seconds or 0.0):
                which = "further averages" if best else f"the average of {len(steps)} checkpoints"
                self.progress.say(f"no time is left to validate {which}")
                return None
            steps, arrays = self.directory.average(steps)
            restore(weights, arrays, "average")
            evaluation = self.devices.alone(self.evaluator)
            if evaluation is None:
                return None
            kept = self.best.offer(arrays, evaluation, self.state["step"], averaged_steps=steps)
            verdict = "kept as the best" if kept else "not better than best.npz, not kept"
            which = ", ".join(f"{step:,}" for step in steps)
            self.progress.say(
                f"average of {len(steps)} checkpoints ({which}): {evaluation}; {verdict}"
            )
            better = evaluation.is_better(best and best.figures(), self.best.by)
            best = evaluation if better or not best else best
            return better

        with self._weights_come_back():
            try_averages(steps[-self.limits.keep_checkpoints :], is_better)

    @contextlib.contextmanager
    def _weights_come_back(self):
        """Lets the model have other weights for a while."""
        weights = model_arrays(self.update.model)
        last = {name: v.numpy() for name, v in weights.items()}
        yield
        restore(weights, last, "weights")

    def _choose_length_penalty(self):
        """Chooses the length penalty with which the best weights translate by default."""
        if not (self.penalty_choice and self.devices.is_chief):
            return
        now = time.monotonic()
        if self.limits.max_minutes:
            end = self.clock + self.limits.max_minutes * 60
        else:
            end = now + max((now - self.clock) * _SHARE, _LEAST_SECONDS)
        with self._weights_come_back():
            restore(model_arrays(self.update.model), self.directory.read_best()[0], "best weights")
            found = self.devices.alone(
                lambda: self.penalty_choice(is_late=lambda: time.monotonic() > end)
            )
        if self.stop:
            return
        if found is None:
            self.progress.say("no time is left to choose the length penalty on validation text")
            return
        if found["length_penalty"] is None:
            self.progress.say(
                f"length penalty stays {LENGTH_PENALTY:g}, because valid BLEU is 0 with each"
            )
            return
        self.directory.write_search(found)
        bleu = ", ".join(f"{score:.2f} with {penalty:g}" for penalty, score in found["bleu"])
        self.progress.say(
            f"length penalty {found['length_penalty']:g} from now on; valid BLEU of "
            f"{found['lines']} lines, beam {found['beam_size']}: {bleu}"
        )
