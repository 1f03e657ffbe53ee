"""Phrases that a translation may not contain, found in any way of spelling them with tokens."""

import collections
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.tokenization.vocabularies import SPECIALS
from decoding.search.constraints import bar

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_ANYWHERE, _NOT_IN_WORD, _FIRST_OF_PHRASES = range(3)  # States of `BannedPhrases`.


class BannedPhrases(NamedTuple):
    """The ways in which tokens spell phrases: an automaton that reads a hypothesis.

    Every hypothesis is always in state `_ANYWHERE`, and in state `_NOT_IN_WORD` if its last token
    does not end in a letter or digit. Any other state stands for the beginning of a phrase that the
    last tokens have spelt.

    Attributes:
        num_states: Q.
        steps: `[E, 3]` int32, (state, token, next state).
        ends: `[F, 2]` int32, (state, token): the token would complete a phrase.
        not_in_word: `[V]` bool, tokens after which a word may begin without a space.
    """

    num_states: int
    steps: np.ndarray
    ends: np.ndarray
    not_in_word: np.ndarray

    def start(self, num_rows):
        """Returns the states of empty hypotheses, `[num_rows, Q]` bool."""
        return tf.tile(
            [[state < _FIRST_OF_PHRASES for state in range(self.num_states)]], [num_rows, 1]
        )

    def follow(self, reached, token_ids):
        """Returns the states `[N, Q]` after one more token, `[N]` int32, of each hypothesis."""
        states, tokens, following = self.steps.T
        taken = tf.gather(reached, states, axis=1) & (token_ids[:, None] == tokens)  # [N, E]
        counts = tf.math.unsorted_segment_sum(
            tf.transpose(tf.cast(taken, tf.int32)), following, self.num_states
        )
        states = tf.range(self.num_states)
        before = (states == _NOT_IN_WORD) & tf.gather(self.not_in_word, token_ids)[:, None]
        return (tf.transpose(counts) > 0) | before | (states == _ANYWHERE)

    def bar(self, log_probs, reached):
        """Makes tokens impossible, in `[N, V]`, that would complete a phrase."""
        states, tokens = self.ends.T
        ending = tf.cast(tf.gather(reached, states, axis=1), tf.int32)  # [N, F]
        counts = tf.math.unsorted_segment_sum(tf.transpose(ending), tokens, log_probs.shape[1])
        return bar(log_probs, tf.transpose(counts) > 0)


def banned_phrases(phrases, vocabulary):
    """Finds all ways in which the tokens of a vocabulary spell phrases.

    A phrase is found as whole words, in whatever tokens: "er" is not part of "▁Kind" "er". But the
    tokens "▁er" "st" are refused, too, because the first of them is a banned word already.

    Args:
        phrases: list of str, without outer spaces, with single spaces between words.
        vocabulary: `BpeVocabulary` or `WordVocabulary`.

    Returns:
        `BannedPhrases`.
    """
    texts = piece_texts(vocabulary)
    inner, starting, ending, whole = _cuts(texts)
    steps, ends, num_states = [], [], _FIRST_OF_PHRASES
    for text in sorted(set(phrases)):
        phrase = text.encode()
        size = len(phrase)
        first = _NOT_IN_WORD if _in_word(text[0]) else _ANYWHERE
        state_at = [first, *range(num_states, num_states + size - 1)]
        num_states += size - 1
        for start in range(size):
            for end in range(start + 1, size):
                tokens = inner[phrase[start:end]]
                steps += [(state_at[start], token, state_at[end]) for token in tokens]
            ends += [(state_at[start], token) for token in ending[phrase[start:]]]
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


def piece_texts(vocabulary):
    """Returns what each token adds to a line, as bytes; nothing for special tokens."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    style = vocabulary.style
    return [b""] * len(SPECIALS) + [piece_text(piece, style) for piece in pieces[len(SPECIALS) :]]


def word_joints(vocabulary):
    """Finds the tokens between which no word begins or ends.

    Returns:
        Two arrays `[V]` bool: the tokens that continue the word of the token before them, and the
        tokens whose word the next token continues, whatever the two are.
    """
    continues, opens = np.zeros([2, len(vocabulary)], bool)
    if vocabulary.style == "▁":
        lines = [text.decode(errors="surrogateescape") for text in piece_texts(vocabulary)]
        strange = "\udc80"  # The first character that stands for a byte of a longer character.
        continues = np.array([_in_word(line[:1]) or line[:1] >= strange for line in lines])
    elif vocabulary.style == "@@":
        opens = np.array([p.endswith("@@") for p in vocabulary.pieces(range(len(vocabulary)))])
    return continues, opens


def piece_text(piece, style):
    """Returns what a piece adds to a line, as bytes; `style` as `piece_style` returns it."""
    if style == "▁":
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()
    if style == "@@" and piece.endswith("@@"):
        return piece.removesuffix("@@").encode()
    return f"{piece} ".encode()


def _cuts(texts):
    """Indexes the parts of tokens that can be a part of a phrase.

    Where a phrase begins or ends inside a token, the token must have no letter or digit beside it.

    Returns:
        Four dicts of bytes -> ids of tokens: of whole tokens, of their ends, of their beginnings,
        and of parts between. A whole token is among the beginnings, but not among the ends.
    """
    inner, starting, ending, whole = (collections.defaultdict(set) for _ in range(4))
    for token, text in enumerate(texts):
        line = text.decode(errors="surrogateescape")
        offsets = [len(line[:i].encode(errors="surrogateescape")) for i in range(len(line) + 1)]
        left = [offsets[i] for i in range(1, len(line)) if not _in_word(line[i - 1])]
        right = [len(text), *(offsets[i] for i in range(1, len(line)) if not _in_word(line[i]))]
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


def _in_word(character):
    return character.isalnum() or character == "_"
