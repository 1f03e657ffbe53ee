"""Which devices train together, on TensorFlow's own engine, `tf.distribute`.

A replica is a copy of the model on one device. How replicas train is in `replicas`.
"""

import contextlib
import functools
import hashlib
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from command_line import quiet
from data_pipeline.files import UserError
from model_directory.directory import ModelDirectory
from model_directory.weight_files import read_archive, restore

SILENCE = 100  # Seconds until a worker that is not heard of counts as lost.

KINDS = ("none", "mirrored", "multi_worker", "tpu")


class Replicas:
    """The replicas of a run, spread over one or several workers: processes that each have as many.

    Args:
        strategy: a `tf.distribute.Strategy`; None for one device as ever.
        num_workers: processes that train together.
        worker: which of them this is, from 0, the chief, who alone writes the model directory.
    """

    def __init__(self, strategy=None, num_workers=1, worker=0):
        self.strategy = strategy
        self.num_workers = num_workers
        self.worker = worker
        self.num_replicas = strategy.num_replicas_in_sync if strategy else 1
        self.num_local = self.num_replicas // num_workers
        self.is_chief = worker == 0
        self._sum = tf.function(self._over_workers, autograph=False)

    @contextlib.contextmanager
    def scope(self):
        """A context in which variables are made that have a copy in every replica."""
        with self.errors(), self.strategy.scope() if self.strategy else contextlib.nullcontext():
            yield

    def directory(self, path):
        """The `ModelDirectory` at a path; only the chief can write it."""
        return ModelDirectory(path) if self.is_chief else _ReadOnlyDirectory(path)

    def distribute(self, values):
        """One value for each replica of this process, as an argument of `strategy.run`."""
        return self.strategy.experimental_distribute_values_from_function(
            lambda where: values[where.replica_id_in_sync_group % self.num_local]
        )

    def from_chief(self, *numbers):
        """The chief's numbers, as a list of float; every worker has to ask, and waits for all."""
        if self.num_workers == 1:
            return list(numbers)
        with self.errors():
            return self._sum(tf.constant(numbers, tf.float64)).numpy().tolist()

    def _over_workers(self, numbers):
        def of_replica(numbers):
            here = tf.distribute.get_replica_context()
            is_first = tf.equal(here.replica_id_in_sync_group, 0)
            return here.all_reduce("sum", tf.where(is_first, numbers, 0.0))

        found = self.strategy.run(of_replica, args=(numbers,))
        return self.strategy.experimental_local_results(found)[0]

    def join(self, directory, config):
        """Waits until all workers are here, and makes sure that they are of the same run.

        The chief comes once the run has begun in its directory, the others before they look at it.

        Raises:
            UserError: other flags, other text or another directory than the chief has.
        """
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).digest()
        mine = np.frombuffer(digest, np.uint32).astype(float).tolist()
        same = self.from_chief(*mine) == mine
        if self.is_chief:
            return
        if not directory.exists():
            raise UserError(
                f"worker {self.worker}: {directory.path} holds no run, but that of worker 0 does; "
                "--model_dir has to be a folder that all hosts share"
            )
        if not same:
            raise UserError(
                f"worker {self.worker} has other flags or text than worker 0; start "
                "the same command on the same text everywhere"
            )
        print(f"worker {self.worker} of {self.num_workers}: worker 0 writes {directory.path}")

    def describe(self, options):
        """Lines that say what an update takes."""
        if not self.strategy:
            return []
        batches = self.num_replicas * options["accumulate_steps"]
        tokens = batches * options["max_tokens_per_batch"]
        workers = f" at {self.num_workers} workers" if self.num_workers > 1 else ""
        return [
            f"replicas: {self.num_replicas}{workers}, each with batches of its own; an update "
            f"takes {batches:,} batches, of at most {tokens:,} tokens a side"
        ]

    @contextlib.contextmanager
    def errors(self):
        """Turns the loss of another worker into a `UserError`."""
        try:
            yield
        except tf.errors.OpError as error:
            if self.num_workers == 1:
                raise
            lines = error.message.splitlines()
            reason = next((line for line in lines if "aborted" in line), lines[0])
            raise UserError(
                f"worker {self.worker}: another worker has stopped or cannot be reached; start the "
                "same command on all hosts again, and the run goes on from its last save "
                f"({reason})"
            ) from None


class _NoLock:
    def acquire(self):
        pass

    def release(self):
        pass


