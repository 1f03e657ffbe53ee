"""Facts of a corpus that a model stores before training, however it is trained."""

from typing import Any

import keras
import numpy as np

from nmt_zoo import models
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.counting.counting import estimate
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import LIKELY, NULL, align_text
from nmt_zoo.training.ways.phrases import phrase_table, rules
from nmt_zoo.training.ways.phrases.extraction import link_text


class Preparation:
    """Facts of a corpus that its model needs before training; most models need none.

    `settings` are all settings of the model; `vocab_sizes` are the numbers of ids of each side. The
    attribute `sizes` holds numbers by name, for the `corpus_sizes` of the model's class.
    """

    # Whether a checkpoint has all of the facts, so that a resumed run need not find them again.
    is_in_checkpoints = False

    def __init__(
        self,
        corpus: EncodedCorpus,
        settings: dict[str, Any] | None = None,
        vocab_sizes: tuple[int, int] = (0, 0),
    ):
        self.corpus, self.settings, self.vocab_sizes = corpus, settings or {}, vocab_sizes
        self.sizes = self.find()

    def find(self) -> dict[str, int]:
        """Finds the facts; returns the `sizes`."""
        return {}

    def fill(self, model: keras.Model) -> None:
        """Stores the facts in a fresh model."""

    def report(self) -> list[str]:
        """Returns lines that describe the facts, for the start of a run."""
        return []


class LengthPlan(Preparation):
    """The lengths of translations, for models that plan them."""

    def fill(self, model: keras.Model) -> None:
        model.length.parameters.assign(length_model(self.corpus))


class WordTable(LengthPlan):
    """The word pairs of a corpus, for models with a translation table."""

    def find(self) -> dict[str, int]:
        threads = min(num_cores(), 8)
        self.text = ChunkedText(self.corpus, both=False, target_end=True, threads=threads)
        return {"num_word_pairs": self.text.directions[0].rows.num_pairs}

    def fill(self, model: keras.Model) -> None:
        model.table.set_word_pairs(*self.text.directions[0].word_pairs())
        super().fill(model)

    def fill_reverse(self, model: keras.Model) -> None:
        """As `fill`, for a fresh model of the reverse direction, which `text` has from then on."""
        self.text.add_reverse()
        model.table.set_word_pairs(*self.text.directions[1].word_pairs())
        LengthPlan(EncodedCorpus(*self.corpus[::-1])).fill(model)


class NgramTable(Preparation):
    """The n-grams of a target text, counted and smoothed."""

    def find(self) -> dict[str, int]:
        self.table = estimate(self.corpus.target, self.vocab_sizes[1], self.settings["order"])
        return {"num_ngrams": self.table.keys.size}

    def fill(self, model: keras.Model) -> None:
        model.fill(self.table)

    def report(self) -> list[str]:
        lines = [f"{n}-grams: {count:,}" for n, count in enumerate(self.table.num_ngrams, start=2)]
        both = zip(self.table.discounts, self.table.estimated, strict=True)
        for n, (off, estimated) in enumerate(both, start=1):
            origin = "" if estimated else " (fixed: the text has too few counts to estimate them)"
            lines.append(f"discounts of {n}-grams: {', '.join(f'{d:.3f}' for d in off)}{origin}")
        return lines


class PhraseTables(Preparation):
    """The phrase table and the language model of a corpus, whose words are aligned first."""

    is_in_checkpoints = True
    estimate = staticmethod(phrase_table.estimate)
    entries = "phrase pairs"

    def find(self) -> dict[str, int]:
        corpus, settings, vocab_sizes = self.corpus, self.settings, self.vocab_sizes
        numbered = tuple(
            side._replace(ids=np.where(side.ids == EOS_ID, NULL, side.ids)) for side in corpus
        )
        (links,) = align_text(numbered, threshold=LIKELY)
        self.table, self.num_found = self.estimate(
            corpus,
            link_text(corpus, links),
            vocab_sizes,
            max_length=settings["max_phrase_length"],
            most=settings["translations"],
        )
        self.ngrams = estimate(corpus.target, vocab_sizes[1], settings["order"])
        return {
            "num_source_phrases": self.table.source_keys.size - 1,
            "num_phrase_pairs": self.table.links.size,
            "num_target_words": self.table.target_words.size,
            "num_ngrams": self.ngrams.keys.size,
        }

    def fill(self, model: keras.Model) -> None:
        model.fill(self.table, self.ngrams)

    def report(self) -> list[str]:
        num_kept = self.table.links.size
        return [
            f"{self.entries}: {self.num_found:,} found, {num_kept:,} kept (the best of each "
            "source side)",
            f"n-grams of the language model: {self.ngrams.keys.size:,}",
        ]


class RuleTables(PhraseTables):
    """As `PhraseTables`, of rules with gaps."""

    estimate = staticmethod(rules.estimate)
    entries = "rules"


# By the `corpus_facts` of a model's class.
PREPARATIONS = {
    "": Preparation,
    "lengths": LengthPlan,
    "word pairs": WordTable,
    "n-grams": NgramTable,
    "phrases": PhraseTables,
    "rules": RuleTables,
}


def prepare(
    corpus: EncodedCorpus, config: dict[str, Any], resumed: ModelDirectory | None = None
) -> Preparation:
    """Makes the `Preparation` of a model; `config` has the sizes of its vocabularies.

    `resumed` is the directory of a run that is resumed from a checkpoint, if it is.
    """
    preset = config["model"]
    kind = PREPARATIONS[models.model_class(preset).corpus_facts]
    if resumed and kind.is_in_checkpoints:
        prepared = Preparation(corpus)
        prepared.sizes = resumed.config().get("sizes", {})
        return prepared
    settings = models.preset_settings(preset, **config["settings"])
    return kind(corpus, settings, tuple(config["vocab_sizes"]))


def length_model(corpus: EncodedCorpus) -> tuple[float, float, float]:
    """Fits the regression of target lengths on source lengths, in tokens with `</s>`.

    Returns (intercept, slope, variance for each source token).
    """
    source, target = (side.lengths.astype(np.float64) for side in corpus)
    spread = source.var()
    covariance = ((source - source.mean()) * (target - target.mean())).mean()
    # If all sources have one length, the slope is arbitrary: take the line through the origin.
    slope = covariance / spread if spread else target.mean() / source.mean()
    intercept = target.mean() - slope * source.mean()
    variance = ((target - intercept - slope * source) ** 2 / source).mean()
    return intercept, slope, max(variance, 0.01)
