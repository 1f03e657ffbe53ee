"""A text of any size in chunks of sentence pairs, of which each thread has one in memory.

Word pairs are numbered in each chunk and in the whole text. What every cell has, such as the number
of its word pair, is in a temporary file; what every word pair of the text has, such as its count,
is in memory.
"""

import collections
import concurrent.futures
import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import (
    Cells,
    Rows,
    index_word_pairs,
    lay_out,
)

# Most cells of a chunk, unless one sentence pair has more. In larger chunks more word pairs recur.
_CHUNK_CELLS = 1 << 20
# Word pairs that are merged or changed at once: bounds the working memory of a whole table.
_WORD_PAIRS = 1 << 21


def in_order(work: Callable[[Any], Any], items: Iterable, threads: int) -> Iterator:
    """Yields `work(item)` of each item, in order; works in threads, never far ahead of its caller.

    NumPy releases the interpreter's lock inside its operations, so two threads keep two cores busy.
    """
    pending = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class Place(NamedTuple):
    """Where an array is in a `TemporaryArrays`."""

    offset: int
    dtype: type
    size: int

    def part(self, start: int, stop: int) -> "Place":
        return self._replace(offset=self.offset + start * self.dtype().itemsize, size=stop - start)


class TemporaryArrays:
    """A context manager with arrays in a file without a name, see `tempfile.gettempdir`.

    The file is gone when the context or the process ends, however it ends.

    Raises:
        UserError: the file cannot be made or written, for example because the disk is full.
    """

    def __init__(self):
        self._lock, self._size = threading.Lock(), 0
        try:
            # Without a buffer: what a full disk did not take must not be written again at the end.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed in __exit__
        except OSError as error:
            raise self._failed(error) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

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


class ChunkPlaces(NamedTuple):
    """Where the arrays of one chunk and one direction are."""

    cell_pairs: Place
    first_pairs: Place
    source_words: Place
    numbers: Place


class Part(NamedTuple):
    """One direction of one chunk."""

    cells: Cells  # word pairs are numbered in the chunk
    numbers: np.ndarray  # [P] int32, the numbers of the chunk's word pairs in the whole text
    source_words: np.ndarray  # [F] int32, the id of each source word of the chunk


