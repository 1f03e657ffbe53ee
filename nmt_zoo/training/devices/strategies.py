"""Starts the devices that train together, with `tf.distribute`.

A replica is a copy of the model on one device. `replicas` implements their training.
"""

import contextlib
import functools
import json
import os
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context  # Nothing public does the same.

from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.devices.replicas import Replicas
from nmt_zoo.training.ways.catalogue import WAYS

SILENCE = 100  # Seconds without a heartbeat until a worker counts as lost.

KINDS = ("none", "mirrored", "multi_worker", "tpu")


def start_devices(options: dict[str, Any], kind: str, num_replicas: int = 0) -> OneDevice:
    """Starts TensorFlow on the devices of a kind of `KINDS`; call it once, before other work.

    For "mirrored", `num_replicas` is the number of devices; 0 for all GPUs, or for one device if
    there is no GPU. Without a GPU, the processor is split into as many logical devices.

    Raises:
        UserError: the devices are missing, `TF_CONFIG` does not name them, or the options do not
            fit them.
    """
    if kind == "tpu" and not options["pad_to_bucket"]:
        raise UserError("--distribution=tpu needs --pad_to_bucket: a TPU has static shapes")
    if kind != "none" and not WAYS[options["update"]].takes_batches:
        raise UserError(
            f"--distribution={kind} divides batches among devices, but --update=em and ngram_lm "
            "read the whole corpus at once; leave it out"
        )
    make = {
        "none": OneDevice,
        "mirrored": functools.partial(_mirrored, num_replicas),
        "multi_worker": _multi_worker,
        "tpu": _tpu,
    }[kind]
    threads = options["intra_op_threads"]
    return process.start_tensorflow(threads or _threads_of_replica(kind, num_replicas), make)


def _threads_of_replica(kind, num_replicas):
    """Returns how many threads share an operation of a replica; 0: as TensorFlow decides.

    Replicas on one processor are faster if each has cores of its own.
    """
    is_divided = kind == "mirrored" and num_replicas > 1
    if (
        not is_divided
        or tf.config.list_physical_devices("GPU")
        or "TF_NUM_INTRAOP_THREADS" in os.environ
    ):
        return 0
    return max(num_cores() // num_replicas, 1)


def _mirrored(num_replicas):
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and num_replicas > len(gpus):
        raise UserError(
            f"--num_replicas={num_replicas}: only {len(gpus)} GPUs found; give a smaller number"
        )
    if gpus:
        names = [f"GPU:{i}" for i in range(num_replicas or len(gpus))]
        return Replicas(_mirrored_strategy(*names))
    count = num_replicas or 1
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    # In a process that runs tests, TensorFlow may already have started with these devices.
    with contextlib.suppress(RuntimeError):
        tf.config.set_logical_device_configuration(cpu, parts)
    return Replicas(_mirrored_strategy(*(f"CPU:{i}" for i in range(count))))


@functools.cache
def _mirrored_strategy(*devices):
    """Cached, because two strategies in one process would reuse the same collective keys."""
    return tf.distribute.MirroredStrategy(devices)


def _multi_worker():
    num_workers, worker = read_cluster(os.environ.get("TF_CONFIG", ""))
    if num_workers > 1:
        print(f"worker {worker} of {num_workers}: waiting for the others", flush=True)
    run_time = context.context()
    # TensorFlow's default is 10 seconds, which a heartbeat from a busy machine may exceed.
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


def read_cluster(text: str) -> tuple[int, int]:
    """Returns (number of workers, number of this worker) from the text of `TF_CONFIG`.

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
        order = [(kind, i) for kind, hosts in addresses.items() for i in range(len(hosts))]
        return len(order), order.index((task["type"], int(task["index"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = f"found {text!r}" if text else "it is not set"
        raise UserError(
            "--distribution=multi_worker: TF_CONFIG must list the workers and the index of this "
            f"one: {reason}; expected something like {example}"
        ) from None


def _tpu():
    address = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return Replicas(tf.distribute.TPUStrategy(resolver))
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"--distribution=tpu: no TPU found at {address!r} ({reason[:100]}); install "
            "TensorFlow's package for TPUs (docs/devices.md), name another "
            "TPU in the variable TPU_NAME, or leave out --distribution"
        ) from None
