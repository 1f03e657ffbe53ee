"""Several models that read the same source and extend the same hypotheses."""

from typing import Any

from nmt_zoo.models.base import Searchable, StepOutput, Tensor, TranslationModel


class Combination(TranslationModel):
    """Base class of models that others are parts of: context and state hold those of each part.

    A subclass implements `joined`, and `align` and `attention_maps`. The vocabularies are those of
    the first part, a `TranslationModel`.
    """

    predicts = "logits"
    logits_add_up = True

    def __init__(self, parts: dict[str, Searchable], **kwargs: Any) -> None:
        first = next(iter(parts.values()))
        sizes = first.source_vocab_size, first.target_vocab_size
        super().__init__(*sizes, pad_id=first.pad_id, bos_id=first.bos_id, **kwargs)
        self.parts = parts
        self.built = True

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        """Joins the log-probabilities of the parts, `[..., V]` each, to the scores of tokens."""
        raise NotImplementedError

    def joined_attention(self, attention: list[Tensor]) -> Tensor:
        """Joins the attention of the parts, `[N, S]` each; by default that of the first."""
        return attention[0]

    def _joined(self, logits):
        pairs = zip(self.parts.values(), logits, strict=True)
        return self.joined([of_part - part.log_normaliser(of_part) for part, of_part in pairs])

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return self._joined([part(inputs) for part in self.parts.values()])

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        return {name: part.encode(source_ids) for name, part in self.parts.items()}

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        return {name: part.initial_state(context[name]) for name, part in self.parts.items()}

    @property
    def can_compile(self) -> bool:
        return all(part.can_compile for part in self.parts.values())

    def with_max_length(self, state: dict[str, Any], max_length: int | Tensor) -> dict[str, Any]:
        parts = self.parts.items()
        return {name: part.with_max_length(state[name], max_length) for name, part in parts}

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        outputs = {
            name: part.decode_step(token_ids, step, state[name], context[name])
            for name, part in self.parts.items()
        }
        return StepOutput(
            logits=self._joined([output.logits for output in outputs.values()]),
            state={name: output.state for name, output in outputs.items()},
            attention=self.joined_attention([output.attention for output in outputs.values()]),
        )
