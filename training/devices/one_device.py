"""Training on one device, and at the same time the interface of all sets of devices."""

import contextlib

from data_pipeline.pipeline import dataset_of
from model_directory.directory import ModelDirectory
from training.updates.gradient import FusedAdam


class OneDevice:
    """Nothing has to be shared out, summed up or agreed on.

    `replicas.Replicas` overrides what several devices do otherwise. The methods from `begin` on
    serve the training loop, which calls them in the same way whatever the devices are.

    Attributes:
        strategy: the `tf.distribute.Strategy`, or None.
        make_adam: class of the optimizer.
        num_replicas: how many batches the devices take at once.
        is_chief: whether this process writes the model directory.
    """

    strategy = None
    make_adam = FusedAdam
    num_replicas = 1
    is_chief = True

    def scope(self):
        """Returns a context in which variables are made that have a copy on every device."""
        return contextlib.nullcontext()

    def errors(self):
        """Returns a context in which the loss of another process raises a `UserError`."""
        return contextlib.nullcontext()

    def directory(self, path):
        """Returns the `ModelDirectory` at a path; only the chief can write it."""
        return ModelDirectory(path)

    def join(self, directory, config):
        """Waits for the other processes, and compares their runs with this one."""

    def describe(self, options):
        """Returns lines that describe the devices."""
        return []

    def replicate(self, update):
        """Makes a `GradientUpdate` an update of all devices."""
        return update

    def begin(self, asked, is_late):
        """Takes what this process may have to tell the others.

        Args:
            asked: `StopRequest` of this process.
            is_late: function that returns whether the time of the run is over.

        Returns:
            The `StopRequest` on which all processes agree.
        """
        self._asked, self._is_late = asked, is_late
        return asked

    def end(self):
        """Waits until the chief has done what it does alone."""

    def resume(self, restore, step):
        """Restores the run: the chief first, because it removes damaged checkpoints.

        Args:
            restore: function that restores the run in this process.
            step: function that returns the step of the run in this process.
        """
        restore()

    def batches(self, corpus, plan, first):
        """Returns an iterable of the batches of an `EpochPlan` from number `first`."""
        return dataset_of(corpus, plan, first)

    def all_batches(self, corpus, taken):
        """Returns the batches behind some elements of `batches`, those of all devices."""
        return taken

    def agree(self, values):
        """Takes notice of what the processes have told each other in a step.

        Args:
            values: what the step returned.

        Returns:
            `values` without these messages.
        """
        return values

    def is_late(self):
        """Returns whether the processes agree that the time is over."""
        return self._is_late()

    def is_due(self, here, at_record):
        """Returns whether the chief finds something due.

        Args:
            here: whether this process finds it due.
            at_record: whether this step is recorded; processes ask each other only then.
        """
        return here

    def score(self, evaluator, alone=False):
        """Validates.

        Args:
            evaluator: returns an `Evaluation` when called.
            alone: whether this process has not to share the result.

        Returns:
            `Evaluation`, or None if a signal came before or during it.
        """
        evaluation = None
        with self._asked.cutting_short():
            evaluation = evaluator()
        return evaluation
