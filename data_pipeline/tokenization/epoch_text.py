"""Encodes the text of every epoch anew: altered pairs, and other pieces."""

import tempfile
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout

_PAIRS_AT_ONCE = 2000


class EpochText(NamedTuple):
    """The text of an epoch, as a function of the corpus and the number of the epoch."""

    max_length: int  # longest sentence that an epoch may have, in tokens with `</s>`
    altered: AlteredPairs | None = None  # None leaves the text as it is
    dropout: BpeDropout | None = None  # None leaves the pieces as they are

    def encode(self, corpus: EncodedCorpus, epoch: int, folder: FilePath | None) -> EncodedCorpus:
        """Encodes a corpus, given in its usual pieces, for an epoch (from 0), in constant memory.

        The ids are in files without a name in `folder`. Their space is free again when the result
        is no longer used. Raises UserError: there is no space for the ids.
        """
        lengths = [side.lengths.copy() for side in corpus]
        try:
            with (
                tempfile.TemporaryFile(dir=folder) as source,
                tempfile.TemporaryFile(dir=folder) as target,
            ):
                files = source, target
                for first, part in _parts(corpus):
                    sampled = self._sample(part, epoch, first)
                    for file, side, sizes in zip(files, sampled, lengths, strict=True):
                        sizes[first : first + part.num_pairs] = side.lengths
                        file.write(side.ids.tobytes())
                for file in files:
                    file.flush()
                # Copy on write, because TensorFlow does not share memory that is read-only.
                ids = (np.memmap(file, np.int32, mode="c") for file in files)
                return EncodedCorpus(*map(EncodedSide, ids, lengths))
        except OSError as error:
            raise UserError(
                f"{folder}: the text of an epoch cannot be written ({error.strerror}); "
                "--noise and --bpe_dropout need as much free space there as the training text "
                "as ids"
            ) from None

    def _sample(self, part, epoch, first):
        if self.altered:
            part = self.altered.sample(part, epoch, first)
        if self.dropout:
            sides = (self.dropout.sample(part[side], side, epoch, first) for side in (0, 1))
            part = EncodedCorpus(*sides)
        return part


def _parts(corpus):
    """Yields (number of the first pair, `EncodedCorpus` of consecutive pairs)."""
    ends = [np.cumsum(side.lengths, dtype=np.int64) for side in corpus]
    for first in range(0, corpus.num_pairs, _PAIRS_AT_ONCE):
        pairs = slice(first, first + _PAIRS_AT_ONCE)
        begins = (end[first] - side.lengths[first] for side, end in zip(corpus, ends, strict=True))
        sides = (
            EncodedSide(np.asarray(side.ids[begin : end[pairs][-1]]), side.lengths[pairs])
            for side, begin, end in zip(corpus, begins, ends, strict=True)
        )
        yield first, EncodedCorpus(*sides)
