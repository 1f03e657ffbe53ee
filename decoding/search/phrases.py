"""Phrases that a translation may not contain, found in any way of spelling them with tokens."""

import collections
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, Vocabulary
from nmt_zoo.decoding.search.constraints import bar

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Han, Kana, Thai, Lao, Khmer and Myanmar have no spaces between words, so a word may begin and end
# beside any of their letters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
# A private character: no piece has it together with other characters.
_MARKER = "\ue000"
_ANYWHERE, _NOT_IN_WORD, _FIRST_OF_PHRASES = range(3)  # States of `BannedPhrases`.


class BannedPhrases(NamedTuple):
    """The ways in which tokens spell phrases: an automaton that reads a hypothesis.

    Every hypothesis is always in state `_ANYWHERE`, and in state `_NOT_IN_WORD` if a word may begin
    after its last token without a space. Any other state stands for the beginning of a phrase that
    the last tokens have spelt.
    """

    num_states: int  # Q.
    steps: np.ndarray  # [E, 3] int32, (state, token, next state).
    ends: np.ndarray  # [F, 2] int32, (state, token): the token would complete a phrase.
    not_in_word: np.ndarray  # [V] bool, tokens after which a word may begin without a space.

    def start(self, num_rows: int | tf.Tensor) -> tf.Tensor:
        """Returns the states of empty hypotheses, `[num_rows, Q]` bool."""
        return tf.tile(
            [[state < _FIRST_OF_PHRASES for state in range(self.num_states)]], [num_rows, 1]
        )

    def follow(self, reached: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
        """Returns the states `[N, Q]` after one more token, `[N]` int32, of each hypothesis."""
        states, tokens, following = self.steps.T
        taken = tf.gather(reached, states, axis=1) & (token_ids[:, None] == tokens)  # [N, E]
        counts = tf.math.unsorted_segment_sum(
            tf.transpose(tf.cast(taken, tf.int32)), following, self.num_states
        )
        states = tf.range(self.num_states)
        before = (states == _NOT_IN_WORD) & tf.gather(self.not_in_word, token_ids)[:, None]
        return (tf.transpose(counts) > 0) | before | (states == _ANYWHERE)

    def bar(self, log_probs: tf.Tensor, reached: tf.Tensor) -> tf.Tensor:
        """Makes tokens impossible, in `[N, V]`, that would complete a phrase."""
        states, tokens = self.ends.T
        ending = tf.cast(tf.gather(reached, states, axis=1), tf.int32)  # [N, F]
        counts = tf.math.unsorted_segment_sum(tf.transpose(ending), tokens, log_probs.shape[1])
        return bar(log_probs, tf.transpose(counts) > 0)


def banned_phrases(phrases: Sequence[str], vocabulary: Vocabulary) -> BannedPhrases:
    """Finds all ways in which the tokens of a vocabulary spell phrases.

    A phrase is found as whole words, in whatever tokens: "er" is not part of "▁Kind" "er". But the
    tokens "▁er" "st" are refused, too, because the first of them is a banned word already. In
    scripts without spaces, phrases are found in running text. `phrases` have no outer spaces, and
    single spaces between words.
    """
    # Several spaces are one in the line that is decoded.
    texts = [re.sub(b" +", b" ", text) for text in piece_texts(vocabulary)]
    inner, starting, ending, whole = _cuts(texts)
    steps, ends, num_states = [], [], _FIRST_OF_PHRASES
    for text in sorted(set(phrases)):
        phrase = text.encode()
        size = len(phrase)
        first = _NOT_IN_WORD if _in_word(text[0]) else _ANYWHERE
        state_at = [first, *range(num_states, num_states + size - 1)]
        num_states += size - 1
        for start in range(size):
            # After a space, a token may begin with another one.
            for begin in range(start - phrase[:start].endswith(b" "), start + 1):
                for end in range(begin + 1, size):
                    tokens = inner[phrase[begin:end]]
                    steps += [(state_at[start], token, state_at[end]) for token in tokens]
                ends += [(state_at[start], token) for token in ending[phrase[begin:]]]
        for end in range(1, size):
            steps += [(_ANYWHERE, token, state_at[end]) for token in starting[phrase[:end]]]
        ends += [(_ANYWHERE, token) for token in whole[phrase]]
    return BannedPhrases(
        num_states,
        np.array(steps, np.int32).reshape(-1, 3),
        np.array(ends, np.int32).reshape(-1, 2),
        # Bytes of a letter may be tokens of their own, of which nothing is known.
        np.array([not _in_word(text.decode(errors="surrogateescape")[-1:]) for text in texts]),
    )


def piece_texts(vocabulary: Vocabulary) -> list[bytes]:
    """Returns what each token adds to a line, as bytes; nothing for special tokens."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    style = vocabulary.style
    return [b""] * len(SPECIALS) + [piece_text(piece, style) for piece in pieces[len(SPECIALS) :]]


def word_joints(vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Finds the tokens between which no word begins or ends, as two arrays `[V]` bool.

    The first marks the tokens that continue the word of the token before them, the second the
    tokens whose word the next token continues, whatever the two are.
    """
    continues, opens = np.zeros([2, len(vocabulary)], bool)
    if vocabulary.style == "▁":
        lines = [text.decode(errors="surrogateescape") for text in piece_texts(vocabulary)]
        continues = np.array([_may_continue_word(line[:1]) for line in lines])
    elif vocabulary.style == "@@":
        opens = np.array([p.endswith("@@") for p in vocabulary.pieces(range(len(vocabulary)))])
    return continues, opens


def piece_text(piece: str, style: str) -> bytes:
    """Returns what a piece adds to a line, as bytes; `style` as `piece_style` returns it."""
    if style == "▁":
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()
    if style == "@@" and piece.endswith("@@"):
        return piece.removesuffix("@@").encode()
    return f"{piece} ".encode()


def _cuts(texts):
    """Indexes the parts of tokens that can be a part of a phrase: four dicts, bytes -> token ids.

    They are of whole tokens, of their ends, of their beginnings, and of parts between. A whole
    token is among the beginnings, but not among the ends. Where a phrase begins or ends inside a
    token, no word of the token may go on beside it.
    """
    inner, starting, ending, whole = (collections.defaultdict(set) for _ in range(4))
    for token, text in enumerate(texts):
        line = text.decode(errors="surrogateescape")
        offsets = [len(line[:i].encode(errors="surrogateescape")) for i in range(len(line) + 1)]
        left = [offsets[i] for i in range(1, len(line)) if _is_boundary(line, i)]
        right = [len(text), *left]
        if text:
            inner[text].add(token)
        for start in left:
            starting[text[start:]].add(token)
            for end in right:
                if start < end:
                    whole[text[start:end]].add(token)
        for end in right:
            ending[text[:end]].add(token)
    return [collections.defaultdict(tuple, index) for index in (inner, starting, ending, whole)]


def has_phrase(text: str, phrase: str) -> bool:
    """Returns whether a text has a phrase as whole words, as `banned_phrases` finds it."""
    places = (match.start() for match in re.finditer(f"(?={re.escape(phrase)})", text))
    return any(_is_boundary(text, i) and _is_boundary(text, i + len(phrase)) for i in places)


def phrase_ids(phrase: str, vocabulary: Vocabulary) -> list[int]:
    """Encodes a phrase, without `</s>`, as it is encoded inside a line.

    In scripts without spaces, that is without the space with which SentencePiece begins a line.
    """
    if vocabulary.style == "▁" and _UNSPACED.match(phrase):
        marker, marked = vocabulary.encode([_MARKER, _MARKER + phrase])
        if marked[: len(marker) - 1] == marker[:-1]:
            return marked[len(marker) - 1 : -1]
    return vocabulary.encode([phrase])[0][:-1]


def _is_boundary(text, i):
    """Returns whether a word may begin or end before character i of a text."""
    if i in (0, len(text)):
        return True
    return not _is_mark(text[i]) and not (_in_word(text[i - 1]) and _in_word(text[i]))


def _in_word(character):
    """Returns whether a character, or "", is part of a word that spaces separate from others."""
    if not character:
        return False
    kind = unicodedata.category(character)[0]  # Letter, mark, number or another.
    is_spaced = kind in "LM" and not _UNSPACED.match(character)
    return is_spaced or kind == "N" or character == "_"


def _is_mark(character):
    return unicodedata.category(character)[0] == "M"


def _may_continue_word(character):
    if not character:
        return False
    is_byte = "\udc80" <= character <= "\udcff"  # Of a longer character, of which nothing is known.
    return is_byte or _in_word(character) or _is_mark(character)
