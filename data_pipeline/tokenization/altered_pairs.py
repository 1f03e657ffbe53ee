"""Alters a few training pairs in every epoch by kinds of noise, see `data_pipeline.noise`."""

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from nmt_zoo.data_pipeline import noise
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import mixed
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer

_STREAM = 1 << 32  # Other random numbers than those of BPE-dropout.
_TAGS = re.compile(r"(?:.* )?>>[A-Za-z][\w-]*<< ")  # Of a language or a context, before a sentence.


class AlteredPairs:
    """Alters pairs at random; a pair's draws are a function of seed, epoch and pair number.

    `shares` are those of the pairs that each kind of noise alters, as of `noise.shares_of`. A pair
    with a sentence that would become longer than `max_length`, in tokens with `</s>`, stays as it
    is. Raises UserError as `noise.Copies`.
    """

    def __init__(
        self, tokenizer: Tokenizer, shares: Mapping[str, float], seed: int, max_length: int
    ) -> None:
        self.vocabularies: tuple[Any, Any] = tokenizer.source, tokenizer.target
        self.kinds = [
            noise.Copies(self.vocabularies) if name == noise.COPIES else noise.KINDS[name]
            for name in shares
        ]
        self.below = np.round(np.cumsum([*shares.values()]) * 2**32).astype(np.uint64)
        self.seed = seed
        self.max_length = max_length

    def sample(self, part: EncodedCorpus, epoch: int, first: int = 0) -> EncodedCorpus:
        """Alters consecutive pairs of an epoch, of which `first` is the first one's number."""
        rows = np.arange(part.num_pairs)
        draws = mixed(mixed(np.uint64([self.seed]), [_STREAM + epoch]), first + rows)
        kinds = np.searchsorted(self.below, draws & np.uint64(2**32 - 1), side="right")
        chosen = np.flatnonzero(kinds < len(self.kinds))
        if not chosen.size:
            return part
        pairs = zip(*map(self._lines, self.vocabularies, part, [chosen] * 2), strict=True)
        altered = [
            _altered(pair, self.kinds[kinds[row]], random.Random(int(draws[row])))
            for row, pair in zip(chosen, pairs, strict=True)
        ]
        new = list(map(encode_lines, self.vocabularies, zip(*altered, strict=True)))
        fits = np.all([side.lengths <= self.max_length for side in new], axis=0)
        rows[chosen[fits]] = rows.size + np.flatnonzero(fits)
        sides = zip(part, new, strict=True)
        return EncodedCorpus(
            *(usual.joined(altered_side).take(rows) for usual, altered_side in sides)
        )

    @staticmethod
    def _lines(vocabulary, side, rows):
        sentences = side.take(rows)
        return map(vocabulary.decode, np.split(sentences.ids, np.cumsum(sentences.lengths)[:-1]))


def _altered(pair, kind, draw):
    source, target = pair
    tags = match[0] if (match := _TAGS.match(source)) else ""
    source, target = kind([source.removeprefix(tags), target], draw)
    return tags + source, target
