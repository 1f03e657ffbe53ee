"""BPE-dropout (Provilkov et al. 2020): a random segmentation of the same text in every epoch.

Works on ids, not on text: splits the pieces of a sentence into characters, and merges the
characters again by algorithm 1 of the paper. As long as a word has possible merges, each of them
is dropped with probability p, and the most frequent of the rest is applied. A word is finished when
all its merges are dropped at once, or none is left.

Every random number is a function of seed, epoch, side and line, and of the place in the line. So a
line has the same pieces in whatever batch, process or part of a resumed run it is encoded. With the
sampling of SentencePiece, they would depend on the lines before it and on the package's version.
"""

from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedSide
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BpeVocabulary

_CELLS_AT_ONCE = 1 << 21  # Words x longest word.
_NONE = np.iinfo(np.int32).max  # The rank of two pieces that cannot be merged.
_SPACE = "▁"
_GOLDEN = 0x9E3779B97F4A7C15


class Merges(NamedTuple):
    """The merges of a SentencePiece BPE model.

    `spelling` has the characters of each piece, as ids. A piece that is no word or part of a word,
    such as `</s>`, spells itself.
    """

    spelling: EncodedSide
    is_space: np.ndarray  # [num_pieces] bool, True for the character "▁", which begins a word
    pairs: np.ndarray  # [num_merges] int64, left id * num_pieces + right id, rising
    ranks: np.ndarray  # [num_merges] int32, the place of the merge in the order of BPE
    merged: np.ndarray  # [num_pieces] int32, rank -> the piece that results

    @classmethod
    def of(cls, vocabulary: BpeVocabulary) -> "Merges":
        """Reads the merges of a vocabulary.

        Raises UserError: the model is not of type BPE, or has pieces across words.
        """
        from sentencepiece import sentencepiece_model_pb2

        proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model)  # pyright: ignore[reportAttributeAccessIssue]
        kinds = proto.trainer_spec.DESCRIPTOR.enum_types_by_name["ModelType"].values_by_number
        kind = kinds[proto.trainer_spec.model_type].name
        if kind != "BPE":
            raise UserError(
                f"--bpe_dropout needs a SentencePiece model of type BPE, found {kind}; leave it out"
            )
        normal = proto.SentencePiece.NORMAL
        index = {p.piece: i for i, p in enumerate(proto.pieces) if p.type == normal}
        for piece in index:
            if _SPACE in piece.lstrip(_SPACE):
                raise UserError(
                    f"--bpe_dropout works word by word, but the piece {piece!r} of the "
                    "SentencePiece model has a space within it; leave it out"
                )
        size = len(proto.pieces)
        spelled = [[i] for i in range(size)]
        for piece, i in index.items():
            if all(character in index for character in piece):
                spelled[i] = [index[character] for character in piece]
        order = sorted(range(size), key=lambda i: -proto.pieces[i].score)
        rank_of = np.empty(size, np.int32)
        rank_of[order] = np.arange(size)
        pairs = {
            index[piece[:cut]] * size + index[piece[cut:]]: rank_of[i]
            for piece, i in index.items()
            for cut in range(1, len(piece))
            if piece[:cut] in index and piece[cut:] in index
        }
        keys = np.array(sorted(pairs), np.int64)
        is_space = np.zeros(size, bool)
        is_space[[index[_SPACE]] if _SPACE in index else []] = True
        return cls(
            EncodedSide(
                np.concatenate(spelled).astype(np.int32), np.array([*map(len, spelled)], np.int32)
            ),
            is_space,
            keys,
            np.array([pairs[key] for key in keys.tolist()], np.int32),
            np.array(order, np.int32),
        )

    def rank(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the ranks of the merges of two arrays of ids, int32; `_NONE` for no merge."""
        if not self.pairs.size:
            return np.full(left.shape, _NONE, np.int32)
        keys = left * np.int64(self.merged.size) + right
        index = np.minimum(np.searchsorted(self.pairs, keys), self.pairs.size - 1)
        return np.where(self.pairs[index] == keys, self.ranks[index], _NONE)


class BpeDropout:
    """Encodes the sentences of a corpus in random pieces, others in every epoch.

    The sides of `tokenizer` share a vocabulary. `rate` is p, the probability that a possible merge
    is dropped, in [0, 1]. A sentence that would become longer than `max_length`, in tokens with
    `</s>`, keeps its usual pieces.
    Raises UserError: the SentencePiece model is not of type BPE, or has pieces across words.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int, max_length: int):
        self.merges = Merges.of(tokenizer.source)
        self.least = np.uint64(round(rate * 2**32))  # A merge is kept if a number is not below it.
        self.seed = seed
        self.max_length = max_length

    def sample(self, part: EncodedSide, side: int, epoch: int, first: int = 0) -> EncodedSide:
        """Encodes consecutive sentences, given in their usual pieces, of side 0 (source) or 1.

        `epoch` counts from 0; `first` is the number of the first sentence in the corpus.
        """
        merges = self.merges
        characters = merges.spelling.take(part.ids)
        sentence = np.repeat(np.arange(part.lengths.size), part.lengths)
        sentence = np.repeat(sentence, characters.lengths)
        symbols, line_start = characters.ids, np.diff(sentence, prepend=-1) != 0
        space = merges.is_space[symbols]
        begins = line_start | (space & ~np.concatenate([[False], space[:-1]]))
        words = np.flatnonzero(begins)
        lines = np.flatnonzero(line_start)
        stream = mixed(
            mixed(mixed(np.uint64([self.seed]), [2 * epoch + side]), first + sentence[words]),
            words - lines[sentence[words]],
        )
        alive = self._merge(merges, symbols, words, stream)
        lengths = np.bincount(sentence[alive], minlength=part.lengths.size).astype(np.int32)
        sampled, is_too_long = EncodedSide(symbols[alive], lengths), lengths > self.max_length
        if not is_too_long.any():
            return sampled
        return sampled.joined(part).take(np.arange(lengths.size) + lengths.size * is_too_long)

    def _merge(self, merges, symbols, words, stream):
        """Merges the characters of all words, in place.

        `symbols` is `[num_characters]` ids, `words` the `[num_words]` numbers of the words' first
        characters; `stream`, `[num_words]` uint64, is where their random numbers begin. Returns
        `[num_characters]` bool, True for the places in `symbols` that hold a piece.
        """
        alive = np.ones(symbols.size, bool)
        sizes = np.diff(words, append=symbols.size)
        order = np.argsort(sizes, kind="stable")
        order = order[np.searchsorted(sizes[order], 2) :]
        while order.size:  # Words of similar lengths together, the longest first.
            width = int(sizes[order[-1]])
            count = np.searchsorted(sizes[order], width // 2, side="right")
            count = max(count, order.size - max(1, _CELLS_AT_ONCE // width))
            order, chosen = order[:count], order[count:]
            self._merge_words(merges, symbols, alive, words[chosen], sizes[chosen], stream[chosen])
        return alive

    def _merge_words(self, merges, symbols, alive, starts, sizes, stream):
        """Merges the characters of words of similar lengths; changes `symbols` and `alive`."""
        width = int(sizes.max())
        columns = np.arange(width)
        positions = np.minimum(starts[:, None] + columns, symbols.size - 1)
        pieces = symbols[positions]
        real = columns < sizes[:, None]
        # The linked list of the pieces of each word; column `width` lies outside of all words.
        after = np.tile(columns + 1, (starts.size, 1))
        before = np.tile(columns - 1, (starts.size, 1))
        ranks = np.full((starts.size, width), _NONE, np.int32)
        ranks[:, :-1] = np.where(real[:, 1:], merges.rank(pieces[:, :-1], pieces[:, 1:]), _NONE)
        left = real.copy()
        rows = np.flatnonzero((ranks != _NONE).any(axis=1))
        step = 0
        while rows.size:
            numbers = np.uint64(step << 32) + np.arange(-(-width // 2), dtype=np.uint64)
            draws = mixed(stream[rows, None], numbers).view("<u4")[:, :width]  # [words, width]
            is_kept = draws >= self.least
            offered = np.where(is_kept, ranks[rows], _NONE)
            at = offered.argmin(axis=1)
            best = offered[np.arange(rows.size), at]
            going = best != _NONE
            rows, at, best = rows[going], at[going], best[going]
            right = after[rows, at]
            pieces[rows, at] = merges.merged[best]
            left[rows, right] = False
            ranks[rows, right] = _NONE
            behind = after[rows, at] = after[rows, right]
            inside = behind < sizes[rows]
            before[rows[inside], behind[inside]] = at[inside]
            ranks[rows, at] = _NONE
            ahead = before[rows, at]
            for exists, left_at, right_at in ((inside, at, behind), (ahead >= 0, ahead, at)):
                word, first, second = rows[exists], left_at[exists], right_at[exists]
                ranks[word, first] = merges.rank(pieces[word, first], pieces[word, second])
            step += 1
        symbols[positions[real]] = pieces[real]
        alive[positions[real]] = left[real]


def mixed(state: np.ndarray, numbers: np.ndarray | list[int]) -> np.ndarray:
    """Hashes uint64 states and numbers to uint64: output `numbers` of SplitMix64 from `state`.

    Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators", figure 17.
    """
    with np.errstate(over="ignore"):
        z = state + (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
