"""How replicas of a model train as one: each has batches of its own, all make the same update.

The gradient of an update is that of the batches of all replicas as if they were one, weighted by
their tokens or sentences, so R replicas with a batch each do what one device does that accumulates
R batches. Every copy of a variable changes by the same gradient, and so all stay equal.
"""

import contextlib
import signal
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.batching import EpochPlan
from data_pipeline.files import UserError
from data_pipeline.pipeline import dataset_of
from training.evaluation import Evaluation
from training.loop import Trainer
from training.stopping import StopRequest
from training.updates.gradient import BATCH_SIGNATURE, FusedAdam, GradientUpdate, LikelihoodUpdate


def places(num_batches, first, num_replicas):
    """Which batches of an epoch the replicas take.

    Args:
        num_batches: of the epoch.
        first: number of the first that is left.
        num_replicas: R.

    Returns:
        (`[steps, R]` numbers of batches, `[steps, R]` float32 weights). Where too few are left for
        the last step, the last of all fills the places, with the weight 0 instead of 1.
    """
    numbers = np.arange(first, num_batches, num_replicas)[:, None] + np.arange(num_replicas)
    weights = (numbers < num_batches).astype(np.float32)
    return np.minimum(numbers, num_batches - 1), weights


class Share(NamedTuple):
    """What the replicas of a process take of the batches that all replicas take at once.

    Attributes:
        batches: list of batches, one for each replica of this process.
        weights: `[len(batches)]` float32, 0 where a batch only fills a place, else 1.
        plan: `EpochPlan` of the batches of all replicas.
    """

    batches: list
    weights: np.ndarray
    plan: EpochPlan


class ReplicaAdam(FusedAdam):
    """Adam that each replica runs on its own copies, by a gradient that is that of all already."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        # Keras would have the first replica count, which a conditional update cannot wait for.
        self.iterations.value._aggregation = tf.VariableAggregation.NONE

    def _backend_update_step(self, gradients, variables, learning_rate):
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)

    def _apply_weight_decay(self, variables):
        for variable in variables if self.weight_decay else ():
            if self._use_weight_decay(variable):
                rate = tf.cast(self.learning_rate, variable.dtype)
                variable.assign_sub(variable * self.weight_decay * rate)


class _Replicated:
    """Makes a `GradientUpdate` one of all replicas.

    Args:
        *args, **settings: of `GradientUpdate`.
        replicas: `Replicas`, in whose scope model and optimizer were made, and this is, too.
    """

    def __init__(self, *args, replicas, **settings):
        self.replicas = replicas
        self.wishes = lambda: (0.0, 0.0)  # Of this process: to stop, and that time is over.
        super().__init__(*args, **settings)
        weights = {id(v) for v in self.model.weights}
        self.seeds = [v for v in self.model.variables if id(v) not in weights]

    def step(self, *shares):
        """As `GradientUpdate.step`, of the batches of all replicas.

        Args:
            *shares: each a `Share`, of this process.

        Returns:
            As `GradientUpdate.step`, and `stop` and `late`: how many replicas wish it.
        """
        if len(shares) > 1 and self.earlier is None:
            shapes = [*(v.shape for v in self.model.trainable_variables), [4]]
            with self.replicas.scope():
                self.earlier = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        last = self._step_alone if len(shares) == 1 else self._step_with_earlier
        for share in shares[:-1]:
            self._add(share.batches, share.weights)
        return last(shares[-1].batches, shares[-1].weights, np.array(self.wishes(), np.float32))

    def _make_functions(self):
        strategy, find = self.replicas.strategy, self._gradients
        if self.jit_compile:  # What is between replicas is not for XLA.
            find = tf.function(find, jit_compile=True, autograph=False)

        def parts(batch, weight):
            with self._dropout_of_replica():
                gradients, sums = find(batch)
            sums *= weight
            return [*(g * sums[0] for g in gradients), sums]

        def finish(parts, wishes):
            context = tf.distribute.get_replica_context()
            parts = [*parts[:-1], tf.concat([parts[-1], wishes], 0)]
            *gradients, sums = context.all_reduce("sum", parts)
            metrics = self._apply([g / sums[0] for g in gradients], sums[:4])
            return {**metrics, "stop": (sums[4], tf.ones([])), "late": (sums[5], tf.ones([]))}

        def alone(batch, weight, wishes):
            return finish(parts(batch, weight), wishes)

        def add(batch, weight):
            for total, part in zip(self.earlier, parts(batch, weight), strict=True):
                total.assign_add(part)

        def with_earlier(batch, weight, wishes):
            add(batch, weight)
            totals = [tf.identity(total) for total in self.earlier]
            for total in self.earlier:
                total.assign(tf.zeros_like(total))
            return finish(totals, wishes)

        def in_every_replica(function, *signature):
            def run(batches, weights, *wishes):
                each = zip(batches, tf.unstack(weights), strict=True)
                shared = self.replicas.distribute([(*one, *wishes) for one in each])
                values = strategy.run(lambda of_replica: function(*of_replica), args=(shared,))
                return tf.nest.map_structure(
                    lambda value: strategy.experimental_local_results(value)[0], values
                )

            # A TPU has a program for every shape.
            signature = None if isinstance(strategy, tf.distribute.TPUStrategy) else signature
            return tf.function(run, input_signature=signature, autograph=False)

        count = self.replicas.num_local
        batches, weights = [BATCH_SIGNATURE] * count, tf.TensorSpec([count])
        wishes = tf.TensorSpec([2])
        return (
            in_every_replica(alone, batches, weights, wishes),
            in_every_replica(add, batches, weights),
            in_every_replica(with_earlier, batches, weights, wishes),
        )

    @contextlib.contextmanager
    def _dropout_of_replica(self):
        """While it lasts, the seeds of dropout are other ones in every replica."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(tf.stack([number, 0]), tf.int64)
        for seed in self.seeds:
            seed.assign(seed + shift)
        yield
        for seed in self.seeds:
            seed.assign(seed - shift)


