"""One step of the search: its hypotheses, and how all of them are extended by a token.

The rules stand in `beam_search`, which runs steps in a graph of any size; `compiled` runs the same
steps in programs of fixed sizes.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.decoding.search.largest import TopK, largest
from nmt_zoo.decoding.search.terms import (
    IMPOSSIBLE,
    EachSentence,
    Guests,
    Hypotheses,
    SearchOptions,
    SpecialIds,
    length_normaliser,
)
from nmt_zoo.models.base import Searchable

# How much longer live hypotheses are expected to become when they are compared with finished ones:
# with 1, better ones of the beam are lost; without a bound, a search takes up to twice as long.
_AHEAD = 1.25
_NO_GUESTS = Guests()


class Rules(NamedTuple):
    """What a search looks for, and how."""

    options: SearchOptions
    special_ids: SpecialIds
    barred: tf.Tensor  # [V] float32, `IMPOSSIBLE` for tokens that are never emitted, 0 for others.
    n_best: int | tf.Tensor  # Scalar, number of translations asked for.
    may_stop_early: bool  # Whether the scores of hypotheses can only fall with more tokens.
    guests: Guests
    each: Any  # `EachSentence` of A sentences, or ().
    top_k: TopK  # Finds the largest numbers.

    @property
    def length_penalty(self) -> Any:
        return self.each.length_penalty if self.each else self.options.length_penalty

    def normaliser(self, length: tf.Tensor) -> tf.Tensor:
        """Returns what the log-probability of that many tokens is divided by."""
        by_length = self.options.divide_by_length
        return length_normaliser(length, self.length_penalty, by_length)

    @property
    def num_live(self) -> Any:
        """L, the number of hypotheses of a sentence that are extended at a time."""
        return self.options.beam_size * (2 if self.guests.banks else 1)


def make_rules(
    model: Searchable,
    options: SearchOptions,
    special_ids: SpecialIds,
    n_best: int | tf.Tensor | EachSentence | None,
    guests: Guests = _NO_GUESTS,
    top_k: TopK = tf.math.top_k,
) -> Rules:
    """Returns the `Rules`; arguments as `beam_search.beam_search`."""
    return Rules(
        options,
        special_ids,
        barred=tf.where(special_ids.are_never(model.target_vocab_size), IMPOSSIBLE, 0.0),
        n_best=options.beam_size if n_best is None else n_best,
        may_stop_early=model.scores_only_fall,
        guests=guests,
        each=n_best if isinstance(n_best, EachSentence) else (),
        top_k=top_k,
    )


class Beam(NamedTuple):
    """The search results so far: L live and at most K finished hypotheses of A sentences."""

    live_ids: tf.Tensor  # [A, L, T] int32; L is K, or 2K with banks.
    live_log_probs: tf.Tensor  # [A, L] float32.
    last_ids: tf.Tensor  # [A, L] int32, last token of each live hypothesis.
    done_ids: tf.Tensor  # [A, K, T] int32.
    done_scores: tf.Tensor  # [A, K] float32, the best first; `IMPOSSIBLE` in unused places.
    done_log_probs: tf.Tensor  # [A, K] float32.
    done_extra: tf.Tensor | tuple  # [A, K] float32, to add to the scores in the end; else ().


class Active(NamedTuple):
    """The A sentences that are not done, with their hypotheses and the model's context."""

    row: tf.Tensor  # [A] int32, the row of each sentence in the batch.
    limit: tf.Tensor  # [A] int32, most tokens of a hypothesis.
    best_possible: tf.Tensor  # [A] float32, the length normaliser of `limit` tokens.
    each: Any  # As in `Rules`.
    hypotheses: Beam
    context: Any  # The model's context of these sentences, leaves [A, ...].


def extend(
    model: Searchable,
    rules: Rules,
    active: Active,
    step: tf.Tensor,
    hypotheses: Beam,
    state: Any,
) -> tuple[Beam, Any, tf.Tensor, tf.Tensor]:
    """Extends the live hypotheses of all active sentences, now `hypotheses`, by a token.

    `step` is their length, `state` the model's. Returns `(hypotheses, state, must_leave, certain)`:
    two `[A]` bool for sentences that are done, because nothing can be added to them, or because
    nothing better can be found. The latter may stay for some steps, which change nothing.
    """
    last_ids = tf.reshape(hypotheses.last_ids, [-1])
    output = model.decode_step(last_ids, step, state, active.context)
    normaliser = model.log_normaliser(output.logits)
    if rules.options.first is not None:
        output = output._replace(logits=_with_first(output.logits, step, rules))
    hypotheses, parents, is_nan = _extended(hypotheses, output, normaliser, step, rules)
    must_leave = is_nan | (step + 1 >= active.limit)
    certain = is_certain(hypotheses, step + 1, active, rules)
    hypotheses = _without_numbers(hypotheses, is_nan)
    live_log_probs = tf.where(certain[:, None], IMPOSSIBLE, hypotheses.live_log_probs)
    hypotheses = hypotheses._replace(live_log_probs=live_log_probs)
    # Each new hypothesis continues from the state of its parent.
    state = output.state
    if hypotheses.last_ids.shape[1] > 1:
        state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, parents), state)
    return hypotheses, state, must_leave, certain


