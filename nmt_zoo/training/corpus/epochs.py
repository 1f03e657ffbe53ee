"""Plans the batches of every epoch of a run."""

import concurrent.futures
import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.data_pipeline.batching import Batching, EpochPlan
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.mixing import mixture
from nmt_zoo.data_pipeline.noise import shares_of
from nmt_zoo.data_pipeline.pipeline import describe, plan_batches
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer


@dataclass(eq=False)
class Epochs:
    """The corpus and all settings that determine the batches of an epoch, given its number."""

    corpus: EncodedCorpus
    batching: Batching  # Its `num_workers`: batches that the devices of the run take at once.
    seed: int  # Orders the pairs.
    # Encodes the corpus anew for every epoch; None: every epoch has the ids of `corpus`.
    text: EpochText | None = None
    folder: str | None = None  # Of the ids that `text` makes.
    _sampled: dict[int, Any] = field(default_factory=dict)  # Epoch -> `Future` of its corpus.

    def corpus_of(self, epoch: int) -> EncodedCorpus:
        """Returns the `EncodedCorpus` of an epoch, counted from 0."""
        if not self.text:
            return self.corpus
        if epoch not in self._sampled:
            self._sampled[epoch] = self._encoded(epoch)
        return self._sampled[epoch].result()

    def _encoded(self, epoch):
        """Encodes an epoch in a thread that ends with the program; returns the `Future` of it.

        A `ThreadPoolExecutor` would keep a finished run waiting for an epoch that is never read.
        """
        future = concurrent.futures.Future()

        def call():
            try:
                future.set_result(self.text.encode(self.corpus, epoch, self.folder))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return future

    def plan(self, epoch: int, num_replicas: int) -> EpochPlan:
        """Returns the `EpochPlan` of an epoch, counted from 0, for a number of replicas."""
        batching = self.batching._replace(num_workers=num_replicas)
        return plan_batches(self.corpus_of(epoch), batching, seed=self.seed, epoch=epoch)

    def begin(self, epoch: int, num_replicas: int) -> tuple[EncodedCorpus, EpochPlan]:
        """Returns the corpus and the plan of an epoch; encodes the next epoch in the background."""
        begun = self.corpus_of(epoch), self.plan(epoch, num_replicas)
        if self.text:
            following = self._sampled.get(epoch + 1) or self._encoded(epoch + 1)
            self._sampled = {epoch: self._sampled[epoch], epoch + 1: following}
        return begun

    @functools.cached_property
    def first(self) -> EpochPlan:
        """The `EpochPlan` of the first epoch on the devices of the run."""
        return self.plan(0, self.batching.num_workers)

    def num_updates(self, accumulate_steps: int) -> int:
        """Returns the number of updates of an epoch, the last of which may have fewer batches.

        If the text is encoded anew, epochs differ; this is the first epoch's number.
        """
        batches_an_update = self.batching.num_workers * accumulate_steps
        return -(-self.first.batch_sizes.size // batches_an_update)

    def describe(self, tokenizer: Tokenizer, in_batches: bool = True) -> list[str]:
        """Returns lines that describe the first epoch, and its batches if there are any."""
        plan = self.first if in_batches else None
        lines = describe(self.corpus_of(0), tokenizer, self.batching, plan)
        if self.text and self.text.dropout:
            usual = sum(side.ids.size for side in self.corpus)
            sampled = sum(side.ids.size for side in self.corpus_of(0))
            lines.append(
                f"BPE-dropout: {sampled / usual:.2f} times as many tokens as without; tokens and "
                "batches are those of the first epoch"
            )
        return lines


def make_epochs(
    encoded: Any, tokenizer: Tokenizer, options: Mapping[str, Any], num_replicas: int, folder: str
) -> Epochs:
    """Makes the `Epochs` of a `texts.Encoded` by training options; `folder` as `Epochs`.

    Raises:
        UserError: an option chooses the shares of several corpora, and there is one.
    """
    for name in ("corpus_weights", "temperature") if len(encoded.sizes) == 1 else ():
        if options[name] != DEFAULTS[name]:
            flag = f"--{name}={options[name]}".removesuffix(".0")
            raise UserError(
                f"{flag} chooses the shares of several corpora, and there is one; leave it out"
            )
    longest = max(int(side.lengths.max()) for side in encoded.corpus)
    text = altered = dropout = None
    common = options["seed"], options["max_length"]
    if shares := shares_of(options["noise"]):
        altered = AlteredPairs(tokenizer, shares, *common)
    if options["bpe_dropout"]:
        dropout = BpeDropout(tokenizer, options["bpe_dropout"], *common)
    if altered or dropout:
        longest = max(longest, options["max_length"])
        text = EpochText(options["max_length"], altered, dropout)
    batching = Batching(
        options["max_tokens_per_batch"],
        options["max_sentences_per_batch"],
        longest=longest if options["pad_to_bucket"] else 0,
        num_workers=num_replicas,
        mixture=mixture(encoded.sizes, options["corpus_weights"], options["temperature"]),
    )
    return Epochs(encoded.corpus, batching, options["seed"], text, folder)
