"""Encodes the text of every epoch anew: altered pairs, and other pieces."""

import tempfile
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout

_TOKENS_AT_ONCE = 1 << 16


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
                "--copy_share and --bpe_dropout need as much free space there as the training text "
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
    longer = np.maximum(*ends)
    first, begins = 0, [0, 0]
    while first < corpus.num_pairs:
        limit = max(begins) + _TOKENS_AT_ONCE
        last = max(first + 1, int(np.searchsorted(longer, limit, side="right")))
        bounds = [slice(begin, int(end[last - 1])) for begin, end in zip(begins, ends, strict=True)]
        yield (
            first,
            EncodedCorpus(
                *(
                    EncodedSide(np.asarray(side.ids[bound]), side.lengths[first:last])
                    for side, bound in zip(corpus, bounds, strict=True)
                )
            ),
        )
        first, begins = last, [bound.stop for bound in bounds]
