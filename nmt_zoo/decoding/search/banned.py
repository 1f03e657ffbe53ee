"""Phrases that a translation may not contain, found in any way of spelling them with tokens."""

import collections
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.text_form import JOINER
from nmt_zoo.data_pipeline.tokenization.vocabularies import Vocabulary
from nmt_zoo.decoding.search.phrases import in_word, is_boundary, piece_texts
from nmt_zoo.decoding.search.processors import Partial, bar

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

    def start(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the states of empty hypotheses, `[N, Q]` bool."""
        first = [[state < _FIRST_OF_PHRASES for state in range(self.num_states)]]
        return tf.tile(first, [tf.size(rows), 1])

    def follow(self, state: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
        """Returns the states `[N, Q]` after one more token, `[N]` int32, of each hypothesis."""
        before, tokens, following = self.steps.T
        taken = tf.gather(state, before, axis=1) & (token_ids[:, None] == tokens)  # [N, E]
        counts = tf.math.unsorted_segment_sum(
            tf.transpose(tf.cast(taken, tf.int32)), following, self.num_states
        )
        states = tf.range(self.num_states)
        outside = (states == _NOT_IN_WORD) & tf.gather(self.not_in_word, token_ids)[:, None]
        return (tf.transpose(counts) > 0) | outside | (states == _ANYWHERE)

    def __call__(self, scores: tf.Tensor, partial: Partial) -> tf.Tensor:
        """Makes tokens impossible, in `[N, V]`, that would complete a phrase."""
        before, tokens = self.ends.T
        ending = tf.cast(tf.gather(partial.states["banned"], before, axis=1), tf.int32)  # [N, F]
        counts = tf.math.unsorted_segment_sum(tf.transpose(ending), tokens, scores.shape[1])
        return bar(scores, tf.transpose(counts) > 0)


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
    if vocabulary.style == JOINER:  # Its tokens are read with their spaces and joiners.
        parts = [" ".join(vocabulary.split(phrase)) for phrase in phrases]  # pyright: ignore[reportAttributeAccessIssue]
        phrases = [*phrases, *parts]  # By itself, "l'" has other parts than before a word.
    for text in sorted(set(phrases)):
        phrase = text.encode()
        size = len(phrase)
        first = _NOT_IN_WORD if in_word(text[0]) else _ANYWHERE
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
        np.array([not in_word(text.decode(errors="surrogateescape")[-1:]) for text in texts]),
    )


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
        left = [offsets[i] for i in range(1, len(line)) if is_boundary(line, i)]
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
