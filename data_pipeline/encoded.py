"""Parallel text as ids, and a filter for its pairs."""

from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError


class EncodedSide(NamedTuple):
    """Sentences as one array of ids, which may be a memory-mapped file."""

    ids: np.ndarray  # [num_tokens] int32, sentence after sentence, each ended by EOS
    lengths: np.ndarray  # [num_pairs] int32, tokens of each sentence with EOS

    def take(self, rows: np.ndarray) -> "EncodedSide":
        """Returns the sentences with the given numbers, in that order."""
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths, dtype=np.int64)
        shift = np.repeat(starts[rows] - (ends - lengths), lengths)
        return EncodedSide(self.ids[np.arange(shift.size) + shift], lengths)

    def joined(self, other: "EncodedSide") -> "EncodedSide":
        """Returns these sentences, and those of another side after them."""
        return EncodedSide(*map(np.concatenate, zip(self, other, strict=True)))


class EncodedCorpus(NamedTuple):
    """Both sides of a parallel corpus as ids."""

    source: EncodedSide
    target: EncodedSide

    @property
    def num_pairs(self) -> int:
        return self.source.lengths.size


class PairFilter(NamedTuple):
    """Drops pairs that harm training: empty, too long, or of too unequal lengths."""

    max_length: int  # longest sentence on either side, in tokens with `</s>`
    max_length_ratio: float  # largest ratio of the longer to the shorter side, in tokens

    def __call__(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
        """Returns (`[num_pairs]` bool, True for pairs that stay; {reason: pairs dropped}).

        `source` and `target` are `[num_pairs]` lengths in tokens with `</s>`.
        """
        empty = (source <= 1) | (target <= 1)
        too_long = ~empty & (np.maximum(source, target) > self.max_length)
        ratio = np.maximum(source, target) / np.maximum(np.minimum(source, target), 1)
        uneven = ~empty & ~too_long & (ratio > self.max_length_ratio)
        dropped = {
            "with an empty side": int(empty.sum()),
            f"longer than {self.max_length} tokens": int(too_long.sum()),
            f"with a length ratio above {self.max_length_ratio:g}": int(uneven.sum()),
        }
        return ~(empty | too_long | uneven), dropped

    def check_some_left(self, num_left: int, dropped: dict[str, int]) -> None:
        """Raises `UserError` if no pair is left."""
        if not num_left:
            remedies = (
                "check the files",
                "raise --max_length and, where it is below, --max_tokens_per_batch",
                "raise --max_length_ratio",
            )
            remedies = [r for r, count in zip(remedies, dropped.values(), strict=True) if count]
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
            raise UserError(
                f"all {sum(dropped.values()):,} training pairs were dropped: {reasons}; "
                f"{', or '.join(remedies)}"
            )
