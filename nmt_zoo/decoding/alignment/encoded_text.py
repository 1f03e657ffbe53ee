"""A text in the ids of a model's tokenizer: batches of it, and attention between its words."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import Batching, plan_epoch
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID, UNK_ID, WordVocabulary
from nmt_zoo.decoding.alignment.subword_merging import word_weights

# Largest cost of a batch. A sentence costs length x (length + 256), because attention is quadratic,
# so a batch holds 960 sentences of 16 tokens, 200 of 64 or 10 of 512.
MAX_COST = 1 << 22
# Numbers in the largest tensor of a model for each unit of cost, at most: 256 MB a batch.
_NUMBERS = 16


class EncodedText:
    """A text in the ids of a tokenizer; `names`, of the source and target text, are for errors.

    `lines` are (source lines, target lines), equally many. `tokens` are (of source lines, of target
    lines), each with `(ids, numbers)` of each line: ids with `</s>`, and the number of the word of
    each, as `numbers_in_text`. A translation may have other ids than its text encodes to. None: the
    lines are encoded.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        names: tuple[str, str],
        lines: tuple[Sequence[str], Sequence[str]],
        tokens: Any = None,
    ) -> None:
        self.names, self.lines, self.vocabularies = names, lines, tokenizer[1:]
        self._numbers = None
        if tokens:
            ids, self._numbers = zip(*(zip(*side, strict=True) for side in tokens), strict=True)
            encoded = [(np.concatenate(x).astype(np.int32), [*map(len, x)]) for x in ids]
        else:
            encoded = [encode_lines(*x) for x in zip(self.vocabularies, lines, strict=True)]
        self.ids, self.lengths = zip(*encoded, strict=True)
        self.lengths = np.array(self.lengths, np.int64)  # [2, pairs], tokens with `</s>`.
        self.starts = self.lengths.cumsum(axis=1) - self.lengths
        of_words = all(isinstance(v, WordVocabulary) for v in self.vocabularies)
        self.of_words = of_words and not tokens
        self.num_words = self.lengths - 1  # [2, pairs], without `</s>`.
        if tokens:
            self.num_words = np.array([[words[-1] for words in side] for side in self._numbers])
        elif not self.of_words:
            self.num_words = np.array([[len(split_words(x)) for x in side] for side in lines])

    def count_unknown(self, model_name: str, *, is_start: bool = True) -> int:
        """Counts the lines that have words, but no word of the vocabulary.

        `is_start` is False for a later part of a longer text, which may be as short as one line.
        Raises UserError: with `is_start`, no line of a side has a known word. It names the model.
        """
        total = 0
        for ids, lengths, name in zip(self.ids, self.lengths, self.names, strict=True):
            rows = np.repeat(np.arange(lengths.size), lengths)
            num_known = np.bincount(rows[ids != UNK_ID], minlength=lengths.size) - 1
            words = lengths > 1
            unknown = int((words & (num_known == 0)).sum())
            if is_start and unknown and unknown == words.sum():
                raise UserError(
                    f"{name}, lines 1 to {lengths.size}: {model_name} knows none of their words; "
                    "expected text in the language and tokenisation that it was trained on"
                )
            total += unknown
        return total

    def padded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids of source `[B, S]` and target `[B, T]` of some pairs, int32, padded."""
        return self._padded(0, rows), self._padded(1, rows)

    def between_words(self, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Merges weights `[B, ..., T, S]` between the tokens of some pairs.

        Returns `[B, ..., T', S']` float32 between words. T' and S' are the largest numbers of
        words, with `</s>`, among these pairs. Weights after the `</s>` of a pair are meaningless.
        """
        if self.of_words:
            return weights
        sources, targets = self.num_words[:, rows].max(axis=1) + 1
        merged = np.zeros([*weights.shape[:-2], targets, sources], np.float32)
        numbers = [self._word_numbers(side, rows) for side in (0, 1)]
        for words, tokens, *pair in zip(merged, weights, *numbers, strict=True):
            weights = word_weights(tokens, *pair)
            words[..., : weights.shape[-2], : weights.shape[-1]] = weights
        return merged

    def _word_numbers(self, side, rows):
        if self._numbers:
            return [self._numbers[side][row] for row in rows]
        return self.vocabularies[side].word_numbers(self.lines[side][row] for row in rows)

    def _padded(self, side, rows):
        """Returns the ids of some rows, `[B, longest]` int32, padded."""
        lengths = self.lengths[side, rows][:, None]
        columns = np.arange(lengths.max())
        cells = np.minimum(self.starts[side, rows][:, None] + columns, self.ids[side].size - 1)
        return np.where(columns < lengths, self.ids[side][cells], np.int32(PAD_ID))


def batches(
    lengths: np.ndarray, max_cost: int = MAX_COST, sizes: tuple[int, int] = (0, 1)
) -> Iterator[np.ndarray]:
    """Yields the rows `[B]` of batches of pairs of similar length.

    `lengths` `[texts, 2, pairs]` are the `EncodedText.lengths` of one or more encodings of a text.
    Pairs with an empty side in any of them are left out. `max_cost` is the largest cost of a batch
    of several pairs; a pair costs L x (L + 256), where L is the length of its longer side, or more
    where the model needs a larger tensor.
    """
    per_token, per_pair = sizes
    rows = np.flatnonzero((lengths > 1).all(axis=(0, 1)))
    longest = lengths[:, :, rows].max(axis=0)
    costs = longest * np.maximum(longest + 256, (longest * per_pair + per_token) // _NUMBERS)
    plan = plan_epoch(*costs, Batching(max(max_cost, int(costs.max(initial=0)))))
    for batch in np.split(rows[plan.rows], np.cumsum(plan.batch_sizes)[:-1]):
        if batch.size:
            yield batch
