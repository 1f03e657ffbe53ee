"""The interface of every way of training: by gradient, expectation maximisation, counting."""

import contextlib


class Update:
    """One way of training a model.

    A subclass sets the attributes below, and defines `model`, `step`, `evaluate` and `variables`.
    `training.ways` lists all subclasses and the models that each subclass trains.

    Attributes:
        name: name of the way of training, a value of the option `update`.
        options: names of the training options that only this way reads.
        takes_batches: whether a step takes batches, so that devices can share them out. Otherwise
            a step takes the whole corpus.
        has_plan: whether --dry_run can show a plan of its epochs.
        warmup_steps: steps during which the learning rate rises (0: none).
        judged_by_perplexity: whether a lower validation perplexity means better weights. Otherwise
            the weights of the last validation are kept, unless BLEU chooses.
    """

    name = ""
    options = ()
    takes_batches = False
    has_plan = True
    warmup_steps = 0
    judged_by_perplexity = True

    @classmethod
    def check(cls, preset, options, given, undecided=()):
        """Raises `UserError` if training options contradict each other.

        Args:
            preset: name of the model.
            options: name -> value of all training options.
            given: name -> value of the options that the user gave.
            undecided: names of options that `training.pace` may still lower.
        """

    @classmethod
    def recorded(cls, options):
        """Returns the training options that config.json records."""
        return options

    @classmethod
    def companion(cls, directory, config):
        """Returns the second `ModelDirectory` that a run writes, or None.

        Args:
            directory: `ModelDirectory` of the run.
            config: configuration of the run, as far as it is known before the tokenizer.

        Raises:
            UserError: the second directory holds something else.
        """

    @classmethod
    def is_complete(cls, directory):
        """Returns whether a run has nothing left to do, whatever its limits."""
        return False

    @classmethod
    def make(cls, run, model):
        """Makes the update of a `training.run.Run` for its prepared model."""
        raise NotImplementedError

    @classmethod
    def describe(cls, run):
        """Returns lines that describe an epoch of a `training.run.Run`."""
        return run.epochs.describe(run.tokenizer, in_batches=cls.takes_batches)

    def step(self, *examples):
        """Changes the model.

        Args:
            *examples: from `examples`.

        Returns:
            name -> `(sum, count)` of each measured value. A step that reports "skipped" has changed
            nothing, because its loss or gradient was not finite.
        """
        raise NotImplementedError

    def evaluate(self, batch):
        """Returns name -> `(sum, count)`, among them `nll` over the target tokens of a batch."""
        raise NotImplementedError

    def variables(self):
        """Returns name -> variable for everything that a step changes, to save in checkpoints."""
        raise NotImplementedError

    def examples(self, first, batches):
        """Returns an iterable of the examples that are left of an epoch.

        Args:
            first: how many examples of the epoch the run has already used.
            batches: function that returns the batches of the epoch from number `first` on.
        """
        return batches(first)

    def rates(self):
        """Returns name -> number to record beside the training loss."""
        return {}

    def progress_line(self, step, means):
        """Returns a line to print after a record of training, or None.

        Args:
            step: the last step.
            means: name -> mean of a value that `step` returns, since the last record.
        """

    @classmethod
    def closing_line(cls, run, step):
        """Returns a line to print after a run that ended at step `step`, or None."""

    def for_validation(self):
        """Returns a context in which the model has the weights to validate and to save as best."""
        return contextlib.nullcontext()

    def after_validation(self, evaluations_since_best):
        """Reacts to a validation; the argument is 0 if this validation was the best so far."""

    def companions(self):
        """Returns `ModelDirectory` -> model whose weights are saved there along with the best."""
        return {}
