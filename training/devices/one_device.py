"""Training on one device, which is also the interface of training on several."""

import contextlib

from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.gradient.adam import FusedAdam


class OneDevice:
    """One device in one process: batches need not be shared out, nor gradients summed.

    `replicas.Replicas` overrides the methods that differ on several devices. The training loop
    calls the methods from `begin` on in the same way on one device and on several.

    Attributes:
        strategy: the `tf.distribute.Strategy`, or None.
        make_adam: class of the optimizer.
        num_replicas: how many batches the devices take at once.
        num_local: how many of these the devices of this process take.
        is_chief: whether this process writes the model directory.
    """

    strategy = None
    make_adam = FusedAdam
    num_replicas = num_local = 1
    is_chief = True

    def scope(self):
        """Returns a context whose variables get a copy on every device."""
        return contextlib.nullcontext()

    def errors(self):
        """Returns a context that raises a `UserError` if another process is lost."""
        return contextlib.nullcontext()

    def directory(self, path):
        """Returns the `ModelDirectory` at a path; only the chief can write it."""
        return ModelDirectory(path)

    def join(self, directory, config):
        """Waits for the other processes, and checks that they train the same run."""

    def describe(self, options):
        """Returns lines that describe the devices."""
        return []

    def replicate(self, update):
        """Returns the update that all devices make together, from a `GradientUpdate`."""
        return update

    def begin(self, asked, is_late):
        """Stores the requests to stop that this process may have to pass on to other processes.

        Args:
            asked: `StopRequest` of this process.
            is_late: function that returns whether the time limit of the run is reached.

        Returns:
            The `StopRequest` on which all processes agree.
        """
        self._asked, self._is_late = asked, is_late
        return asked

    def end(self):
        """Waits until the chief has finished the work that it does alone."""

    def resume(self, restore, step):
        """Restores the run; the chief restores first, because it removes damaged checkpoints.

        Args:
            restore: function that restores the run in this process.
            step: function that returns the step of the run in this process.
        """
        restore()

    def batches(self, corpus, plan, first):
        """Returns an iterable of the batches of an `EpochPlan`, from number `first` on."""
        return dataset_of(corpus, plan, first)

    def all_batches(self, taken):
        """Returns the batches of all devices that some elements of `batches` stand for."""
        return taken

    def agree(self, values):
        """Reads the requests to stop that the processes have exchanged in a step.

        Args:
            values: result of the step.

        Returns:
            `values` without these requests.
        """
        return values

    def is_late(self):
        """Returns whether the processes agree that the time limit is reached."""
        return self._is_late()

    def is_due(self, here, at_record):
        """Returns whether the chief finds an action due, such as saving a checkpoint.

        Args:
            here: whether this process finds the action due.
            at_record: whether this step is recorded; processes ask the chief only then.
        """
        return here

    def score(self, evaluator):
        """Validates.

        Args:
            evaluator: returns an `Evaluation` when called.

        Returns:
            `Evaluation`, or None if a signal arrived before or during the validation.
        """
        return self.alone(evaluator)

    def alone(self, function):
        """Calls a function in the chief alone, which keeps the result to itself.

        Returns:
            The result of the function; None if a signal arrived before or during the call.
        """
        return self._asked.interruptible(function)