class ReplicatedGradientUpdate(_Replicated, GradientUpdate):
    """`GradientUpdate` of all replicas; see `_Replicated`."""


class ReplicatedLikelihoodUpdate(_Replicated, LikelihoodUpdate):
    """`LikelihoodUpdate` of all replicas; see `_Replicated`."""


REPLICATED = {
    GradientUpdate: ReplicatedGradientUpdate,
    LikelihoodUpdate: ReplicatedLikelihoodUpdate,
}


class ReplicaTrainer(Trainer):
    """`Trainer` whose replicas have a batch each; all workers run it, and the chief alone writes.

    Workers agree on when to stop with the sums of a step, so they do it a step later than asked.

    Args:
        *args, **options: of `Trainer`.
        replicas: `Replicas`.
    """

    def __init__(self, *args, replicas, **options):
        super().__init__(*args, **options)
        self.replicas = replicas
        self.num_replicas = replicas.num_replicas
        self.share = replicas.from_chief
        self.update.wishes = self._wishes

    def _run(self):
        self.asked, self.stop = self.stop, StopRequest()  # Of this process, and agreed on.
        with self.replicas.errors():
            result = super()._run()
            self.replicas.from_chief(0)  # The chief may still have scored an average.
        return result

    def _resume(self):
        if self.replicas.is_chief:
            super()._resume()
        position = [self.state[name] for name in ("step", "epoch", "batch")]
        chiefs = self.replicas.from_chief(*position)
        if not self.replicas.is_chief:
            super()._resume()
            if self.state["step"] != chiefs[0]:
                raise UserError(
                    f"worker {self.replicas.worker}: {self.directory.path} is at step "
                    f"{self.state['step']:,}, that of worker 0 at step {chiefs[0]:,.0f}; "
                    "--model_dir has to be a folder that all hosts share"
                )
        (late,) = self.replicas.from_chief(float(self._is_late()))
        self.late = late > 0

    def _wishes(self):
        return float(bool(self.asked)), float(self.replicas.is_chief and self._is_late())

    def _is_late(self):
        return self.limits.is_late(self.state["seconds"], self._closing_seconds())

    def _save_is_due(self):
        # The workers agree on it where all have counted the same steps.
        if self.state["step"] % self.limits.log_every_steps:
            return False
        return self.replicas.from_chief(float(super()._save_is_due()))[0] > 0

    def _finished(self):
        reason = self.limits._replace(max_minutes=0).reached(self.state, self.keep_best_by)
        self.reason = reason or (f"{self.limits.max_minutes:g} minutes" if self.late else None)
        return self.reason is not None

    def _batches(self):
        plan, num_replicas = self._plan(), self.num_replicas
        numbers, weights = places(plan.batch_sizes.size, self.state["batch"], num_replicas)
        local = slice(*(self.replicas.num_local * (self.replicas.worker + i) for i in (0, 1)))
        left = iter(dataset_of(self.corpus, plan.select(numbers[:, local].ravel())))
        for each, weight in zip(numbers, weights, strict=True):
            batches = [next(left) for _ in each[local]]
            yield Share(batches, weight[local], plan.select(each[weight > 0]))

    def _count(self):
        if self.taken:
            values = self.taken[2]
            stop, late = (float(values.pop(name)[0]) for name in ("stop", "late"))
            self.late = self.late or late > 0
            if stop:
                self._agree_to_stop()
        super()._count()

    def _agree_to_stop(self):
        self.stop.note(self.asked.signal_number or signal.SIGTERM)

    def _skip(self, step, taken, values):
        taken = [batch for share in taken for batch in dataset_of(self.corpus, share.plan)]
        super()._skip(step, taken, values)

    def _score(self):
        """The chief's `Evaluation`, at every worker."""
        evaluation = None
        if self.replicas.is_chief:
            with self.asked.cutting_short():
                evaluation = self.evaluator()
        found, nan = evaluation, float("nan")
        numbers = [0.0, nan, nan]
        if found:
            numbers = [1.0, found.perplexity, nan if found.bleu is None else found.bleu]
        is_whole, perplexity, bleu = self.share(*numbers)
        if not is_whole:
            self._agree_to_stop()
            return None
        return evaluation or Evaluation(perplexity, None if np.isnan(bleu) else bleu, [])

    def _average(self):
        if self.replicas.is_chief:
            self.share = lambda *numbers: numbers  # The others wait for the end.
            super()._average()

    def _record(self, kind, values):
        if self.replicas.is_chief:
            super()._record(kind, values)

    def _keep_best(self, arrays, evaluation, **more):
        if self.replicas.is_chief:
            super()._keep_best(arrays, evaluation, **more)
