"""The phrase pairs that may translate a sentence."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.models.phrases.arrays import joined, ranges

LONGEST = 7  # Most words of a phrase.
NOTHING = -1  # Fills the places after the end of a phrase.
NO_KEY = np.iinfo(np.int64).max  # Larger than any key of a phrase.

# The features of a derivation, whose weighted sum is its score.
FEATURES = (
    "language_model",  # log P(target)
    "source_given_target",  # log p(source phrase | target phrase)
    "source_words_given_target",  # its lexical weight
    "target_given_source",
    "target_words_given_source",
    "phrases",  # number of phrases
    "words",  # number of target words
    "distortion",  # minus the source words that are jumped over
    "monotone_before",  # log p(orientation towards the phrase before), if it is monotone
    "swap_before",
    "discontinuous_before",
    "monotone_behind",
    "swap_behind",
    "discontinuous_behind",
    "unknown",  # words that the phrase table cannot translate
)
LANGUAGE = FEATURES.index("language_model")
STATIC = slice(1, 7)  # Features of a phrase pair alone.
DISTORTION = FEATURES.index("distortion")
BEFORE, BEHIND = slice(8, 11), slice(11, 14)
UNKNOWN = FEATURES.index("unknown")
# Of Moses's first weights, but for the unknown words, of which a translation has no choice.
FIRST_WEIGHTS = (0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3, *(0.3,) * 6, 100.0)


class PhraseTable(NamedTuple):
    """Phrase pairs with their scores, sorted by source node, and then the best first.

    F source phrases of two and more words, P pairs and W words of their target phrases. The source
    phrases are the nodes of a trie: words are nodes 0 to V - 1, longer phrases are numbered from V
    on, in the order of their keys.
    """

    vocab_size: int  # V, of the source
    target_size: int  # number of target words
    # [F + 1] int64, rising: V times the node of all words but the last, plus the last word. The
    # last key is larger than any other.
    source_keys: np.ndarray
    first_pairs: np.ndarray  # [V + F + 1] int32, the first pair of each node; then P
    target_starts: np.ndarray  # [P + 1] int32, the first target word of each pair; then W
    target_words: np.ndarray  # [W] int32
    # [P, 4] float32, logarithms: p(source | target), lexical weight of source given target,
    # p(target | source), lexical weight of target given source
    pair_scores: np.ndarray
    reordering: np.ndarray  # [P, 6] float32, log-probabilities of the orientations before, behind
    links: np.ndarray  # [P] int64, bit 7 i + j: source word i and target word j are linked

    def pairs_of(self, source: np.ndarray, max_length: int) -> tuple[np.ndarray, ...]:
        """Finds all phrase pairs of a sentence; returns (starts, ends, pairs), each `[O]` int64."""
        spans = []
        nodes, starts = source.astype(np.int64), np.arange(source.size)
        for length in range(1, max_length + 1):
            if length > 1:
                fits = starts + length <= source.size
                nodes, starts = nodes[fits], starts[fits]
                keys = nodes * self.vocab_size + source[starts + length - 1]
                index = np.searchsorted(self.source_keys, keys)
                exists = self.source_keys[index] == keys
                nodes, starts = index[exists] + self.vocab_size, starts[exists]
            firsts = self.first_pairs[nodes]
            counts = self.first_pairs[nodes + 1] - firsts
            begins = np.repeat(starts, counts)
            spans.append((begins, begins + length, ranges(firsts, counts)))
        return tuple(map(np.concatenate, zip(*spans, strict=True)))

    def targets_of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the target symbols of P pairs, and `[P]` int64, how many they are.

        The symbols are `[P, LONGEST]` int64; after the end, `NOTHING`.
        """
        firsts = self.target_starts[pairs].astype(np.int64)
        lengths = self.target_starts[pairs + 1] - firsts
        columns = np.arange(LONGEST)
        words = self.target_words.take(firsts[:, None] + columns, mode="clip")
        return np.where(columns < lengths[:, None], words, NOTHING).astype(np.int64), lengths

    def features_of(self, pairs: np.ndarray, num_words: np.ndarray, count: int) -> np.ndarray:
        """Returns the features of P pairs alone, `[P, count]`; the others are 0."""
        features = np.zeros((pairs.size, count))
        features[:, STATIC] = np.column_stack(
            [self.pair_scores[pairs], np.ones(pairs.size), num_words]
        )
        return features


class Options(NamedTuple):
    """O ways to translate spans of a sentence of S words."""

    starts: np.ndarray  # [O] int64, first source word
    ends: np.ndarray  # [O] int64, after the last source word
    words: np.ndarray  # [O, LONGEST] int64, target words, then `NOTHING`
    lengths: np.ndarray  # [O] int64, target words
    features: np.ndarray  # [O, len(FEATURES)], those of the pair alone; the others are 0
    orientations: np.ndarray  # [O, 6], log-probabilities before, and behind
    links: np.ndarray  # [O] int64, bits as of `PhraseTable`


def options_of(table: PhraseTable, source: np.ndarray, max_length: int, unknown_id: int) -> Options:
    """Returns the options of a sentence, `[S]` int source ids without `</s>`.

    A word that no phrase pair translates alone can be copied: it becomes `unknown_id`.
    """
    starts, ends, pairs = table.pairs_of(source, max_length)
    words, lengths = table.targets_of(pairs)
    features = table.features_of(pairs, lengths, len(FEATURES))
    orientations = table.reordering[pairs].astype(np.float64)
    options = Options(starts, ends, words, lengths, features, orientations, table.links[pairs])
    alone = np.zeros(source.size, bool)
    alone[starts[ends - starts == 1]] = True
    copies = (made_up(i, i + 1, [unknown_id], 1) for i in np.flatnonzero(~alone))
    return joined(options, *copies)


def made_up(start: int, end: int, words: Sequence[int], num_unknown: int) -> Options:
    """Returns one option that is not in the phrase table; it costs as `num_unknown` words."""
    features = np.zeros((1, len(FEATURES)))
    features[0, STATIC] = 0, 0, 0, 0, 1, len(words)
    features[0, UNKNOWN] = -num_unknown
    padded = np.full((1, LONGEST), NOTHING)
    padded[0, : len(words)] = words
    cells = [7 * i + j for i in range(end - start) for j in range(len(words))]
    links = np.array([sum(1 << cell for cell in cells)], np.int64)
    one = np.array([start]), np.array([end]), padded, np.array([len(words)])
    return Options(*one, features, np.full((1, 6), np.log(1 / 3)), links)


def made_up_for(target: Sequence[int], num_source: int) -> list[Options]:
    """Returns options with which any source can become any target, word by word or phrase.

    One side of each of them is a single word.
    """
    sizes = [(1, n) for n in range(1, LONGEST + 1)] + [(n, 1) for n in range(2, LONGEST + 1)]
    pieces: Iterable = {
        (size, tuple(target[j : j + n])) for size, n in sizes for j in range(len(target) - n + 1)
    }
    return [
        made_up(i, i + size, words, max(size, len(words)))
        for size, words in sorted(pieces)
        for i in range(num_source - size + 1)
    ]
