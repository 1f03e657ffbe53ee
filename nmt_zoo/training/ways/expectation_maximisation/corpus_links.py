"""Word alignments of a whole corpus from an IBM or HMM model, in arrays."""

import itertools
from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.word_pairs import Block, SentencePairs

_PAIRS = 1 << 14  # Sentence pairs whose links become lists at once.


class CorpusLinks:
    """The links of the sentence pairs of a text, in arrays.

    It is like a list, but smaller: it has a length, and iterating over it gives a list of `(source
    position, target position)` of every sentence pair, counted from 0. `counts` is `[sentences]`
    int32, the links of each sentence pair; `sources` and `targets` are `[L]` int32, the positions
    of the links of one sentence pair after the other.
    """

    def __init__(self, counts: np.ndarray, sources: np.ndarray, targets: np.ndarray):
        arrays = counts, sources, targets
        self.counts, self.sources, self.targets = (np.asarray(a, np.int32) for a in arrays)

    @classmethod
    def of_lists(cls, lists: Iterable[list[tuple[int, int]]]) -> "CorpusLinks":
        """Makes an instance of lists of `(source position, target position)`."""
        counts, positions = array("i"), array("i")
        for links in lists:
            counts.append(len(links))
            positions.extend(itertools.chain.from_iterable(links))
        counts, positions = (np.frombuffer(a, np.int32) for a in (counts, positions))
        return cls(counts, positions[::2], positions[1::2])

    @classmethod
    def joined(cls, parts: Iterable["CorpusLinks"]) -> "CorpusLinks":
        """Joins the `CorpusLinks` of one part of a text after the other."""
        arrays = zip(*((p.counts, p.sources, p.targets) for p in parts), strict=True)
        return cls(*map(np.concatenate, arrays))

    def __len__(self):
        return self.counts.size

    def __iter__(self):
        first = 0
        for start in range(0, len(self), _PAIRS):
            ends = np.cumsum(self.counts[start : start + _PAIRS]).tolist()
            window = slice(first, first + ends[-1])
            positions = self.sources[window].tolist(), self.targets[window].tolist()
            links = list(zip(*positions, strict=True))
            yield from (links[a:b] for a, b in itertools.pairwise([0, *ends]))
            first += ends[-1]

    def reversed(self) -> "CorpusLinks":
        """Returns the same links with source and target exchanged, in their order."""
        sentences = np.repeat(np.arange(len(self)), self.counts)
        return _sorted(sentences, self.targets, self.sources, len(self))


def _sorted(sentences, sources, targets, num_sentences):
    """Returns `CorpusLinks` sorted by sentence pair, then target position, then source position."""
    order = np.lexsort((sources, targets, sentences))
    counts = np.bincount(sentences, minlength=num_sentences)
    return CorpusLinks(counts, sources[order], targets[order])


def links_of(pairs: SentencePairs, choose: Callable[[Block], tuple]) -> CorpusLinks:
    """Returns the links that some cells stand for, without cells of NULL and `</s>`.

    `choose(block)` returns the rows and the source positions of the cells, `[L]` int each.
    """
    parts = [(np.zeros(0, np.int64),) * 3]
    for block in pairs.blocks:
        rows, columns = choose(block)
        sentences, targets = block.row_sentences[rows], block.row_positions[rows]
        real = columns < block.source_length - 1
        if pairs.target_end:
            real &= targets < block.target_lengths[sentences] - 1
        parts.append((block.pairs[sentences[real]], columns[real], targets[real]))
    arrays = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _sorted(*arrays, pairs.num_sentences)


def best_links(pairs: SentencePairs, posteriors: np.ndarray) -> CorpusLinks:
    """Returns each target word's most probable source, unless NULL, by posteriors `[cells]`."""

    def choose(block):
        best = posteriors[block.cells].reshape(-1, block.source_length).argmax(axis=1)
        return np.arange(best.size), best

    return links_of(pairs, choose)


def links_of_both(
    directions: Sequence[SentencePairs], posteriors: Sequence[np.ndarray], is_link: Callable
) -> CorpusLinks:
    """Returns the links, in the forward direction, that the posteriors of both directions decide.

    `posteriors` are `[cells]` for each direction. `is_link` gets two arrays of posteriors of the
    same links, from the forward and the reverse direction, and returns a bool array.
    """
    pairs, twin = directions

    def choose(block):
        forward = posteriors[0][block.cells].reshape(-1, block.source_length)[:, :-1]
        return np.nonzero(is_link(forward, pairs.facing(block, twin, posteriors[1])))

    return links_of(pairs, choose)
