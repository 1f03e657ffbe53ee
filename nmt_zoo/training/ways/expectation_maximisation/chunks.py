"""A text of any size in chunks of sentence pairs, of which each thread has one in memory.

Word pairs are numbered in each chunk and in the whole text. What every cell has, such as the number
of its word pair, is in a temporary file; what every word pair of the text has, such as its count,
is in memory.
"""

import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import map_in_order
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import (
    Rows,
    SentencePairs,
    lay_out,
    number_word_pairs,
)

# Most cells of a chunk, unless one sentence pair has more. In larger chunks more word pairs recur.
_CHUNK_CELLS = 1 << 20
_LEAST_CHUNKS = 2  # So that two threads have work, however small the text.
# Word pairs that are merged or changed at once: bounds the working memory of a whole table.
_WORD_PAIRS = 1 << 21


class Place(NamedTuple):
    """Where an array is in a `TemporaryArrays`."""

    offset: int
    dtype: type
    size: int

    def part(self, start: int, stop: int) -> "Place":
        return self._replace(offset=self.offset + start * self.dtype().itemsize, size=stop - start)


class TemporaryArrays:
    """Arrays in a file without a name, see `tempfile.gettempdir`.

    The file is gone when the object or the process ends, however it ends.

    Raises:
        UserError: the file cannot be made or written, for example because the disk is full.
    """

    def __init__(self):
        self._lock, self._size = threading.Lock(), 0
        try:
            # Without a buffer: what a full disk did not take must not be written again at the end.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise self._failed(error) from None
        weakref.finalize(self, self._file.close)

    def add(self, array: np.ndarray) -> Place:
        """Writes an array after all others; returns its `Place`."""
        with self._lock:
            place = Place(self._size, array.dtype.type, array.size)
            self._size += array.nbytes
        self.write(place, array)
        return place

    def write(self, place: Place, array: np.ndarray) -> None:
        self._transfer(place, np.ascontiguousarray(array, place.dtype), self._file.write)

    def read(self, place: Place) -> np.ndarray:
        array = np.empty(place.size, place.dtype)
        self._transfer(place, array, self._file.readinto)
        return array

    def _transfer(self, place, array, move):
        rest = array.view(np.uint8).data
        try:
            with self._lock:
                self._file.seek(place.offset)
                while rest:  # A call may move less than is left.
                    rest = rest[move(rest) :]
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error):
        return UserError(
            f"a temporary file of {self._size / 1e9:.1f} GB or more cannot be kept "
            f"({error.strerror}); name a folder with more room: TMPDIR=FOLDER, found "
            f"TMPDIR={os.environ.get('TMPDIR', '')}"
        )


