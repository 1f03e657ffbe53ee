"""Facts of a corpus that a model stores before training, however it is trained."""

from typing import Any

import keras
import numpy as np

from nmt_zoo import models
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.models.coverage import CoverageModel
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.ngram import NgramLanguageModel
from nmt_zoo.training.ways.counting.counting import estimate
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import index_word_pairs


class Preparation:
    """Facts of a corpus that its model needs before training; most models need none.

    `settings` are all settings of the model; `vocab_size` is the number of target ids. The
    attribute `sizes` holds numbers by name, for the `corpus_sizes` of the model's class.
    """

    def __init__(
        self, corpus: EncodedCorpus, settings: dict[str, Any] | None = None, vocab_size: int = 0
    ):
        self.corpus = corpus
        self.sizes = {}

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

    def __init__(
        self, corpus: EncodedCorpus, settings: dict[str, Any] | None = None, vocab_size: int = 0
    ):
        super().__init__(corpus)
        self.words = index_word_pairs(corpus)
        self.sizes = {"num_word_pairs": self.words.source_words.size}

    def fill(self, model: keras.Model) -> None:
        model.table.set_word_pairs(self.words.source_words, self.words.target_words)
        super().fill(model)


class NgramTable(Preparation):
    """The n-grams of a target text, counted and smoothed."""

    def __init__(self, corpus: EncodedCorpus, settings: dict[str, Any] | None, vocab_size: int):
        super().__init__(corpus)
        self.table = estimate(corpus.target, vocab_size, settings["order"])
        self.sizes = {"num_ngrams": self.table.keys.size}

    def fill(self, model: keras.Model) -> None:
        model.fill(self.table)

    def report(self) -> list[str]:
        lines = [f"{n}-grams: {count:,}" for n, count in enumerate(self.table.num_ngrams, start=2)]
        both = zip(self.table.discounts, self.table.estimated, strict=True)
        for n, (off, estimated) in enumerate(both, start=1):
            origin = "" if estimated else " (fixed: the text has too few counts to estimate them)"
            lines.append(f"discounts of {n}-grams: {', '.join(f'{d:.3f}' for d in off)}{origin}")
        return lines


# Class of models -> kind of preparation; the first class that a model belongs to decides.
_PREPARATIONS = {
    AlignmentModel: WordTable,
    CoverageModel: LengthPlan,
    NgramLanguageModel: NgramTable,
}


def prepare(corpus: EncodedCorpus, config: dict[str, Any]) -> Preparation:
    """Makes the `Preparation` of a model; `config` has the sizes of its vocabularies."""
    preset = config["model"]
    model_class = models.model_class(preset)
    kinds = (kind for base, kind in _PREPARATIONS.items() if issubclass(model_class, base))
    settings = models.preset_settings(preset, **config["settings"])
    return next(kinds, Preparation)(corpus, settings, config["vocab_sizes"][1])


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
