"""The interface of every way of training: by gradient, expectation maximisation, counting."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import keras
import tensorflow as tf

from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE, negative_log_likelihood

Options = dict[str, Any]  # Name -> value of training options.
Names = Iterable[str]  # Of training options.


class WayOfTraining:
    """One way of training; an instance changes a model step by step.

    A subclass sets the attributes below and defines `of_run`, `step` and `variables`.
    The class of a model names those that train it, `trained_by`.
    """

    name: str = ""  # a value of the option `update`
    options: tuple[str, ...] = ()  # training options that only this way reads
    defaults: ClassVar[Options] = {}  # where its defaults differ from those of all models
    trains: tuple[str, ...] = ()  # names of models that do not name this way themselves
    # Whether a step takes batches, which devices can share, rather than the whole corpus.
    takes_batches: bool = False
    has_plan: bool = True  # whether --dry_run can show a plan of its epochs

    model: keras.Model
    warmup_steps: int = 0  # steps during which the learning rate rises (0: none)
    # Whether a lower validation perplexity means better weights. Otherwise the weights of the last
    # validation are kept, unless BLEU chooses.
    judged_by_perplexity: bool = True

    # Before there is a model

    @classmethod
    def check(cls, preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
        """Raises `UserError` if training options contradict each other.

        `given` are the options that the user gave; `training.pace` may still lower `undecided`.
        """

    @classmethod
    def recorded(cls, options: Options) -> Options:
        """Returns the training options that config.json records."""
        return options

    @classmethod
    def companion(cls, directory: ModelDirectory, config: dict[str, Any]) -> ModelDirectory | None:
        """Returns the second `ModelDirectory` that a run writes, or None.

        `config` is the run's configuration, as far as it is known before the tokenizer.

        Raises:
            UserError: the second directory holds something else.
        """

    @classmethod
    def is_complete(cls, directory: ModelDirectory) -> bool:
        """Returns whether a run has nothing left to do, whatever its limits."""
        return False

    @classmethod
    def of_run(cls, run: Any, model: keras.Model) -> "WayOfTraining":
        """Makes the training of a `training.setup.Run` for its prepared model."""
        raise NotImplementedError

    @classmethod
    def describe(cls, run: Any) -> list[str]:
        """Returns lines that describe an epoch of a `training.setup.Run`."""
        return run.epochs.describe(run.tokenizer, in_batches=cls.takes_batches)

    @classmethod
    def closing_line(cls, run: Any, step: int) -> str | None:
        """Returns a line to print after a run that ended at step `step`, or None."""

    # While a model is trained

    def step(self, *examples: Any) -> dict[str, tuple]:
        """Changes the model; returns name -> `(sum, count)` of each measured value.

        A step that reports "skipped" has changed nothing, because its loss or gradient was not
        finite.
        """
        raise NotImplementedError

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch: dict[str, tf.Tensor]) -> dict[str, tuple]:
        """Returns name -> `(sum, count)`, among them `nll` over the target tokens of a batch."""
        return {"nll": negative_log_likelihood(self.model, batch)}

    def variables(self) -> dict[str, Any]:
        """Returns name -> variable for everything that a step changes, to save in checkpoints."""
        raise NotImplementedError

    def examples(self, first: int, batches: Callable[[int], Iterable]) -> Iterable:
        """Returns the examples that are left of an epoch, of which `first` have been used.

        `batches` returns the batches of the epoch from a number on. Without batches, a step has no
        example but a placeholder, and takes the whole text, once an epoch.
        """
        return batches(first) if self.takes_batches else [None][first:]

    def rates(self) -> dict[str, float]:
        """Returns name -> number to record beside the training loss."""
        return {}

    def progress_line(self, step: int, means: dict[str, float]) -> str | None:
        """Returns a line to print after a record of training, or None.

        `means` are the means, since the last record, of the values that `step` returns.
        """

    def for_validation(self) -> AbstractContextManager:
        """Returns a context in which the model has the weights to validate and to save as best."""
        return nullcontext()

    def after_validation(self, evaluations_since_best: int) -> None:
        """Reacts to a validation; the argument is 0 if this validation was the best so far."""

    def companions(self) -> dict[ModelDirectory, keras.Model]:
        """Returns `ModelDirectory` -> model whose weights are saved there along with the best."""
        return {}
