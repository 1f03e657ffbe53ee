"""Extracts phrase pairs that agree with the word alignment of a text.

Och and Ney 2004, "The Alignment Template Approach to Statistical Machine Translation", section 3.1;
Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 3. All sentence pairs are
searched at once, with arrays of positions in the whole text.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.models.phrases.arrays import joined
from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import CorpusLinks

MONOTONE, SWAP, DISCONTINUOUS = range(3)  # Orientations of a phrase, as columns of tables.
_FAR = np.iinfo(np.int32).max


class LinkedText(NamedTuple):
    """A text and its links, by positions in the whole text, which count every `</s>`.

    N source positions, M target positions and L links.
    """

    source_ends: np.ndarray  # [N] int64, the position of the `</s>` of each position's sentence
    target_ends: np.ndarray  # [M] int64
    target_starts: np.ndarray  # [N] int64, first target position of each source position's sentence
    sources: np.ndarray  # [L] int64, rising; links of equal source positions by target position
    targets: np.ndarray  # [L] int64


class Occurrences(NamedTuple):
    """Places of phrase pairs in a text, each `[P]` int64; the ends are exclusive."""

    source_start: np.ndarray
    source_end: np.ndarray
    target_start: np.ndarray
    target_end: np.ndarray


def link_text(corpus: EncodedCorpus, links: CorpusLinks) -> LinkedText:
    """Returns the `LinkedText` of sentence pairs that end in `</s>`."""
    ends, starts = [], []
    for side in corpus:
        lengths = side.lengths.astype(np.int64)
        last = np.cumsum(lengths) - 1
        ends.append(np.repeat(last, lengths))
        starts.append(last + 1 - lengths)
    sentences = np.repeat(np.arange(len(links)), links.counts)
    sources, targets = starts[0][sentences] + links.sources, starts[1][sentences] + links.targets
    order = np.lexsort((targets, sources))
    target_starts = np.repeat(starts[1], corpus.source.lengths)
    return LinkedText(*ends, target_starts, sources[order], targets[order])


def extract(text: LinkedText, max_length: int) -> Occurrences:
    """Finds every phrase pair of up to `max_length` words on each side.

    A pair of phrases has at least one link, and no word of it is linked to a word outside. Words
    without links at the edges of the target phrase may belong to it or not: all ways are returned.
    Those of the source phrase follow from all starts and ends of source phrases.
    """
    is_free = np.ones(text.target_ends.size, bool)
    is_free[text.targets] = False
    is_word = np.arange(text.target_ends.size) != text.target_ends
    before, after = _free_runs(is_free & is_word, max_length)
    occurrences = [Occurrences(*np.zeros((4, 0), np.int64))]
    for length, starts, left, right in smallest_targets(text, max_length):
        for more in range(max_length):
            for further in range(max_length - more):
                ok = (before[left] >= more) & (after[right] >= further)
                ok &= right - left + more + further <= max_length
                if ok.any():
                    at = starts[ok]
                    target = left[ok] - more, right[ok] + further
                    occurrences.append(Occurrences(at, at + length, *target))
    return joined(*occurrences)


def parallel_phrases(text: LinkedText, max_length: int) -> Occurrences:
    """Finds the phrase pairs of up to `max_length` words on each side that have links at all edges.

    As texts, they are sentence pairs in small: nothing at their edges is without a translation.
    """
    has_link = np.zeros(text.source_ends.size, bool)
    has_link[text.sources] = True
    occurrences = [Occurrences(*np.zeros((4, 0), np.int64))]
    for length, starts, first, last in smallest_targets(text, max_length):
        ok = has_link[starts] & has_link[starts + length - 1]
        occurrences.append(Occurrences(starts[ok], starts[ok] + length, first[ok], last[ok]))
    return joined(*occurrences)


def smallest_targets(
    text: LinkedText, max_length: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields for each length of a source phrase those that have a target phrase.

    They are (the length, starts of source phrases `[P]`, starts of the smallest target phrases
    `[P]`, and their ends `[P]`). Neither side has more than `max_length` words.
    """
    first, last = _ranges(text.sources, text.targets, text.source_ends.size)
    back_first, back_last = _ranges(text.targets, text.sources, text.target_ends.size)
    shortest, longest = _windows(back_first, back_last, max_length)
    starts = np.arange(text.source_ends.size)
    low, high = first, last
    for length in range(1, max_length + 1):
        if length > 1:  # Extends the phrases by a word.
            starts = starts[: starts.size - 1]
            low = np.minimum(low[:-1], first[length - 1 :])
            high = np.maximum(high[:-1], last[length - 1 :])
        size = high - low + 1
        fits = starts + length <= text.source_ends[starts]
        fits &= (high >= 0) & (size <= max_length)
        begin, left, size = starts[fits], low[fits], size[fits]
        inside = (shortest[size - 1, left] >= begin) & (longest[size - 1, left] < begin + length)
        yield length, begin[inside], left[inside], (left + size)[inside]


