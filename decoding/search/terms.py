"""The arguments and results of a search."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_zoo.configuration.options import LENGTH_PENALTY

IMPOSSIBLE = -1e9  # Finite, so that sums and differences of impossible scores are never NaN.


class Hypotheses(NamedTuple):
    """Translations of B sentences: K hypotheses for each, the best first.

    Attributes:
        ids: `[B, K, T]` int32, with EOS, padded after it.
        log_probs: `[B, K]` float32, natural log-probability of all tokens including EOS. For a
            model that combines others: the sum of its scores.
        scores: `[B, K]` float32, `log_probs` divided by the length penalty, and for finished ones
            the coverage penalty added.
        finished: `[B, K]` bool, whether EOS was reached within the length limit. Unfinished
            hypotheses come after the finished ones. If a sentence has fewer than K hypotheses, its
            unused places have a log-probability of -1e8 or less.

    If the model's scores for a sentence are not numbers, its `log_probs` and `scores` are NaN and
    its ids mean nothing.
    """

    ids: Any
    log_probs: Any
    scores: Any
    finished: Any


class SpecialIds(NamedTuple):
    """The ids that a search treats differently from words.

    Attributes:
        pad: fills the places after the end of a hypothesis; never emitted.
        bos: the previous token of the first step; never emitted.
        eos: ends a hypothesis.
        forbidden: further ids that are never emitted, such as UNK.
    """

    pad: int
    bos: int
    eos: int
    forbidden: tuple[int, ...] = ()

    @property
    def never(self):
        """The ids that are never emitted."""
        return (self.pad, self.bos, *self.forbidden)

    def are_never(self, vocab_size):
        """Returns `[vocab_size]` bool, True for the ids that are never emitted."""
        return tf.reduce_any(tf.range(vocab_size)[:, None] == tf.constant(self.never), axis=1)


class SearchOptions(NamedTuple):
    """Options of a search.

    Attributes:
        beam_size: K, hypotheses that a search follows at a time; 1 is greedy search.
        length_penalty: alpha of `length_normaliser`; 0 compares plain log-probabilities.
        emit_unknowns: whether a translation may contain UNK.
        min_length_factor: fewest tokens of a translation for each token of its source.
        max_length_factor: most tokens of a translation for each token of its source.
        max_length_extra: further tokens that a translation may have.
        no_repeat_ngram: length of the n-grams that a translation contains at most once; 0: none.
        coverage_penalty: beta of Wu et al. 2016, equation 14; 0: none.
        diversity_groups: G, groups into which the beam is divided; divides K.
        diversity_strength: what a token costs for each hypothesis of an earlier group that has the
            same token at the same place.
        sample: whether each token is drawn at random instead of searched for; K is then 1.
        temperature: of the draws, see `decoding.search.constraints.draw`.
        top_k: of the draws.
        top_p: of the draws.
        banned: `decoding.search.phrases.BannedPhrases`, or None.
        shortlist: `decoding.search.shortlist.Shortlist`, or None: all tokens are scored.
        rules: `decoding.search.rules.DecodingRule`s of the user's own.
    """

    beam_size: int = 4
    length_penalty: float = LENGTH_PENALTY
    emit_unknowns: bool = False
    min_length_factor: float = 0.0
    max_length_factor: float = 2.0
    max_length_extra: int = 20
    no_repeat_ngram: int = 0
    coverage_penalty: float = 0.0
    diversity_groups: int = 1
    diversity_strength: float = 0.5
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    banned: Any = None
    shortlist: Any = None
    rules: tuple = ()

    def length_limit(self, source_length):
        """Returns the most tokens of a translation, for the tokens of its source: int or int32."""
        if isinstance(source_length, int):
            # In float32, too, so that both are equal.
            limit = np.float32(self.max_length_factor) * np.float32(source_length)
            return int(limit) + self.max_length_extra
        limit = self.max_length_factor * tf.cast(source_length, tf.float32)
        return tf.cast(limit, tf.int32) + self.max_length_extra


class EachSentence(NamedTuple):
    """Options of single sentences, for batches in which they differ.

    Attributes:
        beam_size: `[B]` int32, 1 to K; a sentence is searched as with a beam of this size.
        length_penalty: `[B]` float32.
        n_best: `[B]` int32, 1 to `beam_size`.
    """

    beam_size: Any
    length_penalty: Any
    n_best: Any


def length_normaliser(length, length_penalty):
    """`((5 + length) / 6) ^ length_penalty`, Wu et al. 2016, equation 14."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** length_penalty