def _with_first(logits, step, rules):
    """Returns logits that in the first step leave no choice but `SearchOptions.first`."""
    others = tf.range(rules.barred.shape[0]) != rules.options.first
    return tf.where(others & (step == 0), IMPOSSIBLE, logits)


def empty_beam(batch_size: int | tf.Tensor, length: int | tf.Tensor, rules: Rules) -> Beam:
    """Returns the `Beam` to start from: one live hypothesis without tokens."""
    beam_size, live, special_ids = rules.options.beam_size, rules.num_live, rules.special_ids
    live_ids, done_ids = (
        tf.fill([batch_size, count, length], tf.constant(special_ids.pad, tf.int32))
        for count in (live, beam_size)
    )
    first_only = tf.where(tf.range(live) == 0, 0.0, IMPOSSIBLE)
    nowhere = tf.fill([batch_size, beam_size], IMPOSSIBLE)
    return Beam(
        live_ids=live_ids,
        live_log_probs=tf.broadcast_to(first_only, [batch_size, live]),
        last_ids=tf.fill([batch_size, live], tf.constant(special_ids.bos, tf.int32)),
        done_ids=done_ids,
        done_scores=nowhere,
        done_log_probs=nowhere,
        done_extra=tf.zeros_like(nowhere) if rules.guests.ending else (),
    )


class _Extensions(NamedTuple):
    """Extensions of the live hypotheses of A sentences by a token, the best E first.

    If there are banks, each sentence has two rows, so X = 2A: the most probable ones, and those of
    the banks. Otherwise X = A.
    """

    tokens: tf.Tensor  # [X, E] int32.
    parents: tf.Tensor  # [X, E] int32, the row of the hypothesis that each one extends.
    log_probs: tf.Tensor  # [X, E] float32.
    preferred: tf.Tensor  # [X, E] float32, by which they are ranked; often the `log_probs`.
    is_nan: tf.Tensor  # [A] bool, whether a score of the sentence is not a number.