class Direction:
    """One direction of a text, in chunks.

    Attributes:
        rows: `Rows` of all word pairs of the text, sorted by source word, then target word.
        source_words: `[F]` int32, the source id of each row.
        vocab_sizes: source and target ids are below these.
        num_tokens: target tokens that have cells.
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
        results = list(in_order(self._index, chunks, threads))
        self.num_tokens = sum(num_tokens for _, num_tokens in results)
        self._places = [places for places, _ in results]
        self._number()

    def _index(self, corpus):
        """Numbers the word pairs of a chunk in itself; returns (`ChunkPlaces`, its target tokens).

        The place of the numbers in the whole text has the target words until there are numbers.
        """
        words = index_word_pairs(corpus, target_end=self._target_end)
        sources = words.source_words[words.first_pairs]
        arrays = words.cell_pairs, words.first_pairs, sources, words.target_words
        return ChunkPlaces(*map(self._file.add, arrays)), words.num_tokens

    def _number(self):
        """Numbers the word pairs of the text: for some source words at a time, those of all chunks.

        Rows of all chunks come in the order of the source words, so numbers take the place of
        target words that have been read before.
        """
        sources = [self._file.read(places.source_words) for places in self._places]
        firsts = [self._file.read(places.first_pairs) for places in self._places]
        sizes = [p.numbers.size for p in self._places]
        found = np.zeros(self.vocab_sizes[0], np.int64)
        for words, starts, size in zip(sources, firsts, sizes, strict=True):
            found[words] += np.diff(starts, append=size)
        cuts = np.flatnonzero(np.diff(np.cumsum(found) // _WORD_PAIRS)) + 1
        num_pairs, first_pairs, source_words = 0, [], []
        for low, high in itertools.pairwise([0, *cuts.tolist(), found.size]):

            def keys_of(number, low=low, high=high):
                words, starts = sources[number], firsts[number]
                a, b = np.searchsorted(words, (low, high))
                bounds = np.append(starts, sizes[number])[a : b + 1]
                place = self._places[number].numbers.part(bounds[0], bounds[-1])
                keys = np.repeat(words[a:b].astype(np.int64) << 32, np.diff(bounds))
                keys |= self._file.read(place)
                return keys, place

            numbers = range(len(sizes))
            parts = list(in_order(keys_of, numbers, self._threads))
            keys = np.concatenate([keys for keys, _ in parts])
            keys.sort()
            keys = keys[np.diff(keys, prepend=-1) != 0]  # Faster than np.unique.

            def write_numbers(number, parts=parts, keys=keys, start=num_pairs):
                own, place = parts[number]
                self._file.write(place, np.searchsorted(keys, own) + start)

            list(in_order(write_numbers, numbers, self._threads))
            words = keys >> 32
            starts = np.flatnonzero(np.diff(words, prepend=-1))
            first_pairs.append(starts + num_pairs)
            source_words.append(words[starts].astype(np.int32))
            num_pairs += keys.size
        if num_pairs >= 1 << 31:
            raise UserError(f"{num_pairs:,} word pairs are too many; align parts of the text")
        self.rows = Rows(num_pairs, np.concatenate(first_pairs))
        self.source_words = np.concatenate(source_words)

    def part(self, number: int) -> Part:
        places = self._places[number]
        cell_pairs, first_pairs, source_words, numbers = map(self._file.read, places)
        layout = lay_out(*self._lengths[number], self._target_end)
        cells = Cells(numbers.size, first_pairs, cell_pairs, *layout, self._target_end)
        return Part(cells, numbers, source_words)

    def for_rows(self, work: Callable[[slice, slice, Rows], None]) -> None:
        """Calls `work(pairs, rows, own)`, in threads, for some rows of the text after the other.

        `pairs` and `rows` are slices of word pairs and their rows, `own` is `Rows` of only these.
        """
        firsts = np.append(self.rows.first_pairs, self.rows.num_pairs)
        cuts = np.flatnonzero(np.diff(firsts[1:] // _WORD_PAIRS)) + 1

        def work_between(bounds):
            first, last = firsts[list(bounds)].tolist()
            own = Rows(last - first, firsts[slice(*bounds)] - first)
            work(slice(first, last), slice(*bounds), own)

        bounds = itertools.pairwise([0, *cuts.tolist(), self.source_words.size])
        list(in_order(work_between, bounds, self._threads))


class ChunkedText:
    """A text in one direction or in both, in chunks of sentence pairs.

    Each sentence of the corpus ends in `</s>`, which is NULL in the source. `progress` counts
    sentence pairs, `threads` is how many chunks are worked on at once, `target_end` is as
    `index_word_pairs`. The attribute `directions` is a list of `Direction`.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        file: TemporaryArrays,
        progress: Progress | None = None,
        *,
        both: bool = True,
        target_end: bool = False,
        threads: int = 2,
    ):
        self.file, self.progress, self._threads = file, progress, threads
        self.num_sentences = corpus.num_pairs
        chunks = _cut(corpus, threads)
        self._sizes = [chunk.num_pairs for chunk in chunks]
        ways = [chunks]
        if both:
            ways.append([EncodedCorpus(chunk.target, chunk.source) for chunk in chunks])
        self.directions = [Direction(way, target_end, self.file, threads) for way in ways]

    def each(self, work: Callable[[int, list[Part]], Any]) -> Iterator:
        """Yields `work(number, parts)` of each chunk, in order, and counts its sentence pairs.

        `work`, called in threads, gets the `Part` of each direction.
        """

        def read_and_work(number):
            return work(number, [direction.part(number) for direction in self.directions])

        results = in_order(read_and_work, range(len(self._sizes)), self._threads)
        for size, result in zip(self._sizes, results, strict=True):
            yield result
            if self.progress:
                self.progress.update(size)


def _cut(corpus, threads):
    """Cuts a corpus into some chunks for each thread, of about equally many cells."""
    cells = np.cumsum(np.multiply(*(side.lengths for side in corpus), dtype=np.int64))
    total = int(cells[-1]) if cells.size else 0
    count = threads * max(-(-total // (threads * _CHUNK_CELLS)), 1)
    inner = np.searchsorted(cells, np.arange(1, count) * (total / count))
    bounds = np.unique([0, *inner, cells.size]) if cells.size else np.array([0, 0])
    sides = []
    for side in corpus:
        ends = np.cumsum(side.lengths, dtype=np.int64)
        tokens = np.append(0, ends)[bounds].tolist()
        places = zip(itertools.pairwise(tokens), itertools.pairwise(bounds.tolist()), strict=True)
        sides.append([EncodedSide(side.ids[i:j], side.lengths[a:b]) for (i, j), (a, b) in places])
    return [EncodedCorpus(*both) for both in zip(*sides, strict=True)]
