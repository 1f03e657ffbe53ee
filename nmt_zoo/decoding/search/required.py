"""Phrases that a translation must contain: how much of them a hypothesis has, and which to extend.

Post and Vilar 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
Machine Translation". Hypotheses with equally many tokens of the phrases form a bank, and a beam is
shared among the banks: each in turn gives its next best extension, so that hypotheses that have
begun a phrase do not lose to more probable ones that have not. Unlike in the paper, this beam is
beside the one of the most probable hypotheses. So a translation that has the phrases anyway is not
lost to the banks, of which each has few places.

Shapes: R phrases of at most L tokens for each sentence, padded.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.search.processors import Partial, bar, bar_token
from nmt_zoo.decoding.search.types import IMPOSSIBLE


class PhraseProgress(NamedTuple):
    """Progress of N hypotheses through their required phrases."""

    phrases: tf.Tensor  # [N, R, L] int32.
    spelt: tf.Tensor  # [N, R, L] bool, whether the last tokens are the phrase up to here.
    met: tf.Tensor  # [N, R] bool, whether the phrase is complete, now or earlier.
    just_met: tf.Tensor  # [N, R] bool, whether the last token was the first to complete it.
    in_word: tf.Tensor  # [N] bool, whether the next token continues the word of the last one.

    @property
    def lengths(self) -> tf.Tensor:
        """`[N, R]` int32."""
        return tf.reduce_sum(tf.cast(self.phrases != PAD_ID, tf.int32), axis=2)

    @property
    def begun(self) -> tf.Tensor:
        """`[N, R]` int32, the tokens of each incomplete phrase that have just been written."""
        places = tf.range(1, tf.shape(self.phrases)[2] + 1)
        begun = tf.reduce_max(tf.where(self.spelt, places, 0), axis=2)
        return tf.where(self.met, 0, begun)

    @property
    def num_met(self) -> tf.Tensor:
        """`[N]` int32, tokens of the phrases: all of complete ones, and of one that is begun."""
        complete = tf.reduce_sum(tf.where(self.met, self.lengths, 0), axis=1)
        return complete + _largest(self.begun)

    @property
    def num_left(self) -> tf.Tensor:
        """`[N]` int32, the tokens that are still to be written, and one to end another word."""
        left = tf.reduce_sum(self.lengths, axis=1) - self.num_met
        is_between = self.in_word & (left > 0) & (_largest(self.begun) == 0)
        return left + tf.cast(is_between, tf.int32)

    @property
    def num_unmet(self) -> tf.Tensor:
        """`[N]` int32, the tokens of all phrases that are not complete."""
        return tf.reduce_sum(tf.where(self.met, 0, self.lengths), axis=1)

    @property
    def next_tokens(self) -> tf.Tensor:
        """`[N, R]` int32, the token that continues each phrase; PAD for complete ones."""
        place = tf.minimum(self.begun, tf.shape(self.phrases)[2] - 1)
        following = tf.gather(self.phrases, place, axis=2, batch_dims=2)
        return tf.where(self.met, PAD_ID, following)

    def leaves_room(self, room: tf.Tensor, joints: tuple[Any, Any]) -> tf.Tensor:
        """Finds the tokens after which all that is then still to be written fits, `[N, V]` bool.

        A token may complete a phrase, break off one that is begun, or continue the word at the end
        of one, which is then not met: "Haus" is not met by "Haustür". `room` `[N]` int32 counts the
        tokens after the next one, without `</s>`. True where nothing is still to be written.
        """
        # The tokens of the phrases are tried; all others break off what is begun.
        num_rows, vocab_size = tf.shape(self.met)[0], tf.size(joints[1])
        tokens = tf.reshape(self.phrases, [num_rows, -1])  # [N, R * L]
        count = tf.shape(tokens)[1]
        extended = tf.nest.map_structure(lambda leaf: tf.repeat(leaf, count, axis=0), self)
        left = extended.follow(tf.reshape(tokens, [-1]), joints).num_left
        fits = tf.reshape(left, tf.shape(tokens)) <= room[:, None]
        undone = tf.reduce_sum(tf.where(self.just_met, self.lengths, 0), axis=1, keepdims=True)
        needed = self.num_unmet[:, None] + tf.where(joints[0], undone, 0)
        needed += tf.where(needed > 0, tf.cast(joints[1], tf.int32), 0)
        rows = tf.broadcast_to(tf.range(num_rows)[:, None], tf.shape(tokens))
        fitting = tf.tensor_scatter_nd_max(
            tf.zeros([num_rows, vocab_size], tf.int32),
            tf.stack([rows, tokens], axis=-1),
            tf.cast(fits, tf.int32),
        )
        return (needed <= room[:, None]) | (needed == 0) | (fitting > 0)

    def follow(self, token_ids: tf.Tensor, joints: tuple[Any, Any]) -> "PhraseProgress":
        """Returns the progress after one more token, `[N]` int32, of each hypothesis.

        `joints` are `phrases.word_joints`: tokens that continue the word before them, whose phrase
        is not met after all, and tokens whose word goes on, in which no phrase begins.
        """
        continues, opens = joints
        may_begin = tf.ones_like(self.spelt[:, :, :1]) & ~self.in_word[:, None, None]
        before = tf.concat([may_begin, self.spelt[:, :, :-1]], axis=2)
        spelt = before & (self.phrases == token_ids[:, None, None]) & (self.phrases != PAD_ID)
        met = self.met & ~(self.just_met & tf.gather(continues, token_ids)[:, None])
        is_last = tf.range(1, tf.shape(self.phrases)[2] + 1) == self.lengths[:, :, None]
        just_met = tf.reduce_any(spelt & is_last, axis=2) & ~met
        in_word = tf.gather(opens, token_ids)
        return PhraseProgress(self.phrases, spelt, met | just_met, just_met, in_word)


class RequiredPhrases:
    """Translations contain phrases, which begin to share a beam of their own, see above.

    `phrases` `[B, R, L]` int32; `limits` `[B]` int32, most tokens of each sentence's translations;
    `joints` are `phrases.word_joints`.
    """

    def __init__(self, phrases: tf.Tensor, limits: tf.Tensor, joints: tuple[Any, Any]) -> None:
        self.phrases, self.limits, self.joints = phrases, limits, joints

    def start(self, rows: tf.Tensor) -> PhraseProgress:
        phrases, in_word = tf.gather(self.phrases, rows), tf.zeros_like(rows, tf.bool)
        met = phrases[:, :, 0] == PAD_ID
        spelt, just_met = tf.zeros_like(phrases, tf.bool), tf.zeros_like(met)
        return PhraseProgress(phrases, spelt, met, just_met, in_word)

    def follow(self, state: PhraseProgress, token_ids: tf.Tensor) -> PhraseProgress:
        return state.follow(token_ids, self.joints)

    def __call__(self, scores: tf.Tensor, partial: Partial) -> tf.Tensor:
        """Keeps hypotheses from ending too early, and from having too little room for a phrase."""
        state = partial.states["required"]
        left = state.num_left
        scores = bar_token(scores, EOS_ID, left > 0)
        room = tf.gather(self.limits, partial.rows) - partial.step - 2
        fits = state.leaves_room(room, self.joints)
        # Where only phrases fit, they may repeat n-grams.
        is_urgent = (left > 0) & (state.num_unmet > room)
        return bar(tf.where(is_urgent[:, None], partial.log_probs, scores), ~fits)

    def with_next(
        self, logits: tf.Tensor, values: tf.Tensor, tokens: tf.Tensor, progress: PhraseProgress
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Adds the R tokens that continue phrases to the best ones, `[N, width]`; none twice."""
        width, following = tf.shape(tokens)[1], progress.next_tokens
        before = tf.concat([tokens, following], axis=1)[:, None, :]
        places = tf.range(tf.shape(before)[2])
        earlier = places < tf.range(tf.shape(following)[1])[:, None] + width
        twice = tf.reduce_any((before == following[:, :, None]) & earlier, axis=2)
        added = tf.where(twice, IMPOSSIBLE, tf.gather(logits, following, batch_dims=1))
        return tf.concat([values, added], axis=1), tf.concat([tokens, following], axis=1)

    def allocate(
        self,
        setup: Any,
        best: tf.Tensor,
        places: tf.Tensor,
        log_probs: tf.Tensor,
        tokens: tf.Tensor,
        progress: PhraseProgress,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Adds to the best extensions of A sentences those of the banks, which leave them alone.

        `places` `[A, E]` of the best ones, `best` their log-probabilities, are in the flat
        `log_probs` `[A, L * width]` and `tokens` `[N, width]` of all extensions. Returns
        log-probabilities, ranks and places, `[2A, E]`: for each sentence the best, then the banks'.
        """
        shape = tf.shape(log_probs)
        left = _without_used(setup, log_probs, places, tokens)
        ranks, of_banks = setup.top_k(self._ranks(left, tokens, progress), places.shape[1])
        of_banks += tf.range(shape[0])[:, None] * shape[1]
        ranks, places = (
            tf.reshape(tf.stack(both, axis=1), [-1, places.shape[1]])
            for both in ((best, ranks), (places, of_banks))
        )
        best = tf.gather(tf.reshape(log_probs, [-1]), places)
        return tf.where(ranks > IMPOSSIBLE / 2, best, IMPOSSIBLE), ranks, places

    def _ranks(self, log_probs, tokens, progress):
        """Ranks extensions by turns: the best of each bank, then the second best of each.

        Returns numbers shaped as `log_probs`, larger for what comes first.
        """
        width = tf.shape(tokens)[1]
        extended = tf.nest.map_structure(lambda x: tf.repeat(x, width, axis=0), progress)
        banks = extended.follow(tf.reshape(tokens, [-1]), self.joints).num_met
        banks = tf.reshape(banks, tf.shape(log_probs))  # [A, L * width]
        # By bank, and in a bank by log-probability.
        order = tf.argsort(log_probs, axis=1, direction="DESCENDING", stable=True)
        by_bank = tf.argsort(tf.gather(banks, order, batch_dims=1), axis=1, stable=True)
        order = tf.gather(order, by_bank, batch_dims=1)
        sorted_banks = tf.gather(banks, order, batch_dims=1)
        # The number of more probable candidates of the same bank.
        rank = tf.range(tf.shape(banks)[1]) - tf.searchsorted(sorted_banks, sorted_banks)
        rank = tf.gather(rank, tf.argsort(order, axis=1), batch_dims=1)
        preferred = tf.cast(banks - rank * (tf.reduce_max(banks) + 1), tf.float32)
        # A sentence without phrases has no banks, so that it does not depend on its neighbours.
        asks = tf.reduce_any(progress.lengths > 0, axis=1)
        asks = tf.reshape(asks, [tf.shape(log_probs)[0], -1])[:, :1]
        return tf.where(asks & (log_probs > IMPOSSIBLE / 2), preferred, IMPOSSIBLE)


def _without_used(setup, log_probs, places, tokens):
    """Makes the extensions impossible that the first K hypotheses end with or continue with.

    Arguments as of `RequiredPhrases.allocate`.
    """
    beam_size = setup.options.beam_size
    ends = tf.gather(tf.reshape(tokens, [-1]), places) == EOS_ID
    ended = ends & (tf.range(tf.shape(places)[1]) < beam_size)
    continued = ~ends & (tf.cumsum(tf.cast(~ends, tf.int32), axis=1) <= beam_size)
    used = tf.boolean_mask(places, ended | continued)[:, None]
    flat = tf.reshape(log_probs, [-1])
    flat = tf.tensor_scatter_nd_update(flat, used, tf.fill(tf.shape(used)[:1], IMPOSSIBLE))
    return tf.reshape(flat, tf.shape(log_probs))


def _largest(counts):
    """Returns the largest of each row of `[N, R]`, 0 if there are none."""
    return tf.reduce_max(tf.pad(counts, [[0, 0], [0, 1]]), axis=1)
