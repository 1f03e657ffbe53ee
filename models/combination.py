"""Several models that read the same source and extend the same hypotheses."""

import math
from typing import Any

from keras import ops

from nmt_zoo.models.base import Searchable, StepOutput, Tensor, TranslationModel, require
from nmt_zoo.models.ngram import NgramLanguageModel


class Combination(TranslationModel):
    """Base class of models that others are parts of: context and state hold those of each part.

    A subclass implements `joined`. The vocabularies are those of the first part. Alignments are the
    mean of those of the first `num_aligners` parts, all `TranslationModel`s, that have any.
    """

    predicts = "logits"
    logits_add_up = True

    def __init__(self, parts: dict[str, Searchable], num_aligners: int = 1, **kwargs: Any) -> None:
        first = next(iter(parts.values()))
        sizes = first.source_vocab_size, first.target_vocab_size
        super().__init__(*sizes, pad_id=first.pad_id, bos_id=first.bos_id, **kwargs)
        self.parts = parts
        self.members = list(parts.values())
        aligning = [part for part in self.members[:num_aligners] if part.has_alignment]
        self.aligning: list[Any] = aligning or self.members[:1]
        self.built = True

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        """Joins the log-probabilities of the parts, `[..., V]` each, to the scores of tokens."""
        raise NotImplementedError

    @property
    def has_alignment(self) -> bool:
        return self.aligning[0].has_alignment

    @property
    def align_sizes(self) -> tuple[int, int]:
        return tuple(map(max, zip(*(part.align_sizes for part in self.aligning), strict=True)))

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        aligned = [part.align(source_ids, target_ids) for part in self.aligning]
        return ops.mean(ops.stack(aligned), axis=0)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        return self.members[0].attention_maps(source_ids, target_ids)

    def _joined(self, logits):
        pairs = zip(self.members, logits, strict=True)
        return self.joined([of_part - part.log_normaliser(of_part) for part, of_part in pairs])

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return self._joined([member(inputs) for member in self.members])

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        return {name: part.encode(source_ids) for name, part in self.parts.items()}

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        return {name: part.initial_state(context[name]) for name, part in self.parts.items()}

    @property
    def can_compile(self) -> bool:
        return all(member.can_compile for member in self.members)

    def quantise(self) -> None:
        for member in self.members:
            member.quantise()

    def precompute(self) -> None:
        for member in self.members:
            member.precompute()

    def with_max_length(
        self, state: dict[str, Any], max_length: int | Tensor, beam_size: int
    ) -> dict[str, Any]:
        size = max_length, beam_size
        return {name: part.with_max_length(state[name], *size) for name, part in self.parts.items()}

    def reordered(self, state: dict[str, Any], parents: Tensor) -> dict[str, Any]:
        return {name: part.reordered(state[name], parents) for name, part in self.parts.items()}

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        outputs = {
            name: part.decode_step(token_ids, step, state[name], context[name])
            for name, part in self.parts.items()
        }
        pairs = zip(self.members, outputs.values(), strict=True)
        attention = [output.attention for part, output in pairs if part in self.aligning]
        return StepOutput(
            logits=self._joined([output.logits for output in outputs.values()]),
            state={name: output.state for name, output in outputs.items()},
            attention=ops.mean(ops.stack(attention), axis=0),
        )


class Ensemble(Combination):
    """Every token has the mean of the probabilities that the members give it.

    The mean of probabilities is a probability again, so scores mean what they mean for one model. A
    member that is sure of a word can win over others that are unsure; with the mean of the
    log-probabilities, a member that thinks a word impossible would forbid it. Alignments are the
    mean of the members that have one. Raises `SettingError` without members, or if their vocabulary
    sizes differ; their source and target ids must be the same.
    Example:
        both = Ensemble([transformer, lstm])
        Translator.of(both, tokenizer).translate(["A dog runs."])
    """

    def __init__(self, members: list[TranslationModel], **kwargs: Any) -> None:
        require(members, "an ensemble needs at least one model")
        sizes = sorted({(m.source_vocab_size, m.target_vocab_size) for m in members})
        require(len(sizes) == 1, f"models of an ensemble have different vocabulary sizes: {sizes}")
        parts = {str(i): member for i, member in enumerate(members)}
        super().__init__(parts, len(members), **kwargs)

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        return ops.logsumexp(ops.stack(log_probs), axis=0) - math.log(len(log_probs))

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns the maps of all members, named `number/name`."""
        return {
            f"{i}/{name}": weights
            for i, member in enumerate(self.members)
            for name, weights in member.attention_maps(source_ids, target_ids).items()
        }


class ShallowFusion(Combination):
    """Adds the scores of a language model: log P(e_i | f, ...) + weight * log P(e_i | ...).

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
        self.weight = weight

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        return log_probs[0] + self.weight * log_probs[1]
