"""Replicas of a model that train together, each on its own batches."""

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import EpochPlan
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive, restore
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.devices.replicated_update import ReplicaAdam, ReplicatedStep, Share
from nmt_zoo.training.stopping import StopRequest
from nmt_zoo.training.validation.evaluation import Evaluation
from nmt_zoo.training.ways.base import WayOfTraining
from nmt_zoo.training.ways.gradient.gradient import Gradient


def places(num_batches: int, first: int, num_replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """Assigns the batches of an epoch, from number `first` on, to R = `num_replicas` replicas.

    Returns:
        (`[steps, R]` numbers of batches, `[steps, R]` float32 weights). If too few batches are left
        for the last step, the last batch fills the free places, with weight 0 instead of 1.
    """
    numbers = np.arange(first, num_batches, num_replicas)[:, None] + np.arange(num_replicas)
    weights = (numbers < num_batches).astype(np.float32)
    return np.minimum(numbers, num_batches - 1), weights


class Replicas(OneDevice):
    """The replicas of a run, spread evenly over one or several workers, which are processes.

    A request to stop travels with the sums of a step, so all workers stop one step after it.
    `worker` is the number of this process. Worker 0 is the chief, which alone writes the model
    directory.
    """

    make_adam = ReplicaAdam

    def __init__(self, strategy: tf.distribute.Strategy, num_workers: int = 1, worker: int = 0):
        self.strategy = strategy
        self.num_workers = num_workers
        self.worker = worker
        self.num_replicas = strategy.num_replicas_in_sync
        self.num_local = self.num_replicas // num_workers
        self.is_chief = worker == 0
        # Returns two numbers, 0 or 1: whether this process asks to stop, and whether time is over.
        self.requests = lambda: (0.0, 0.0)
        self._late = False

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        with self.errors(), self.strategy.scope():
            yield

    def directory(self, path: str) -> ModelDirectory:
        return ModelDirectory(path) if self.is_chief else _ReadOnlyDirectory(path)

    def distribute(self, values: list) -> Any:
        """Returns the values, one for each replica of this process, to pass to `strategy.run`."""
        return self.strategy.experimental_distribute_values_from_function(
            lambda where: values[where.replica_id_in_sync_group % self.num_local]
        )

    def from_chief(self, *numbers: float) -> list[float]:
        """Returns the chief's numbers, a list of float; all workers must call it, and wait."""
        if self.num_workers == 1:
            return list(numbers)
        with self.errors():
            return self._over_workers(tf.constant(numbers, tf.float64)).numpy().tolist()

    @tf.function(autograph=False)
    def _over_workers(self, numbers):
        def of_replica(numbers):
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(context.replica_id_in_sync_group, 0)
            return context.all_reduce("sum", tf.where(is_first, numbers, 0.0))

        sums = self.strategy.run(of_replica, args=(numbers,))
        return self.strategy.experimental_local_results(sums)[0]

    def wait_for_workers(self, directory: ModelDirectory, config: dict[str, Any]) -> None:
        """Waits until all workers have called this, and checks that they train the same run.

        The chief calls it after it has started the model directory, all other workers before they
        read the directory.

        Raises:
            UserError: flags, text or directory differ from the chief's.
        """
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).digest()
        mine = np.frombuffer(digest, np.uint32).astype(float).tolist()
        same = self.from_chief(*mine) == mine
        if self.is_chief:
            return
        if not directory.exists():
            raise UserError(
                f"worker {self.worker}: {directory.path} holds no run here, but it does on worker "
                "0; --model_dir must be a folder that all hosts share"
            )
        if not same:
            raise UserError(
                f"worker {self.worker} has other flags or text than worker 0; run the same command "
                "on the same text on all hosts"
            )
        print(f"worker {self.worker} of {self.num_workers}: worker 0 writes {directory.path}")

    def describe(self, options: dict[str, Any]) -> list[str]:
        batches = self.num_replicas * options["accumulate_steps"]
        tokens = batches * options["max_tokens_per_batch"]
        workers = f" at {self.num_workers} workers" if self.num_workers > 1 else ""
        return [
            f"replicas: {self.num_replicas}{workers}, each with its own batches; an update uses "
            f"{batches:,} batches, at most {tokens:,} tokens per side"
        ]

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            if self.num_workers == 1:
                raise
            lines = error.message.splitlines()
            reason = next((line for line in lines if "aborted" in line), lines[0])
            raise UserError(
                f"worker {self.worker}: another worker has stopped or cannot be reached; run the "
                f"same command on all hosts to resume from the last save ({reason})"
            ) from None

    def replicate(self, way: Gradient) -> WayOfTraining:
        way.step = ReplicatedStep(way, self)
        return way

    # For the training loop

    def begin(self, stop: StopRequest, is_late: Callable[[], bool]) -> StopRequest:
        self._own_stop, self._is_late = stop, is_late
        self._stop = StopRequest()
        self.requests = lambda: (float(bool(stop)), float(self.is_chief and is_late()))
        return self._stop

    def end(self) -> None:
        self.from_chief(0)  # The chief may still be scoring an average.

    def resume(self, restore: Callable[[], None], step: int) -> None:
        if self.is_chief:
            restore()
        (chiefs,) = self.from_chief(step())
        if not self.is_chief:
            restore()
            if step() != chiefs:
                raise UserError(
                    f"worker {self.worker}: the model directory is at step {step():,} here, but at "
                    f"step {chiefs:,.0f} on worker 0; --model_dir must be a folder that all hosts "
                    "share"
                )
        (late,) = self.from_chief(float(self._is_late()))
        self._late = late > 0

    def batches(self, corpus: EncodedCorpus, plan: EpochPlan, first: int) -> Iterator[Share]:
        numbers, weights = places(plan.batch_sizes.size, first, self.num_replicas)
        local = slice(*(self.num_local * (self.worker + i) for i in (0, 1)))
        left = iter(dataset_of(corpus, plan.select(numbers[:, local].ravel())))
        for of_step, weight in zip(numbers, weights, strict=True):
            batches = [next(left) for _ in of_step[local]]
            yield Share(batches, weight[local], plan.select(of_step[weight > 0]), corpus)

    def all_batches(self, group: list) -> list:
        return [batch for share in group for batch in dataset_of(share.corpus, share.plan)]

    def read_requests(self, values: dict[str, tuple]) -> dict[str, tuple]:
        values = dict(values)
        stop, late = (float(values.pop(name)[0]) for name in ("stop", "late"))
        self._late = self._late or late > 0
        if stop:
            self._stop_everywhere()
        return values

    def _stop_everywhere(self):
        self._stop.note(self._own_stop.signal_number or signal.SIGTERM)

    def is_late(self) -> bool:
        return self._late

    def is_due(self, is_due_here: bool, at_record: bool) -> bool:
        # Only several workers have to agree, which they do at records.
        return (at_record or self.num_workers == 1) and self.from_chief(float(is_due_here))[0] > 0

    def score(self, evaluator: Callable[[], Evaluation]) -> Evaluation | None:
        """As `OneDevice.score`: the chief's `Evaluation`, in every process."""
        evaluation = super().on_chief(evaluator) if self.is_chief else None
        nan = float("nan")
        numbers = [0.0, nan, nan]
        if evaluation:
            bleu = nan if evaluation.bleu is None else evaluation.bleu
            numbers = [1.0, evaluation.perplexity, bleu]
        is_whole, perplexity, bleu = self.from_chief(*numbers)
        if not is_whole:
            self._stop_everywhere()
            return None
        return evaluation or Evaluation(perplexity, None if np.isnan(bleu) else bleu, [])

    def on_chief(self, function: Callable[[], Any]) -> Any:
        result = super().on_chief(function)
        if self._own_stop:
            self._stop_everywhere()
        return result


def _do_nothing(*_, **__):
    pass


class _ReadOnlyDirectory(ModelDirectory):
    """The model directory as workers other than the chief use it: methods that write do nothing."""

    def __init__(self, path):
        super().__init__(path)
        self.lock = SimpleNamespace(acquire=_do_nothing, release=_do_nothing)
        self.tensorboard_path = None

    def restore_newest(self, variables: dict[str, Any]) -> Any:
        # The chief has already set aside damaged checkpoints and removed unfinished files.
        if not self.checkpoint_steps():
            return None
        path = self.checkpoint_path(self.checkpoint_steps()[-1])
        arrays, state = read_archive(path)
        restore(variables, arrays, path)
        return state

    def best_state(self) -> Any:
        return self._read_best()[1] if self.best_path.exists() else None

    def keep_bad_batches(self, step: int, batches: Any, state: dict[str, Any]) -> Any:
        return self.bad_batch_folder

    save_checkpoint = write_best = rewind_metrics = append_metrics = _do_nothing
