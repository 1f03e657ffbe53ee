"""An ensemble: several models of one vocabulary predict every token together."""

import math
from typing import Any

from keras import ops

from nmt_zoo.models.base import Precomputed, Tensor, TranslationModel, require
from nmt_zoo.models.combination import Combination


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
        super().__init__({str(i): member for i, member in enumerate(members)}, **kwargs)
        self.members = list(members)

    @property
    def has_alignment(self) -> bool:
        return any(member.has_alignment for member in self.members)

    @property
    def align_sizes(self) -> tuple[int, int]:
        return tuple(map(max, zip(*(member.align_sizes for member in self.members), strict=True)))

    def precompute(self) -> None:
        for member in self.members:
            member.precompute()

    def precomputed(self) -> list[Precomputed]:
        return [tensors for member in self.members for tensors in member.precomputed()]

    def joined(self, log_probs: list[Tensor]) -> Tensor:
        return ops.logsumexp(ops.stack(log_probs), axis=0) - math.log(len(log_probs))

    def joined_attention(self, attention: list[Tensor]) -> Tensor:
        pairs = zip(self.members, attention, strict=True)
        weights = [
            of_member
            for member, of_member in pairs
            if member.has_alignment or not self.has_alignment
        ]
        return ops.mean(ops.stack(weights), axis=0)

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        aligned = [m.align(source_ids, target_ids) for m in self.members if m.has_alignment]
        aligned = aligned or [self.members[0].align(source_ids, target_ids)]
        return ops.mean(ops.stack(aligned), axis=0)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns the maps of all members, named `number/name`."""
        return {
            f"{i}/{name}": weights
            for i, member in enumerate(self.members)
            for name, weights in member.attention_maps(source_ids, target_ids).items()
        }
