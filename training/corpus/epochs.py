"""Plans the batches of every epoch of a run."""

import functools

from data_pipeline.pipeline import describe, plan_batches


class Epochs:
    """The corpus and all settings that determine the batches of an epoch, given its number.

    Args:
        corpus: `EncodedCorpus` to train on.
        batching: `data_pipeline.batching.Batching`; its `num_workers` is the number of batches that
            the devices of the run take at once.
        seed: seed of the order of pairs.
    """

    def __init__(self, corpus, batching, seed):
        self.corpus = corpus
        self.batching = batching
        self.seed = seed

    def plan(self, epoch, num_replicas):
        """Returns the `EpochPlan` of an epoch, counted from 0, for a number of replicas."""
        batching = self.batching._replace(num_workers=num_replicas)
        return plan_batches(self.corpus, batching, seed=self.seed, epoch=epoch)

    @functools.cached_property
    def first(self):
        """The `EpochPlan` of the first epoch on the devices of the run."""
        return self.plan(0, self.batching.num_workers)

    def num_updates(self, accumulate_steps):
        """Returns the number of updates of an epoch, the last of which may have fewer batches."""
        batches_an_update = self.batching.num_workers * accumulate_steps
        return -(-self.first.batch_sizes.size // batches_an_update)

    def describe(self, tokenizer):
        """Returns lines that describe the first epoch."""
        return describe(self.corpus, tokenizer, self.batching, self.first)
