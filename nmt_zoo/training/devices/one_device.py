"""Training on one device, which is also the interface of training on several."""

import contextlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from nmt_zoo.data_pipeline.batching import EpochPlan
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.stopping import StopRequest
from nmt_zoo.training.validation.evaluation import Evaluation
from nmt_zoo.training.ways.base import WayOfTraining
from nmt_zoo.training.ways.gradient.adam import FusedAdam


class OneDevice:
    """One device in one process: batches need not be shared out, nor gradients summed.

    `replicas.Replicas` overrides the methods that differ on several devices. The training loop
    calls the methods from `begin` on in the same way on one device and on several.

    Attributes:
        make_adam: class of the optimizer.
        num_replicas: how many batches the devices take at once.
        num_local: how many of these the devices of this process take.
        is_chief: whether this process writes the model directory.
    """

    strategy = None
    make_adam = FusedAdam
    num_replicas = num_local = 1
    is_chief = True

    def scope(self) -> AbstractContextManager:
        """Returns a context whose variables get a copy on every device."""
        return contextlib.nullcontext()

    def errors(self) -> AbstractContextManager:
        """Returns a context that raises a `UserError` if another process is lost."""
        return contextlib.nullcontext()

    def directory(self, path: str) -> ModelDirectory:
        """Returns the `ModelDirectory` at a path; only the chief can write it."""
        return ModelDirectory(path)

    def wait_for_workers(self, directory: ModelDirectory, config: dict[str, Any]) -> None:
        """Waits for the other processes, and checks that they train the same run."""

    def describe(self, options: dict[str, Any]) -> list[str]:
        """Returns lines that describe the devices."""
        return []

    def replicate(self, way: WayOfTraining) -> WayOfTraining:
        """Returns the training that all devices do together, from a `Gradient`."""
        return way

    def begin(self, stop: StopRequest, is_late: Callable[[], bool]) -> StopRequest:
        """Registers this process's request to stop; returns the one on which all processes agree.

        `is_late` returns whether the time limit of the run is reached.
        """
        self._own_stop, self._is_late = stop, is_late
        return stop

    def end(self) -> None:
        """Waits until the chief has finished the work that it does alone."""

    def resume(self, restore: Callable[[], None], step: Callable[[], int]) -> None:
        """Restores the run; the chief restores first, because it removes damaged checkpoints.

        `restore` restores this process; `step` returns its step.
        """
        restore()

    def batches(self, corpus: EncodedCorpus, plan: EpochPlan, first: int) -> Iterable:
        """Returns an iterable of the batches of an `EpochPlan`, from number `first` on."""
        return dataset_of(corpus, plan, first)

    def all_batches(self, group: list) -> list:
        """Returns the batches of all devices that some elements of `batches` stand for."""
        return group

    def read_requests(self, values: dict[str, tuple]) -> dict[str, tuple]:
        """Applies the requests to stop among the results of a step; returns the other results."""
        return values

    def is_late(self) -> bool:
        """Returns whether the processes agree that the time limit is reached."""
        return self._is_late()

    def is_due(self, is_due_here: bool, at_record: bool) -> bool:
        """Returns whether the chief finds an action due, such as saving a checkpoint.

        `is_due_here` is what this process finds; processes ask the chief only at steps that are
        recorded.
        """
        return is_due_here

    def score(self, evaluator: Callable[[], Evaluation]) -> Evaluation | None:
        """Validates; returns None if a signal arrived before or during the validation."""
        return self.on_chief(evaluator)

    def on_chief(self, function: Callable[[], Any]) -> Any:
        """Runs a function that only the chief calls.

        Returns its result; None if a signal arrived before or during the call.
        """
        return self._own_stop.interruptible(function)
