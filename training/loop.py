"""The training loop of every model."""

import math
import time
from typing import NamedTuple

import tensorflow as tf

from data_pipeline.files import UserError
from data_pipeline.pipeline import batches
from data_pipeline.progress import Progress
from training.checkpoints import model_arrays, restore, write_archive
from training.console import stop_on_signals


class Limits(NamedTuple):
    """When to stop and how often to look; 0 means no limit.

    Attributes:
        max_steps: updates.
        max_epochs: passes over the training pairs.
        max_minutes: minutes of training and validation, over all sittings.
        patience: validations without a better perplexity.
        eval_every_steps: updates between validations.
        save_every_steps: updates between checkpoints.
        log_every_steps: updates between records in metrics.jsonl.
        keep_checkpoints: how many checkpoints are kept, and averaged in the end.
    """

    max_steps: int
    max_epochs: int
    max_minutes: float
    patience: int
    eval_every_steps: int
    save_every_steps: int
    log_every_steps: int
    keep_checkpoints: int


class Trainer:
    """Updates a model until a limit is reached, and can be stopped and resumed at any step.

    Args:
        directory: `ModelDirectory`, started.
        update: has `step(batch)`, `model`, `variables()` and `rates()`.
        corpus: `EncodedCorpus` to train on.
        evaluator: returns an `Evaluation` when called.
        limits: `Limits`.
        max_tokens: budget of a batch.
        max_sentences: most pairs of a batch; 0 for no such limit.
        seed: of the order of pairs.
        **batching: more options of `data_pipeline.pipeline.batches`, such as `shapes`.
    """

    def __init__(
        self,
        directory,
        update,
        corpus,
        evaluator,
        limits,
        *,
        max_tokens,
        max_sentences=0,
        seed,
        **batching,
    ):
        self.directory = directory
        self.update = update
        self.corpus = corpus
        self.evaluator = evaluator
        self.limits = limits
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences
        self.seed = seed
        self.batching = batching
        self.variables = update.variables()
        self.sums = {}  # Of the steps since the last record: name -> (sum, count).
        self.shown = {}  # Beside the progress bar.
        # All that a resumed run must know besides the variables.
        self.state = {
            "step": 0,
            "epoch": 0,
            "batch": 0,
            "seconds": 0.0,
            "best_perplexity": None,
            "evaluations_since_best": 0,
            "evaluated_step": 0,
        }

    def run(self):
        """Trains; goes on where an earlier run in the directory stopped.

        Returns:
            Number of the signal that stopped the run, or 0 if it reached its end.

        Raises:
            UserError: the loss is not finite, or the directory cannot be written.
        """
        restored = self.directory.restore_newest(self.variables)
        if restored:
            self.state = restored
            print(f"resumed at step {self.state['step']:,}", flush=True)
        self.directory.rewind_metrics(self.state["step"])
        self.writer = tf.summary.create_file_writer(str(self.directory.tensorboard_path))
        self.logged_at = time.monotonic()
        self.clock = self.logged_at - self.state["seconds"]
        total = self.limits.max_steps or None
        with (
            stop_on_signals() as stop,
            Progress("training", total, "steps", initial=self.state["step"]) as self.progress,
        ):
            while not (stop or self._finished()):
                self._epoch(stop)
            if stop:
                self._save()
                self.progress.say(f"stopped and saved at step {self.state['step']:,}")
                return stop.signal_number
            self.progress.say(f"finished: {self.reason}")
            if self.state["evaluated_step"] != self.state["step"]:
                self._evaluate()
            self._save()
            self._average()
        self.writer.close()
        return 0

    def _finished(self):
        limits, state = self.limits, self.state
        reasons = {
            f"{limits.max_steps:,} steps": 0 < limits.max_steps <= state["step"],
            f"{limits.max_epochs} epochs": 0 < limits.max_epochs <= state["epoch"],
            f"{limits.max_minutes:g} minutes": 0 < limits.max_minutes * 60 <= state["seconds"],
            f"no better perplexity in {limits.patience} validations": 0
            < limits.patience
            <= state["evaluations_since_best"],
        }
        self.reason = next((reason for reason, reached in reasons.items() if reached), None)
        return self.reason is not None

    def _batches(self):
        """What is left of the epoch."""
        return batches(
            self.corpus,
            self.max_tokens,
            max_sentences=self.max_sentences,
            seed=self.seed,
            epoch=self.state["epoch"],
            first_batch=self.state["batch"],
            **self.batching,
        )

    def _epoch(self, stop):
        state, limits = self.state, self.limits
        for batch in self._batches():
            for name, (amount, count) in self.update.step(batch).items():
                before = self.sums.get(name, (0.0, 0.0))
                self.sums[name] = (before[0] + amount, before[1] + count)
            state["step"] += 1
            state["batch"] += 1
            state["seconds"] = time.monotonic() - self.clock
            self.progress.update(1, **self.shown)
            if state["step"] % limits.log_every_steps == 0:
                self._log()
            if state["step"] % limits.eval_every_steps == 0:
                self._evaluate()
            if state["step"] % limits.save_every_steps == 0:
                self._save()
            if stop or self._finished():
                return
        state["epoch"] += 1
        state["batch"] = 0

    def _check_finite(self):
        """Stops the run before a spoilt model is scored or saved."""
        loss = float(self.sums["loss"][0]) if self.sums else 0.0
        if not math.isfinite(loss):
            raise UserError(
                f"the loss is {loss} near step {self.state['step']}; the last checkpoint is still "
                "good: try a lower --learning_rate or more --warmup_steps"
            )

    def _log(self):
        self._check_finite()
        means = {name: float(amount / count) for name, (amount, count) in self.sums.items()}
        now = time.monotonic()
        rate = float(self.sums["nll"][1]) / max(now - self.logged_at, 1e-9)
        self.logged_at = now
        record = {
            **means,
            "perplexity": math.exp(min(means["nll"], 700.0)),
            **self.update.rates(),
            "tokens_per_second": round(rate, 1),
        }
        self.shown = {"loss": f"{means['loss']:.3f}", "tokens/s": f"{rate:,.0f}"}
        if self.limits.max_minutes:  # The bar knows the steps only.
            left = self.limits.max_minutes - self.state["seconds"] / 60
            self.shown["minutes left"] = f"{max(left, 0):.0f}"
        self._record("train", record)
        self.sums = {}

    def _evaluate(self):
        self._check_finite()
        began = time.monotonic()
        evaluation = self.evaluator()
        state = self.state
        best = state["best_perplexity"]
        better = best is None or evaluation.perplexity < best
        if better:
            state["best_perplexity"] = evaluation.perplexity
            state["evaluations_since_best"] = 0
            self._keep_best(model_arrays(self.update.model), evaluation)
        else:
            state["evaluations_since_best"] += 1
        state["evaluated_step"] = state["step"]
        self._record("valid", evaluation.figures())
        self.progress.say(
            f"step {state['step']:,}, epoch {state['epoch'] + 1}: {evaluation}"
            + (", best so far" if better else "")
        )
        for source, reference, output in evaluation.samples:
            self.progress.say(f"    {source}\n      -> {output}\n       = {reference}")
        if evaluation.samples:
            text = "\n\n".join(f"{s}  \n{o}  \n{r}" for s, r, o in evaluation.samples)
            with self.writer.as_default():
                tf.summary.text("samples", text, step=state["step"])
        self.logged_at += time.monotonic() - began  # Validation is no part of the training rate.

    def _record(self, kind, values):
        state = self.state
        self.directory.append_metrics(
            {
                "step": state["step"],
                "epoch": state["epoch"],
                "seconds": round(state["seconds"], 3),
                "kind": kind,
                **values,
            }
        )
        with self.writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", value, step=state["step"])

    def _keep_best(self, arrays, evaluation, **more):
        state = {"step": self.state["step"], **evaluation.figures(), **more}
        write_archive(self.directory.best_path, arrays, state)

    def _save(self):
        self._check_finite()
        if not self.directory.checkpoint_path(self.state["step"]).exists():
            self.state["seconds"] = time.monotonic() - self.clock
            self.directory.save_checkpoint(
                self.variables,
                self.state,
                keep=self.limits.keep_checkpoints,
                every=self.limits.save_every_steps,
            )

    def _average(self):
        """Keeps the average of the last checkpoints as the best model if it is better."""
        steps = self.directory.checkpoint_steps(every=self.limits.save_every_steps)
        if len(steps) < 2:
            return
        arrays = self.directory.average(steps)
        weights = model_arrays(self.update.model)
        last = {name: v.numpy() for name, v in weights.items()}
        restore(weights, arrays, "average")
        evaluation = self.evaluator()
        better = evaluation.perplexity < self.state["best_perplexity"]
        if better:
            self._keep_best(arrays, evaluation, averaged_steps=steps)
        self.progress.say(
            f"average of {len(steps)} checkpoints: {evaluation}; "
            + ("kept as the best" if better else "not better than the best, not kept")
        )
        restore(weights, last, "weights")