class Direction:
    """One direction of a text, in chunks.

    Attributes:
        rows: `Rows` of all P word pairs of the text, sorted by source word, then target word.
        source_words: `[F]` int32, the source id of each row.
        vocab_sizes: source and target ids are below these.
        num_targets: distinct target words that have cells.
        num_tokens: target tokens that have cells.
        num_cells: cells of the text.
    """

    def __init__(
        self, chunks: list[EncodedCorpus], target_end: bool, file: TemporaryArrays, threads: int
    ):
        self._target_end, self._file, self._threads = target_end, file, threads
        self._lengths = [(c.source.lengths, c.target.lengths) for c in chunks]
        self.vocab_sizes = [
            1 + max((int(chunk[side].ids.max(initial=0)) for chunk in chunks), default=0)
            for side in (0, 1)
        ]
        self._places = list(map_in_order(self._index, chunks, threads))
        self.num_cells = sum(cell_pairs.size for cell_pairs, *_ in self._places)
        sizes = [lengths.astype(np.int64) for _, lengths in self._lengths]
        self.num_tokens = sum(int((m - (0 if target_end else 1)).sum()) for m in sizes)
        self._number()

    def _index(self, corpus):
        """Numbers the word pairs of a chunk in itself; returns the `Place`s of its arrays.

        They are `cell_pairs`, `first_pairs`, `source_words` and `numbers` of `SentencePairs`. The
        place of the numbers in the whole text has the target words until there are numbers.
        """
        cell_pairs, source_words, target_words = number_word_pairs(corpus, self._target_end)
        firsts = np.flatnonzero(np.diff(source_words, prepend=-1))
        arrays = cell_pairs, firsts, source_words[firsts], target_words
        return tuple(map(self._file.add, arrays))

    def _number(self):
        """Numbers the word pairs of the text: for some source words at a time, those of all chunks.

        Rows of all chunks come in the order of the source words, so numbers take the place of
        target words that have been read before.
        """
        firsts, sources = ([self._file.read(places[i]) for places in self._places] for i in (1, 2))
        sizes = [numbers.size for *_, numbers in self._places]
        counts = np.zeros(self.vocab_sizes[0], np.int64)
        for words, starts, size in zip(sources, firsts, sizes, strict=True):
            counts[words] += np.diff(starts, append=size)
        cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _WORD_PAIRS)) + 1
        num_pairs, first_pairs, source_words = 0, [], []
        self._target_words, is_target = [], np.zeros(self.vocab_sizes[1], bool)
        for low, high in itertools.pairwise([0, *cuts.tolist(), counts.size]):

            def keys_of(number, low=low, high=high):
                words, starts = sources[number], firsts[number]
                a, b = np.searchsorted(words, (low, high))
                bounds = np.append(starts, sizes[number])[a : b + 1]
                place = self._places[number][3].part(bounds[0], bounds[-1])
                keys = np.repeat(words[a:b].astype(np.int64) << 32, np.diff(bounds))
                keys |= self._file.read(place)
                return keys, place

            numbers = range(len(sizes))
            parts = list(map_in_order(keys_of, numbers, self._threads))
            keys = np.concatenate([keys for keys, _ in parts])
            keys.sort()
            keys = keys[np.diff(keys, prepend=-1) != 0]  # Faster than np.unique.

            def write_numbers(number, parts=parts, keys=keys, start=num_pairs):
                own, place = parts[number]
                self._file.write(place, np.searchsorted(keys, own) + start)

            list(map_in_order(write_numbers, numbers, self._threads))
            targets = keys.astype(np.int32)  # The lower bits.
            self._target_words.append(self._file.add(targets))
            is_target[targets] = True
            words = keys >> 32
            starts = np.flatnonzero(np.diff(words, prepend=-1))
            first_pairs.append(starts + num_pairs)
            source_words.append(words[starts].astype(np.int32))
            num_pairs += keys.size
        if num_pairs >= 1 << 31:
            raise UserError(f"{num_pairs:,} word pairs are too many; align parts of the text")
        self.rows = Rows(num_pairs, np.concatenate(first_pairs))
        self.source_words = np.concatenate(source_words)
        self.num_targets = int(is_target.sum())

    def word_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the source word and the target word of every word pair, `[P]` int32 each."""
        target_words = np.concatenate([self._file.read(place) for place in self._target_words])
        return self.rows.spread(self.source_words), target_words

    def sentence_pairs(self, number: int) -> SentencePairs:
        """Returns the sentence pairs of a chunk."""
        cell_pairs, first_pairs, source_words, numbers = map(self._file.read, self._places[number])
        layout = lay_out(*self._lengths[number], self._target_end)
        return SentencePairs(
            *(numbers.size, first_pairs, cell_pairs, source_words, numbers),
            *(*layout, self._target_end),
        )

    def row_sums(self, values: Callable[[slice, Rows], np.ndarray]) -> np.ndarray:
        """Sums values of the word pairs of each source word, `[source ids]` float64.

        `values(pairs, rows)`, called in threads, returns float64 values for a slice of word pairs;
        `rows` are only the `Rows` of these.
        """
        sums = np.zeros(self.vocab_sizes[0])
        firsts = np.append(self.rows.first_pairs, self.rows.num_pairs)
        cuts = np.flatnonzero(np.diff(firsts[1:] // _WORD_PAIRS)) + 1

        def sum_between(bounds):
            first, last = firsts[list(bounds)].tolist()
            rows = Rows(last - first, firsts[slice(*bounds)] - first)
            words = self.source_words[slice(*bounds)]
            sums[words] = rows.source_sums(values(slice(first, last), rows))

        bounds = itertools.pairwise([0, *cuts.tolist(), self.source_words.size])
        list(map_in_order(sum_between, bounds, self._threads))
        return sums


class ChunkedText:
    """A text in one direction or in both, in chunks of sentence pairs.

    Each sentence of the corpus ends in `</s>`, which is NULL in the source. `progress` counts
    sentence pairs, `threads` is how many chunks are worked on at once, `target_end` is as
    `number_word_pairs`. The chunks are the same for any number of threads. The attribute
    `directions` is a list of `Direction`; `file` holds the arrays of every chunk; `longest` are the
    tokens of the longest sentence of each side.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        progress: Progress | None = None,
        *,
        both: bool = True,
        target_end: bool = False,
        threads: int = 2,
    ):
        self.file, self.progress = TemporaryArrays(), progress
        self._target_end, self._threads = target_end, threads
        self._chunks, self.directions = _cut(corpus), []
        self.num_sentences, self.num_chunks = corpus.num_pairs, len(self._chunks)
        self.longest = [int(side.lengths.max(initial=0)) for side in corpus]
        self._add_direction(self._chunks)
        if both:
            self.add_reverse()

    def add_reverse(self) -> None:
        """Adds the direction from target to source."""
        self._add_direction([EncodedCorpus(c.target, c.source) for c in self._chunks])

    def _add_direction(self, chunks):
        self.directions.append(Direction(chunks, self._target_end, self.file, self._threads))

    def each(self, work: Callable[[int, list[SentencePairs]], Any]) -> Iterator:
        """Yields `work(number, directions)` of each chunk, in order, and counts its sentence pairs.

        `work`, called in threads, gets the `SentencePairs` of each direction.
        """
        results = map_in_order(
            lambda number: work(number, [d.sentence_pairs(number) for d in self.directions]),
            range(self.num_chunks),
            self._threads,
        )
        for chunk, result in zip(self._chunks, results, strict=True):
            yield result
            if self.progress:
                self.progress.update(chunk.num_pairs)


def _cut(corpus):
    """Cuts a corpus into chunks of about equally many cells, a multiple of `_LEAST_CHUNKS`."""
    cells = np.cumsum(np.multiply(*(side.lengths for side in corpus), dtype=np.int64))
    total = int(cells[-1]) if cells.size else 0
    count = _LEAST_CHUNKS * max(-(-total // (_LEAST_CHUNKS * _CHUNK_CELLS)), 1)
    inner = np.searchsorted(cells, np.arange(1, count) * (total / count))
    bounds = np.unique([0, *inner, cells.size]) if cells.size else np.array([0, 0])
    sides = []
    for side in corpus:
        ends = np.cumsum(side.lengths, dtype=np.int64)
        tokens = np.append(0, ends)[bounds].tolist()
        slices = zip(itertools.pairwise(tokens), itertools.pairwise(bounds.tolist()), strict=True)
        sides.append([EncodedSide(side.ids[i:j], side.lengths[a:b]) for (i, j), (a, b) in slices])
    return [EncodedCorpus(*both) for both in zip(*sides, strict=True)]