class _ReadOnlyDirectory(ModelDirectory):
    """The model directory of a worker that is not the chief: writing does nothing."""

    def __init__(self, path):
        super().__init__(path)
        self.lock = _NoLock()
        self.tensorboard_path = None

    def restore_newest(self, variables):
        # The chief has set aside what is damaged, and removed what is unfinished.
        if not self.checkpoint_steps():
            return None
        path = self.checkpoint_path(self.checkpoint_steps()[-1])
        arrays, state = read_archive(path)
        restore(variables, arrays, path)
        return state

    def save_checkpoint(self, variables, state, *, keep, every):
        pass

    def keep_bad_batches(self, step, taken, state):
        return self.bad_batch_folder

    def rewind_metrics(self, step, evaluated_step):
        pass

    def append_metrics(self, record):
        pass


def start_replicas(options, kind, num_replicas=0, tpu_address=""):
    """Starts TensorFlow on the devices of a kind of distribution; to be called once, first of all.

    Args:
        options: of the training, as `recipes.options`.
        kind: one of `KINDS`.
        num_replicas: of "mirrored": how many devices; 0 for all GPUs, or one without a GPU. Where
            there is no GPU, the processor is shared out to as many logical devices.
        tpu_address: of "tpu": name or address; empty for that of `TPU_NAME`, or the local one.

    Returns:
        `Replicas`.

    Raises:
        UserError: the devices are not there, `TF_CONFIG` does not say which, or the options do not
            fit.
    """
    if num_replicas and kind != "mirrored":
        raise UserError(f"--num_replicas goes with --distribution=mirrored, found {kind}")
    if tpu_address and kind != "tpu":
        raise UserError(f"--tpu_address goes with --distribution=tpu, found {kind}")
    if kind != "none" and options["update"] == "em":
        raise UserError(
            f"--distribution={kind} shares out batches, and counting (--update=em, ngram_lm) takes "
            "the whole corpus; leave it out"
        )
    if kind == "tpu" and not options["pad_to_bucket"]:
        raise UserError("--distribution=tpu needs --pad_to_bucket: a TPU has static shapes")
    make = {
        "none": Replicas,
        "mirrored": functools.partial(_mirrored, num_replicas),
        "multi_worker": _multi_worker,
        "tpu": functools.partial(_tpu, tpu_address),
    }[kind]
    return quiet.start(options["intra_op_threads"], make)


def _mirrored(num_replicas):
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and num_replicas > len(gpus):
        raise UserError(f"--num_replicas={num_replicas}: found {len(gpus)} GPUs; give at most that")
    if gpus:
        names = [f"GPU:{i}" for i in range(num_replicas or len(gpus))]
        return Replicas(_mirrored_strategy(*names))
    count = num_replicas or 1
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    # In a process of tests, TensorFlow may have started with as many.
    with contextlib.suppress(RuntimeError):
        tf.config.set_logical_device_configuration(cpu, parts)
    return Replicas(_mirrored_strategy(*(f"CPU:{i}" for i in range(count))))


@functools.cache
def _mirrored_strategy(*devices):
    """Always the same one: sums over devices are numbered, by two strategies with equal numbers."""
    return tf.distribute.MirroredStrategy(devices)


def _multi_worker():
    num_workers, worker = read_cluster(os.environ.get("TF_CONFIG", ""))
    if num_workers > 1:
        print(f"worker {worker} of {num_workers}: waits for the others", flush=True)
    run_time = context.context()
    # By itself TensorFlow gives up on a worker after 10 seconds, which a busy machine may need.
    run_time.configure_coordination_service = functools.partial(
        run_time.configure_coordination_service, heartbeat_timeout_in_ms=1000 * SILENCE
    )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError) as error:
        raise UserError(
            f"TF_CONFIG: worker {worker} cannot start ({str(error).splitlines()[0]}); check that "
            "its address is this host's and its port free"
        ) from None
    return Replicas(strategy, num_workers, worker)


def read_cluster(text):
    """(number of workers, which of them this is) as the variable `TF_CONFIG` says.

    Example:
        >>> read_cluster('{"cluster": {"worker": ["a:2222", "b:2222"]},'
        ...              ' "task": {"type": "worker", "index": 1}}')
        (2, 1)
    """
    example = (
        'TF_CONFIG=\'{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
        '"task": {"type": "worker", "index": 0}}\''
    )
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        addresses = {kind: list(cluster.get(kind, [])) for kind in ("chief", "worker")}
        order = [(kind, i) for kind, found in addresses.items() for i in range(len(found))]
        return len(order), order.index((task["type"], int(task["index"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        found = f"found {text!r}" if text else "it is not set"
        raise UserError(
            f"--distribution=multi_worker: TF_CONFIG does not name the workers and which of them "
            f"this is: {found}; expected something like {example}"
        ) from None


def _tpu(address):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or None)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return Replicas(tf.distribute.TPUStrategy(resolver))
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"--distribution=tpu: no TPU found ({reason}); give --tpu_address, or leave out "
            "--distribution"
        ) from None
