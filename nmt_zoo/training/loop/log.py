"""Records of a run, in metrics.jsonl, TensorBoard and the progress bar."""

import contextlib
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.validation.evaluation import Evaluation, perplexity
from nmt_zoo.training.ways.base import WayOfTraining


class Board:
    """Writes curves for TensorBoard.

    Each writer makes a new event file in the folder `path`; None writes nothing.

    Raises:
        UserError: the folder cannot be written; all methods raise this, too.
    """

    def __init__(self, path: Path | None):
        self.path = path
        with self._errors():
            make = tf.summary.create_file_writer if path else tf.summary.create_noop_writer
            self._writer = make(*([str(path)] if path else []))

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Adds a point to the curve of every name -> number."""
        with self._errors(), self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    def close(self) -> None:
        """Writes everything that is still buffered."""
        with self._errors():
            self._writer.close()

    @contextlib.contextmanager
    def _errors(self):
        try:
            yield
        except tf.errors.OpError as error:
            reason = re.sub(r"{{.*?}} *| *\[Op:.*", "", error.message.splitlines()[0])
            raise UserError(
                f"{self.path}: cannot be written ({reason}); make room, or check the name"
            ) from None


@dataclass(eq=False)
class Log:
    """Adds up the values of steps, and records their means."""

    directory: ModelDirectory
    way: WayOfTraining
    options: Mapping[str, Any]  # Of training.
    state: dict[str, Any]  # Of the `Trainer`; it is read as it changes.
    # Of the steps since the last record: name -> (sum, count).
    sums: dict[str, tuple] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)  # Name -> text beside the progress bar.
    _tokens_before: float = 0.0  # Tokens of `sums` that an earlier process has trained on.

    def restore(self, sums: dict[str, list[float]]) -> None:
        """Restores the `sums` of an earlier process from its checkpoint."""
        self.sums = {name: tuple(both) for name, both in sums.items()}
        self._tokens_before = self.sums.get("nll", (0.0, 0.0))[1]

    def start(self) -> None:
        """Starts to count time, and opens the files."""
        self._board = Board(self.directory.tensorboard_path)
        self._since = time.monotonic()

    def close(self) -> None:
        """Closes the files."""
        self._board.close()

    def add(self, values: dict[str, tuple]) -> None:
        """Adds name -> (sum, count) of the values of a step."""
        for name, (amount, count) in values.items():
            before = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = (before[0] + amount, before[1] + count)

    def epoch(self) -> int:
        """Returns the number of the last step's epoch, counted from 1."""
        return max(self.state["epoch"] + (self.state["batch"] > 0), 1)

    def training(self) -> str | None:
        """Records the means since the last record; returns a line to print, or None."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        if not self.sums:  # All steps were skipped.
            return None
        means = {n: float(total / count) for n, (total, count) in self.sums.items() if count > 0}
        rate = (float(self.sums["nll"][1]) - self._tokens_before) / max(seconds, 1e-9)
        self._tokens_before = 0.0
        self.sums = {}
        rates = self.way.rates()
        record = {
            **means,
            "perplexity": perplexity(means["nll"]),
            **rates,
            "skipped_steps": self.state["skipped_steps"],
            "tokens_per_second": round(rate, 1),
        }
        self._record("train", record)
        self._show(means["loss"], rates, rate)
        return self.way.progress_line(self.state["step"], means)

    def _show(self, loss, rates, rate):
        self.shown = {"epoch": self.epoch()}
        if math.isfinite(loss):
            self.shown["loss"] = f"{loss:.3f}"
        if "learning_rate" in rates:
            self.shown["rate"] = f"{rates['learning_rate']:.2g}"
        step, warmup_steps = self.state["step"], self.way.warmup_steps
        if step < warmup_steps:
            self.shown["warm-up"] = f"{step:,} of {warmup_steps:,}"
        self.shown["tokens/s"] = f"{rate:,.0f}"
        if self.options["max_minutes"]:  # The bar itself shows only steps.
            left = self.options["max_minutes"] - self.state["seconds"] / 60
            self.shown["minutes left"] = f"{max(left, 0):.0f}"

    def leave_out(self, seconds: float) -> None:
        """Leaves some seconds out of the next rate of training."""
        self._since += seconds

    def validation(self, evaluation: Evaluation) -> None:
        """Records a validation."""
        figures = {**evaluation.all_figures(), "skipped_steps": self.state["skipped_steps"]}
        self._record("valid", figures)

    def _record(self, kind, values):
        state = self.state
        record = {
            "step": state["step"],
            "epoch": self.epoch(),
            "seconds": round(state["seconds"], 3),
            "kind": kind,
            **values,
        }
        self.directory.append_metrics(record)
        self._board.scalars({f"{kind}/{name}": v for name, v in values.items()}, state["step"])