def _best_extensions(hypotheses, output, normaliser, rules):
    """Returns the best 2K `_Extensions` of each sentence; 1 if the beam is 1."""
    beam_size, live = rules.options.beam_size, hypotheses.last_ids.shape[1]
    banks = rules.guests.banks
    vocab_size = rules.barred.shape[0]
    # The best extensions of each hypothesis, among them those that are barred.
    most = 2 * beam_size if beam_size > 1 else 1
    width = min(most + len(rules.special_ids.never), vocab_size)
    if banks:
        log_probs, tokens = banks.candidates(output, width)  # [A * L, width]
        width = tf.shape(tokens)[1]
    else:
        log_probs, tokens = largest(output.logits, width, rules.top_k)
    if rules.guests.tokens is not None:
        tokens = tf.gather(rules.guests.tokens, tokens)
    log_probs = log_probs - normaliser + tf.gather(rules.barred, tokens)
    log_probs += tf.reshape(hypotheses.live_log_probs, [-1, 1])
    # A logit that is NaN or infinite makes its normaliser, or the difference, NaN or infinite.
    is_nan = tf.reduce_any(tf.math.is_nan(log_probs) | ~tf.math.is_finite(normaliser), axis=1)
    is_nan = tf.reduce_any(tf.reshape(is_nan, [-1, live]), axis=1)
    # The best extensions of each sentence, [A, 2K], of its first K hypotheses.
    by_sentence = tf.reshape(log_probs, [-1, live * width])
    preferred = by_sentence[:, : beam_size * width] if banks else by_sentence
    most = min(most, beam_size * vocab_size)
    preferred, best = rules.top_k(preferred, most)
    if rules.each:  # A narrower beam looks at fewer extensions.
        narrow = rules.each.beam_size
        preferred = _only_first(preferred, tf.where(narrow > 1, 2 * narrow, 1))
    start = tf.range(tf.shape(best)[0])[:, None] * (live * width)
    places = best + start
    if banks:
        left = _without_used(by_sentence, places, tokens, rules)
        of_banks = banks.of(output, left, tf.reshape(tokens, [-1, width]))
        of_banks, best = rules.top_k(of_banks, most)
        preferred, places = (
            tf.reshape(tf.stack(both, axis=1), [-1, most])
            for both in ((preferred, of_banks), (places, best + start))
        )
    log_probs = preferred
    if banks:
        log_probs = tf.gather(tf.reshape(by_sentence, [-1]), places)
        log_probs = tf.where(preferred > IMPOSSIBLE / 2, log_probs, IMPOSSIBLE)
    tokens = tf.gather(tf.reshape(tokens, [-1]), places)
    return _Extensions(tokens, places // width, log_probs, preferred, is_nan)


def _without_used(log_probs, places, tokens, rules):
    """Makes the extensions impossible that the first K hypotheses end with or continue with.

    `log_probs` `[A, n]` and `tokens` are of all extensions; `places` `[A, 2K]` are those of the
    most probable ones.
    """
    beam_size = rules.options.beam_size
    ends = tf.gather(tf.reshape(tokens, [-1]), places) == rules.special_ids.eos
    ended = ends & (tf.range(tf.shape(places)[1]) < beam_size)
    continued = ~ends & (tf.cumsum(tf.cast(~ends, tf.int32), axis=1) <= beam_size)
    used = tf.boolean_mask(places, ended | continued)[:, None]
    flat = tf.reshape(log_probs, [-1])
    flat = tf.tensor_scatter_nd_update(flat, used, tf.fill(tf.shape(used)[:1], IMPOSSIBLE))
    return tf.reshape(flat, tf.shape(log_probs))


def _extended(hypotheses, output, normaliser, step, rules):
    """Extends every live hypothesis by a token.

    The logits are `[A * L, V]`, or have a column for each of `Guests.tokens`; `normaliser`
    `[A * L, 1]` is subtracted from them. Returns `(Beam, parents, is_nan)`: parents
    `[A * L]`, the row of the hypothesis that each live one extends; is_nan `[A]`, whether a score
    of the sentence is not a number.
    """
    beam_size, live = rules.options.beam_size, hypotheses.last_ids.shape[1]
    tokens, parents, log_probs, preferred, is_nan = _best_extensions(
        hypotheses, output, normaliser, rules
    )
    ends = tokens == rules.special_ids.eos
    here = tf.range(tf.shape(hypotheses.live_ids)[2]) == step
    ids = tf.reshape(hypotheses.live_ids, [-1, tf.shape(hypotheses.live_ids)[2]])

    # Finished hypotheses. Only the first K extensions may end: a beam of 1 is then greedy.
    may_end, possible, ending = (  # [A, L]
        tf.reshape(values[:, :beam_size], [-1, live]) for values in (ends, log_probs, parents)
    )
    divisor = rules.normaliser(step + 1)
    scores = possible / (divisor[:, None] if rules.each else divisor)
    may_end &= possible > IMPOSSIBLE / 2
    if rules.each:
        may_end &= tf.range(live) < rules.each.beam_size[:, None]
    scores = tf.concat([hypotheses.done_scores, tf.where(may_end, scores, IMPOSSIBLE)], axis=1)
    new_ids = tf.where(here, rules.special_ids.eos, tf.gather(ids, ending))  # [A, L, T]
    done_scores, kept = rules.top_k(scores, beam_size)
    done_ids = _picked(tf.concat([hypotheses.done_ids, new_ids], axis=1), kept)
    done_log_probs = _picked(tf.concat([hypotheses.done_log_probs, possible], axis=1), kept)
    done_extra = hypotheses.done_extra
    if rules.guests.ending:
        gained = tf.gather(rules.guests.ending(output), ending)
        done_extra = _picked(tf.concat([done_extra, gained], axis=1), kept)

    # Live hypotheses.
    live_log_probs, kept = rules.top_k(tf.where(ends, IMPOSSIBLE, preferred), beam_size)
    tokens, parents = _picked(tokens, kept), _picked(parents, kept)
    if rules.guests.banks:
        live_log_probs = _picked(tf.where(ends, IMPOSSIBLE, log_probs), kept)
    tokens, parents, live_log_probs = (
        tf.reshape(values, [-1, live]) for values in (tokens, parents, live_log_probs)
    )
    live_ids = tf.where(here, tokens[:, :, None], tf.gather(ids, parents))
    if rules.each:
        done_scores, live_log_probs = (
            _only_first(values, rules.each.beam_size) for values in (done_scores, live_log_probs)
        )
    found = Beam(
        live_ids, live_log_probs, tokens, done_ids, done_scores, done_log_probs, done_extra
    )
    return found, tf.reshape(parents, [-1]), is_nan


def _picked(values, index):
    """Gathers along axis 1: `values [A, n, ...]`, `index [A, m]` -> `[A, m, ...]`; n is static.

    With fewer operations than `tf.gather(..., batch_dims=1)`.
    """
    more = [tf.shape(values)[2]] if values.shape.rank > 2 else []
    rows = tf.range(tf.shape(index)[0])[:, None] * values.shape[1]
    return tf.gather(tf.reshape(values, [-1, *more]), index + rows)


def _only_first(log_probs, counts):
    """Makes all but the first `counts` `[A]` places of each row impossible; `[A, n]`."""
    is_first = tf.range(tf.shape(log_probs)[1]) < counts[:, None]
    return tf.where(is_first, log_probs, IMPOSSIBLE)


def is_certain(hypotheses, length, active, rules):
    """Returns `[A]` bool: whether the sentence is done before its limit, see `beam_search`."""
    scores, limit = hypotheses.done_scores, tf.cast(active.limit, tf.float32)
    most_probable = tf.reduce_max(hypotheses.live_log_probs, axis=1)
    ahead = tf.minimum(_AHEAD * tf.cast(length, tf.float32), limit)
    likely = most_probable / rules.normaliser(ahead)
    if rules.each:  # Scores are sorted.
        worst, worst_wanted = (
            tf.gather(scores, count - 1, axis=1, batch_dims=1)
            for count in (rules.each.beam_size, rules.each.n_best)
        )
    else:
        worst = tf.reduce_min(scores, axis=1)
        worst_wanted = tf.gather(scores, rules.n_best - 1, axis=1)
    if rules.guests.ending:  # Any of the K may become the best.
        worst_wanted = worst
    certain = (worst > IMPOSSIBLE / 2) & (tf.reduce_max(scores, axis=1) >= likely)
    if rules.may_stop_early:
        # Log-probabilities are negative, so no extension of a live hypothesis scores better than
        # its log-probability now, divided by the largest length normaliser.
        certain |= worst_wanted >= most_probable / active.best_possible
    return certain


def _without_numbers(hypotheses, is_nan):
    """Returns `Beam` with NaN scores for the sentences in which `is_nan` `[A]` is True."""
    nan = tf.where(is_nan, math.nan, 0.0)[:, None]
    return hypotheses._replace(
        live_log_probs=hypotheses.live_log_probs + nan,
        done_scores=hypotheses.done_scores + nan,
        done_log_probs=hypotheses.done_log_probs + nan,
    )


def ranked(hypotheses: Beam, limits: tf.Tensor, rules: Rules) -> Hypotheses:
    """Returns `Hypotheses`: the finished by score, then unfinished ones by score, K in all."""
    live_scores = hypotheses.live_log_probs
    live_scores /= rules.normaliser(limits)[:, None]
    finished = hypotheses.done_scores > IMPOSSIBLE / 2
    is_live = tf.ones_like(live_scores, tf.bool)
    is_finished = tf.concat([finished, ~is_live], axis=1)
    done_scores = hypotheses.done_scores
    if rules.guests.ending:
        done_scores += hypotheses.done_extra
    scores = tf.concat([done_scores, live_scores], axis=1)
    # Sort by rank instead of score: every finished hypothesis precedes every unfinished one.
    rank = tf.where(is_finished, 0.0, 2 * IMPOSSIBLE) + tf.maximum(scores, IMPOSSIBLE)
    rank = tf.where(tf.concat([finished, is_live], 1), rank, 4 * IMPOSSIBLE)
    _, best = tf.math.top_k(rank, rules.options.beam_size)
    ids = tf.concat([hypotheses.done_ids, hypotheses.live_ids], axis=1)
    log_probs = tf.concat([hypotheses.done_log_probs, hypotheses.live_log_probs], axis=1)
    found = Hypotheses(*(_picked(values, best) for values in (ids, log_probs, scores, is_finished)))
    if rules.each:
        log_probs, scores = (
            _only_first(values, rules.each.beam_size) for values in (found.log_probs, found.scores)
        )
        found = found._replace(log_probs=log_probs, scores=scores)
    return found