def _ranges(positions, others, size):
    """Returns the first and last position that each is linked to; `_FAR` and -1 without links."""
    first, last = np.full(size, _FAR, np.int64), np.full(size, -1, np.int64)
    np.minimum.at(first, positions, others)
    np.maximum.at(last, positions, others)
    return first, last


def _windows(first, last, max_length):
    """Returns the smallest `first` and largest `last` of windows: `[max_length, M]` each.

    Row n - 1 has the windows of n places that begin at each place.
    """
    low, high = [first], [last]
    for length in range(2, max_length + 1):
        shifted = np.append(first[length - 1 :], np.full(length - 1, _FAR))[: first.size]
        low.append(np.minimum(low[-1], shifted))
        shifted = np.append(last[length - 1 :], np.full(length - 1, -1))[: last.size]
        high.append(np.maximum(high[-1], shifted))
    return np.stack(low), np.stack(high)


def _free_runs(is_free, most):
    """Counts the free words, up to `most`, that end before each place and that begin at it.

    Both are `[M + 1]`, so that a place may be the end of the text.
    """
    padded = np.concatenate([np.zeros(most, bool), is_free, np.zeros(most + 1, bool)])
    size = is_free.size + 1
    before, after = np.zeros((2, size), np.int64)
    runs_before = runs_after = np.ones(size, bool)
    for n in range(most):
        runs_before = runs_before & padded[most - 1 - n : most - 1 - n + size]
        runs_after = runs_after & padded[most + n : most + n + size]
        before += runs_before
        after += runs_after
    return before, after


def orientations(text: LinkedText, pairs: Occurrences) -> np.ndarray:
    """Finds how phrase pairs follow each other: `[P, 2]` int64, before and after each pair.

    Column 0 is the orientation towards the target word before: MONOTONE if that word is linked to
    the source word before, SWAP if it is linked to the source word behind, else DISCONTINUOUS.
    Column 1 is the same towards the target word behind. Sentences are as if their starts were
    linked, and their ends, as in Koehn et al. 2005, "Edinburgh System Description for the 2005
    IWSLT Speech Translation Evaluation".
    """
    num_targets = text.target_ends.size + 2
    keys = (text.sources + 1) * num_targets + text.targets + 1  # Rising.

    def linked(source, target):
        key = (source + 1) * num_targets + target + 1
        return keys[np.minimum(np.searchsorted(keys, key), keys.size - 1)] == key

    start, end, first, last = pairs
    source_end, target_start = text.source_ends[start], text.target_starts[start]
    target_end = text.target_ends[first]
    previous = np.concatenate([[True], np.diff(text.source_ends) > 0])  # Starts of sentences.
    at_start, at_end = previous[start], end == source_end
    opens, closes = first == target_start, last == target_end
    result = np.full((start.size, 2), DISCONTINUOUS)
    result[~opens & ~at_end & linked(end, first - 1), 0] = SWAP
    result[~closes & ~at_start & linked(start - 1, last), 1] = SWAP
    before = np.where(opens, at_start, ~at_start & linked(start - 1, first - 1))
    after = np.where(closes, at_end, ~at_end & linked(end, last))
    result[before, 0] = MONOTONE
    result[after, 1] = MONOTONE
    return result


