"""The interface of every way of training: by gradient, expectation maximisation, counting."""

import contextlib
from typing import ClassVar


class Update:
    """One way of training a model.

    A subclass states the facts below, and has `model`, `step`, `evaluate` and `variables`.
    `training.ways` lists all of them and the models that each one trains.

    Attributes:
        name: of the way of training, as the option `update` names it.
        options: names of the training options that only this way reads.
        defaults: name -> value of training options where this way has other defaults.
        takes_batches: whether a step takes batches, so that devices can share them out. Otherwise
            a step takes the whole corpus.
        has_plan: whether --dry_run can show a plan of its epochs.
    """

    name = ""
    options = ()
    defaults: ClassVar = {}
    takes_batches = False
    has_plan = True

    @classmethod
    def check(cls, preset, options, given, undecided=()):
        """Raises `UserError` where training options do not go together.

        Args:
            preset: name of the model.
            options: name -> value of all training options.
            given: name -> value of the options that the user gave.
            undecided: names of options that `training.pace` may still make smaller.
        """

    @classmethod
    def recorded(cls, options):
        """Returns the training options that config.json keeps."""
        return options

    @classmethod
    def companion(cls, directory, config):
        """Returns the second `ModelDirectory` that a run writes, or None.

        Args:
            directory: `ModelDirectory` of the run.
            config: its configuration, as far as it is known before the tokenizer.

        Raises:
            UserError: a directory that holds something else.
        """

    @classmethod
    def is_complete(cls, directory):
        """Returns whether a run has nothing left to do, whatever its limits."""
        return False

    @classmethod
    def make(cls, run, model):
        """Makes the update of a `training.run.Run` for its model, which is prepared."""
        raise NotImplementedError

    @classmethod
    def describe(cls, run):
        """Returns lines that describe an epoch of a `training.run.Run`."""
        return run.epochs.describe(run.tokenizer)

    def step(self, *examples):
        """Changes the model.

        Args:
            *examples: from `examples`.

        Returns:
            name -> `(sum, count)` of what was measured. A step that reports "skipped" has changed
            nothing, because its loss or gradient was not finite.
        """
        raise NotImplementedError

    def evaluate(self, batch):
        """Returns name -> `(sum, count)`, among them `nll` over the target tokens of a batch."""
        raise NotImplementedError

    def variables(self):
        """Returns name -> variable for everything that a step changes: what checkpoints hold."""
        raise NotImplementedError

    def examples(self, first, batches):
        """Returns an iterable of the examples that are left of an epoch.

        Args:
            first: how many examples of the epoch the run has already taken.
            batches: function that returns the batches of the epoch from number `first`.
        """
        return batches(first)

    def rates(self):
        """Returns name -> number to record beside the training loss."""
        return {}

    def progress_line(self, step, means):
        """Returns a line to print after a record of training, or None.

        Args:
            step: the last step.
            means: name -> mean since the last record of what `step` returns.
        """

    @classmethod
    def closing_line(cls, run, step):
        """Returns a line to print after a run that ended at a step, or None."""

    def for_validation(self):
        """Returns a context in which the model has the weights to validate and to keep."""
        return contextlib.nullcontext()

    def after_validation(self, evaluations_since_best):
        """Takes note of the number of validations since the best one: 0 if it was this one."""

    def companions(self):
        """Returns `ModelDirectory` -> model to keep there whenever the best weights are kept."""
        return {}
