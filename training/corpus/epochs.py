"""The batches of every epoch of a run."""

import functools

from data_pipeline.pipeline import describe, plan_batches


class Epochs:
    """Plans the batches of a run: everything that they depend on but the number of the epoch.

    Args:
        corpus: `EncodedCorpus` to train on.
        max_tokens: budget of a batch.
        seed: seed of the order of pairs.
        num_replicas: how many batches the devices of the run take at once.
        **batching: more options of `data_pipeline.pipeline.plan_batches`, such as `shapes`.
    """

    def __init__(self, corpus, max_tokens, seed, *, num_replicas=1, **batching):
        self.corpus = corpus
        self.max_tokens = max_tokens
        self.seed = seed
        self.num_replicas = num_replicas
        self.batching = batching

    def plan(self, epoch, num_replicas):
        """Returns the `EpochPlan` of an epoch, counted from 0, for a number of replicas."""
        return plan_batches(
            self.corpus,
            self.max_tokens,
            seed=self.seed,
            epoch=epoch,
            num_workers=num_replicas,
            **self.batching,
        )

    @functools.cached_property
    def first(self):
        """The `EpochPlan` of the first epoch on the devices of the run."""
        return self.plan(0, self.num_replicas)

    def describe(self, tokenizer):
        """Returns lines that describe the first epoch."""
        return describe(
            self.corpus, tokenizer, self.max_tokens, self.seed, plan=self.first, **self.batching
        )
