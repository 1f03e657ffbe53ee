"""Shallow fusion: adds the scores of a language model to those of a translation model."""

from typing import Any

from nmt_zoo.models.base import Tensor, TranslationModel, require
from nmt_zoo.models.combination import Combination
from nmt_zoo.models.ngram import NgramLanguageModel


class ShallowFusion(Combination):
    """Every token is scored by both models, log P(e_i | f, ...) + weight * log P(e_i | ...).

    Gulcehre et al. 2015, "On Using Monolingual Corpora in Neural Machine Translation", section 4.1.
    The sums are not normalised again, so a search maximises the sum of both scores over whole
    sentences, and `score` is not a probability. Alignments come from the translation model. A
    weight of 0 leaves the translation model as it is. Raises `SettingError` if the target
    vocabulary sizes differ, or the weight is negative.
    Example:
        fused = ShallowFusion(model, language_model, weight=0.2)
        Translator.of(fused, tokenizer).translate(["A dog runs."])
    """

    def __init__(
        self,
        model: TranslationModel,
        language_model: NgramLanguageModel,
        *,
        weight: float,
        **kwargs: Any,
    ) -> None:
        sizes = model.target_vocab_size, language_model.target_vocab_size
        require(
            sizes[0] == sizes[1],
            f"the model has {sizes[0]} target ids and the language model {sizes[1]}",
        )
        require(weight >= 0, f"the weight of a language model must be at least 0, found {weight}")
        super().__init__({"model": model, "language_model": language_model}, **kwargs)
        self.model = model
        self.weight = weight

    @property
    def has_alignment(self) -> bool:
        return self.model.has_alignment

    @property
    def align_sizes(self) -> tuple[int, int]:
        return self.model.align_sizes

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        return log_probs[0] + self.weight * log_probs[1]

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        return self.model.align(source_ids, target_ids)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        return self.model.attention_maps(source_ids, target_ids)
