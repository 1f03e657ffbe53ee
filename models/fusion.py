"""Shallow fusion: adds the scores of a language model to those of a translation model."""

from typing import Any

from nmt_zoo.models.base import StepOutput, Tensor, TranslationModel, require
from nmt_zoo.models.ngram import NgramLanguageModel


class ShallowFusion(TranslationModel):
    """Every token is scored by both models, log P(e_i | f, ...) + weight * log P(e_i | ...).

    Gulcehre et al. 2015, "On Using Monolingual Corpora in Neural Machine Translation", section 4.1.
    The sums are not normalised again, so a search maximises the sum of both scores over whole
    sentences, and `score` is not a probability. Alignments come from the translation model.

    Args:
        language_model: `NgramLanguageModel` with as many target ids.
        weight: at least 0; 0 leaves the translation model as it is.

    Raises:
        SettingError: the target vocabulary sizes differ, or the weight is negative.

    Example:
        fused = ShallowFusion(model, language_model, weight=0.2)
        Translator(fused, tokenizer).translate(["A dog runs."])
    """

    predicts = "logits"
    logits_add_up = True

    def __init__(
        self,
        model: TranslationModel,
        language_model: NgramLanguageModel,
        *,
        weight: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            model.source_vocab_size,
            model.target_vocab_size,
            pad_id=model.pad_id,
            bos_id=model.bos_id,
            **kwargs,
        )
        sizes = model.target_vocab_size, language_model.target_vocab_size
        require(
            sizes[0] == sizes[1],
            f"the model has {sizes[0]} target ids and the language model {sizes[1]}",
        )
        require(weight >= 0, f"the weight of a language model must be at least 0, found {weight}")
        self.model = model
        self.language_model = language_model
        self.weight = weight
        self.built = True

    @property
    def has_alignment(self) -> bool:
        return self.model.has_alignment

    @property
    def align_sizes(self) -> tuple[int, int]:
        return self.model.align_sizes

    def _sum(self, logits, language_logits):
        """Returns the weighted sum of both models' log-probabilities, `[..., V]`."""
        log_probs = logits - self.model.log_normaliser(logits)
        language = language_logits - self.language_model.log_normaliser(language_logits)
        return log_probs + self.weight * language

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return self._sum(self.model(inputs), self.language_model(inputs))

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context: `model` and `language_model`, the context of each."""
        return {
            "model": self.model.encode(source_ids),
            "language_model": self.language_model.encode(source_ids),
        }

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: `model` and `language_model`, the state of each."""
        return {
            "model": self.model.initial_state(context["model"]),
            "language_model": self.language_model.initial_state(context["language_model"]),
        }

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        """As `Searchable`; the logits are the sums, the attention is the translation model's."""
        output, language = (
            getattr(self, name).decode_step(token_ids, step, state[name], context[name])
            for name in ("model", "language_model")
        )
        return StepOutput(
            logits=self._sum(output.logits, language.logits),
            state={"model": output.state, "language_model": language.state},
            attention=output.attention,
        )

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the alignment of the translation model."""
        return self.model.align(source_ids, target_ids)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns the attention maps of the translation model."""
        return self.model.attention_maps(source_ids, target_ids)
