"""Numbers the word pairs of a corpus, and encodes the corpus as numbers of word pairs.

A translation table has an entry only for a source and a target word that share a sentence pair. A
*cell* is a pair of a target token and a source token of one sentence pair. Cells are stored in
dense blocks, so that expectation maximisation is arithmetic on whole arrays, with no loop over
sentences or words.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus

# Cells of a block: few enough that its float64 arrays stay in the processor's cache.
_BLOCK_CELLS = 1 << 15


class Block(NamedTuple):
    """Sentence pairs of one source length n, with the cells `[R, n]` of their R target tokens.

    The rows of target position 0 come first, then the rows of position 1 and so on. Sentences have
    the same order at each position, by falling target length. So sentences that have ended would
    be the last ones of a position and are left out: no cell is padding.
    """

    source_length: int  # n, with the final NULL
    pairs: np.ndarray  # [B] int64, numbers of the sentence pairs
    target_lengths: np.ndarray  # [B] int64, never rising, at least 1
    active: np.ndarray  # [T] int64, how many sentences have each target position; never rising
    row_sentences: np.ndarray  # [R] int64, the place in `pairs` of every row's sentence
    first_cell: int  # number of the block's first cell

    @property
    def num_rows(self) -> int:
        return self.row_sentences.size

    @property
    def cells(self) -> slice:
        return slice(self.first_cell, self.first_cell + self.num_rows * self.source_length)

    @property
    def first_rows(self) -> np.ndarray:
        """`[T]` int64, the first row of every target position."""
        return np.cumsum(self.active) - self.active

    @property
    def row_positions(self) -> np.ndarray:
        """`[R]` int64, the target position of every row, counted from 0."""
        return np.repeat(np.arange(self.active.size), self.active)


@dataclass(frozen=True)
class Rows:
    """P word pairs in rows, one for each of F distinct source words."""

    num_pairs: int  # P
    first_pairs: np.ndarray  # [F] int, rising from 0; the first word pair of each row

    def source_sums(self, values: np.ndarray) -> np.ndarray:
        """Sums `[P]` float64 values of word pairs for each source word, `[F]`."""
        return np.add.reduceat(values, self.first_pairs) if values.size else values

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Repeats `[F]` values of source words for each of their word pairs, `[P]`."""
        return np.repeat(values, np.diff(self.first_pairs, append=self.num_pairs))


@dataclass(frozen=True)
class SentencePairs(Rows):
    """The cells of some sentence pairs in one direction, and the word pair of each."""

    cell_pairs: np.ndarray  # int32, the word pair of every cell, block after block, row after row
    source_words: np.ndarray  # [F] int32, rising; the source id of each row
    numbers: np.ndarray  # [P] int32, the number of every word pair in the whole text
    blocks: list  # list of `Block`
    token_cells: np.ndarray  # int64, the first cell of every target token
    first_tokens: np.ndarray  # [sentences] int64, the first target token of every sentence pair
    target_end: bool  # whether the target's `</s>` has cells

    @property
    def num_sentences(self) -> int:
        """Sentence pairs, including those without a cell."""
        return self.first_tokens.size

    def facing(self, block: Block, twin: "SentencePairs", values: np.ndarray) -> np.ndarray:
        """Returns the values of the other direction's cells for the word cells of a block.

        `values` are of the cells of `twin`, the other direction. Returns `[R, n - 1]`; 1 for
        `</s>`.
        """
        sentences, positions = block.row_sentences, block.row_positions
        first_tokens = twin.first_tokens[block.pairs[sentences]]
        tokens = first_tokens[:, None] + np.arange(block.source_length - 1)
        opposite = values[twin.token_cells[tokens] + positions[:, None]]
        if self.target_end:
            opposite[positions == block.target_lengths[sentences] - 1] = 1
        return opposite


def number_word_pairs(
    corpus: EncodedCorpus, target_end: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers the P distinct word pairs of a corpus by source word, then target word.

    Returns (`[cells]` word pair of every cell, as in `SentencePairs`; `[P]` source words, rising;
    `[P]` target words, rising within a source word), int32.

    Each sentence ends in `</s>`, which is NULL in the source. With `target_end`, the target's
    `</s>` gets cells, as a token that source words explain. Alignments do not need it: without it
    only words compete for the source words.
    """
    source, target = corpus
    blocks, _, first_tokens = lay_out(source.lengths, target.lengths, target_end)
    first_sources = np.cumsum(source.lengths, dtype=np.int64) - source.lengths
    keys = np.empty(blocks[-1].cells.stop if blocks else 0, np.int64)
    for block in blocks:
        tokens = first_sources[block.pairs][:, None] + np.arange(block.source_length)
        sources = source.ids[tokens].astype(np.int64) << 32  # [B, n]
        targets = target.ids[first_tokens[block.pairs[block.row_sentences]] + block.row_positions]
        keys[block.cells] = (sources[block.row_sentences] | targets[:, None]).ravel()
    keys, cell_pairs = np.unique(keys, return_inverse=True)
    # The lower bits of a key are its target word.
    return cell_pairs.astype(np.int32), (keys >> 32).astype(np.int32), keys.astype(np.int32)


def lay_out(
    source_lengths: np.ndarray, target_lengths: np.ndarray, target_end: bool
) -> tuple[list[Block], np.ndarray, np.ndarray]:
    """Decides where cells are.

    Returns `blocks`, `token_cells` and `first_tokens` as in `SentencePairs`. Lengths are
    `[sentences]` int32, tokens with `</s>`. `target_end` is as in `number_word_pairs`.
    """
    heights = target_lengths.astype(np.int64) - (0 if target_end else 1)
    blocks = _make_blocks(source_lengths, heights)
    first_tokens = np.cumsum(target_lengths, dtype=np.int64) - target_lengths
    token_cells = np.zeros(target_lengths.sum(dtype=np.int64), np.int64)
    for block in blocks:
        tokens = first_tokens[block.pairs[block.row_sentences]] + block.row_positions
        token_cells[tokens] = block.first_cell + np.arange(block.num_rows) * block.source_length
    return blocks, token_cells, first_tokens


def _make_blocks(source_lengths, target_lengths):
    """Makes the `Block`s of the sentence pairs that have a cell, in order of source length."""
    order = np.lexsort((-target_lengths, source_lengths))
    order = order[target_lengths[order] > 0]
    blocks, first_cell = [], 0
    for rows in np.split(order, np.flatnonzero(np.diff(source_lengths[order])) + 1):
        if not rows.size:
            continue
        n = int(source_lengths[rows[0]])
        sizes = np.cumsum(target_lengths[rows]) * n
        for pairs in np.split(rows, np.flatnonzero(np.diff(sizes // _BLOCK_CELLS)) + 1):
            heights = target_lengths[pairs]
            active = np.searchsorted(-heights, -np.arange(heights[0]), side="left")
            sentences = np.concatenate([np.arange(size) for size in active.tolist()])
            blocks.append(Block(n, pairs, heights, active, sentences, first_cell))
            first_cell = blocks[-1].cells.stop
    return blocks