def count_in_parts(
    corpus: EncodedCorpus,
    text: LinkedText,
    count: Callable[[LinkedText, list], Any],
    what: str,
    pairs_at_once: int,
) -> Any:
    """Counts what is extracted from a text in bounded memory; returns the sum of all counts.

    `count(part, begin)` returns the counts of some sentence pairs, a record for `add_up`; `part` is
    a text of its own that begins at the positions `begin` of source and target.
    """
    starts = [np.append(0, np.cumsum(side.lengths, dtype=np.int64)) for side in corpus]
    counts = []
    with Progress(f"extracting {what}", corpus.num_pairs, "sentence pairs") as progress:
        for first in range(0, corpus.num_pairs, pairs_at_once):
            last = min(first + pairs_at_once, corpus.num_pairs)
            begin, end = [side[first] for side in starts], [side[last] for side in starts]
            rows = slice(*np.searchsorted(text.sources, (begin[0], end[0])))
            part = LinkedText(
                text.source_ends[begin[0] : end[0]] - begin[0],
                text.target_ends[begin[1] : end[1]] - begin[1],
                text.target_starts[begin[0] : end[0]] - begin[1],
                text.sources[rows] - begin[0],
                text.targets[rows] - begin[1],
            )
            counts.append(count(part, begin))
            # Merged like the digits of a counter: each record is copied a few times only.
            while len(counts) > 1 and counts[-1].keys.size >= counts[-2].keys.size:
                counts[-2:] = [add_up(counts[-2:])]
            progress.update(last - first)
    return add_up(counts)


def add_up(parts: list) -> Any:
    """Adds up `counts` and `orientations` of equal `keys`.

    Everything else is that of the occurrence whose `lexical` weights are largest.
    """
    counts = joined(*parts)
    order = np.lexsort((-counts.lexical.sum(axis=1), counts.keys))
    keys = counts.keys[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    if not firsts.size:
        return counts
    arrays = counts._asdict()
    sums = {
        name: np.add.reduceat(arrays[name][order], firsts)
        for name in ("counts", "orientations")
        if name in arrays
    }
    return counts._replace(**{name: a[order[firsts]] for name, a in arrays.items()} | sums)


def positions_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the positions of the words of phrases, then `NOTHING`: `[P, LONGEST]` int64."""
    offsets = np.arange(LONGEST)
    return np.where(offsets < lengths[:, None], starts[:, None] + offsets, NOTHING)


def inner_links(text: LinkedText, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the links inside phrase pairs or rules as bits, `[P]` int64.

    `sources` and `targets` are `[P, LONGEST]`, positions in the text, below 0 for no word. Bit
    `LONGEST` i + j is the link of source symbol i and target symbol j.
    """
    bits = np.zeros(sources.shape[0], np.int64)
    firsts = np.searchsorted(text.sources, np.arange(text.source_ends.size + 1))
    for i, positions in enumerate(sources.T):
        rows = np.flatnonzero(positions >= 0)
        begin, end = firsts[positions[rows]], firsts[positions[rows] + 1]
        for n in range(int((end - begin).max(initial=0))):
            has_link = begin + n < end
            linked = text.targets[begin[has_link] + n]
            row, j = np.nonzero(targets[rows[has_link]] == linked[:, None])
            bits[rows[has_link][row]] |= np.int64(1) << (LONGEST * i + j)
    return bits


def lexical_weights(corpus: EncodedCorpus, text: LinkedText) -> tuple[np.ndarray, np.ndarray]:
    """Computes the log-probability of every word given the words that it is linked to.

    Returns `[N]` and `[M]` float64, for source and target words:
    the mean of w(word | linked word) over its links, or w(word | NULL) without links, where w are
    relative frequencies of links. The sum over a phrase is its lexical weight, Koehn et al. 2003,
    equation 4, because words of a phrase pair are linked to words of the pair alone.
    """
    ends = text.source_ends, text.target_ends
    result = []
    for side, (positions, others) in enumerate(
        ((text.sources, text.targets), (text.targets, text.sources))
    ):
        words, other_words = corpus[side].ids.astype(np.int64), corpus[1 - side].ids
        size = int(words.max(initial=0)) + 1
        keys = other_words[others] * size + words[positions]
        _, numbers, num_equal = np.unique(keys, return_inverse=True, return_counts=True)
        totals = np.bincount(other_words[others])
        weights = num_equal[numbers] / totals[other_words[others]]
        num_links = np.bincount(positions, minlength=words.size)
        sums = np.bincount(positions, weights, minlength=words.size)
        free = (num_links == 0) & (np.arange(words.size) != ends[side])
        alone = np.bincount(words[free], minlength=size)
        share = alone[words] / max(alone.sum(), 1)
        mean = np.where(num_links > 0, sums / np.maximum(num_links, 1), share)
        result.append(np.log(np.maximum(mean, 1e-12)))
    return result[0], result[1]
