"""The update that all replicas of a model make together.

The gradient of an update is the mean over the batches of all replicas, weighted by their tokens or
sentences. So R replicas with one batch each do the same as one device that accumulates R batches.
All copies of a variable change by the same gradient, and so stay equal.
"""

import contextlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.batching import EpochPlan
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.gradient.accumulator import mean, summands
from nmt_zoo.training.ways.gradient.adam import FusedAdam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE


class Share(NamedTuple):
    """This process's share of one global step."""

    batches: list  # one for each replica of this process
    weights: np.ndarray  # [len(batches)] float32, 0 where a batch only fills a place, else 1
    plan: EpochPlan  # of the batches of all replicas
    corpus: EncodedCorpus  # that the plan is for


class ReplicaAdam(FusedAdam):
    """Adam that each replica runs on its own copies, with the gradient summed over all replicas."""

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        # By default only the first replica would count, and the others wait for it; an update
        # inside of a conditional cannot wait.
        self.iterations.value._aggregation = tf.VariableAggregation.NONE  # pyright: ignore[reportAttributeAccessIssue]

    def _apply_weight_decay(self, variables):
        for variable in variables if self.weight_decay else ():
            if self._use_weight_decay(variable):
                rate = tf.cast(self.learning_rate, variable.dtype)
                variable.assign_sub(variable * self.weight_decay * rate)


class ReplicatedStep:
    """The step of a `Gradient`, made in the scope of the replicas, that they make together."""

    def __init__(self, way: Gradient, replicas: Any):
        self.way, self.accumulator = way, way.accumulator
        self.replicas = replicas
        weights = {id(v) for v in way.model.weights}
        self.seeds = [v for v in way.model.variables if id(v) not in weights]
        if way.token_dropout:
            self.seeds.append(way.token_dropout.seed)
        self._step_alone, self._add, self._step_with_added = self._make_functions()

    def __call__(self, *shares: Any) -> dict[str, tuple]:
        """As `Gradient.step`, on the batches of all replicas.

        The `Share`s are of this process, one for each global step that is accumulated. Also returns
        `stop` and `late`: numbers of replicas whose process asks to stop, or finds time is over.
        """
        if len(shares) > 1:
            with self.replicas.scope():
                self.accumulator.build()
        last = self._step_alone if len(shares) == 1 else self._step_with_added
        for share in shares[:-1]:
            self._add(share.batches, share.weights)
        requests = np.array(self.replicas.requests(), np.float32)
        return last(shares[-1].batches, shares[-1].weights, requests)

    def _make_functions(self):
        """Makes the graphs of a step, as those of `Gradient`."""
        find = self.way.gradients
        if self.way.jit_compile:  # XLA cannot compile the sums over replicas.
            find = tf.function(find, jit_compile=True, autograph=False)

        def of_replica(batch, weight):
            with self._dropout_of_replica():
                gradients, sums = find(batch)
            return summands(gradients, sums * weight)

        def alone(batch, weight, requests):
            return self._finish(of_replica(batch, weight), requests)

        def add(batch, weight):
            self.accumulator.add(of_replica(batch, weight))

        def with_added(batch, weight, requests):
            add(batch, weight)
            return self._finish(self.accumulator.take(), requests)

        count = self.replicas.num_local
        batches, weights = [BATCH_SIGNATURE] * count, tf.TensorSpec([count])
        requests = tf.TensorSpec([2])
        return (
            self._in_every_replica(alone, batches, weights, requests),
            self._in_every_replica(add, batches, weights),
            self._in_every_replica(with_added, batches, weights, requests),
        )

    def _finish(self, of_replica, requests):
        """Makes the update in a replica, from its `summands` and its process's requests to stop."""
        context = tf.distribute.get_replica_context()
        both = tf.concat([of_replica[-1], requests], 0)
        *gradients, sums = context.all_reduce("sum", [*of_replica[:-1], both])
        metrics = self.way.apply(*mean([*gradients, sums[:4]]))
        return {**metrics, "stop": (sums[4], tf.ones([])), "late": (sums[5], tf.ones([]))}

    def _in_every_replica(self, function, *signature):
        """Returns a graph that runs a function in the replicas of this process."""
        strategy = self.replicas.strategy

        def run(batches, weights, *requests):
            pairs = zip(batches, tf.unstack(weights), strict=True)
            shared = self.replicas.distribute([(*pair, *requests) for pair in pairs])
            values = strategy.run(lambda arguments: function(*arguments), args=(shared,))
            return tf.nest.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], values
            )

        # A TPU needs static shapes, so a program is traced for every shape.
        signature = None if isinstance(strategy, tf.distribute.TPUStrategy) else signature
        return tf.function(run, input_signature=signature, autograph=False)

    @contextlib.contextmanager
    def _dropout_of_replica(self):
        """Shifts the seeds of all dropout by the number of the replica, until the context ends."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(tf.stack([number, 0]), tf.int64)
        for seed in self.seeds:
            seed.assign(seed + shift)
        yield
        for seed in self.seeds:
            seed.assign(seed - shift)
