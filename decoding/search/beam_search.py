"""One beam search for every model; greedy search is a beam of 1.

Each step extends the K live hypotheses of a sentence by every token and looks at the 2K best
extensions. Among the first K of these, the extensions that end in EOS join the finished set.
The K best extensions that do not end in EOS are the next live hypotheses. With a beam of 1,
every step takes the arg max. A sentence is done when one of these is true:

* K hypotheses are finished, and the best of them scores at least what the most probable live
  hypothesis would score if it became a quarter longer without losing any probability;
* no live hypothesis can become one of the `n_best`, however long it becomes;
* its length limit is reached.

The first rule is a guess, but a good one: up to a length penalty of 1, no hypothesis of the
beam was found to end with a better score later. For a model whose scores may rise, and for
diverse beams, it is the only one besides the limit. A sentence that is done leaves the batch,
so that later steps compute only the sentences that remain.
"""

import functools
import math
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.decoding.search.diversity import extended_in_groups
from nmt_zoo.decoding.search.largest import largest
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


def beam_search(
    model: Searchable,
    source_ids: tf.Tensor,
    *,
    limits: int | tf.Tensor,
    options: SearchOptions,
    special_ids: SpecialIds,
    n_best: int | tf.Tensor | EachSentence | None = None,
    guests: Guests = _NO_GUESTS,
) -> Hypotheses:
    """Finds probable translations by breadth-first search, as described above.

    The model may be a `Constrained`. `source_ids` are `[B, S]` int32, padded. `limits`, the most
    tokens including EOS, are an int32 scalar or `[B]`, at least 1; if each sentence has a limit of
    its own, its result does not depend on the rest of the batch. `n_best` is 1 to K, by default K,
    or `EachSentence` if sentences also differ in options.
    Returns `Hypotheses` with T = the largest limit. Only the first `n_best` of a sentence are
    certain; the others may be missing.
    """
    batch_size = tf.shape(source_ids)[0]
    limits = tf.broadcast_to(tf.cast(limits, tf.int32), [batch_size])
    length = tf.maximum(tf.reduce_max(limits), 1)  # The maximum of an empty batch is -2^31.
    each = n_best if isinstance(n_best, EachSentence) else ()
    rules = _Rules(
        options,
        special_ids,
        barred=tf.where(special_ids.are_never(model.target_vocab_size), IMPOSSIBLE, 0.0),
        n_best=options.beam_size if n_best is None else n_best,
        may_stop_early=model.scores_only_fall and options.diversity_groups == 1,
        guests=guests,
        each=each,
    )
    context = model.encode(source_ids)
    state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, rules.num_live, axis=0), model.initial_state(context)
    )
    nothing = _no_hypotheses(batch_size, length, rules)
    best_possible = length_normaliser(limits, rules.length_penalty)
    active = _Active(tf.range(batch_size), limits, best_possible, each, nothing, context)

    def some_left(step, active, *_):
        return tf.size(active.row) > 0

    # Two loops, because TensorFlow's executor of small graphs cannot run a conditional in a loop.
    *_, results = tf.while_loop(
        some_left,
        functools.partial(_extend_until_some_leave, model, rules),
        (tf.constant(0), active, state, nothing),
        shape_invariants=(
            *(tf.TensorShape([]), _with_any_rows(active), _of_any_size(state)),
            _with_any_rows(nothing),
        ),
    )
    return _ranked(results, limits, rules)


class _Rules(NamedTuple):
    options: SearchOptions
    special_ids: SpecialIds
    barred: tf.Tensor  # [V] float32, `IMPOSSIBLE` for tokens that are never emitted, 0 for others.
    n_best: int | tf.Tensor  # Scalar, number of translations asked for.
    may_stop_early: bool  # Whether the scores of hypotheses can only fall with more tokens.
    guests: Guests
    each: Any  # `EachSentence` of A sentences, or ().

    @property
    def length_penalty(self) -> Any:
        return self.each.length_penalty if self.each else self.options.length_penalty

    @property
    def num_live(self) -> Any:
        """L, the number of hypotheses of a sentence that are extended at a time."""
        return self.options.beam_size * (2 if self.guests.banks else 1)


class _Hypotheses(NamedTuple):
    """The search results so far: L live and at most K finished hypotheses of A sentences."""

    live_ids: tf.Tensor  # [A, L, T] int32; L is K, or 2K with banks.
    live_log_probs: tf.Tensor  # [A, L] float32.
    last_ids: tf.Tensor  # [A, L] int32, last token of each live hypothesis.
    done_ids: tf.Tensor  # [A, K, T] int32.
    done_scores: tf.Tensor  # [A, K] float32, the best first; `IMPOSSIBLE` in unused places.
    done_log_probs: tf.Tensor  # [A, K] float32.
    done_extra: tf.Tensor | tuple  # [A, K] float32, to add to the scores in the end; else ().


class _Active(NamedTuple):
    """The A sentences that are not done, with their hypotheses and the model's context."""

    row: tf.Tensor  # [A] int32, the row of each sentence in the batch.
    limit: tf.Tensor  # [A] int32, most tokens of a hypothesis.
    best_possible: tf.Tensor  # [A] float32, the length normaliser of `limit` tokens.
    each: Any  # As in `_Rules`.
    hypotheses: _Hypotheses
    context: Any  # The model's context of these sentences, leaves [A, ...].


def _extend_until_some_leave(model, rules, step, active, state, results):
    """Extends the same sentences step by step, then moves those that are done to the results."""

    def all_stay(step, hypotheses, state, leaves, some_leave):
        return ~some_leave

    none_leave = tf.zeros_like(active.limit, tf.bool)
    scalar = tf.TensorShape([])
    step, hypotheses, state, leaves, _ = tf.while_loop(
        all_stay,
        functools.partial(_extend, model, rules._replace(each=active.each), active),
        (step, active.hypotheses, state, none_leave, tf.constant(False)),
        shape_invariants=(
            *(scalar, _with_any_rows(active.hypotheses), _of_any_size(state)),
            *(_with_any_rows(none_leave), scalar),
        ),
    )
    active = active._replace(hypotheses=hypotheses)
    return step, *_parted(active, state, leaves, results)


def _extend(model, rules, active, step, hypotheses, state, *_):
    """Extends the live hypotheses of all active sentences, now `hypotheses`, by a token.

    Returns `(step, hypotheses, state, leaves, some_leave)`: `leaves` `[A]` bool for sentences that
    are done; `some_leave`, whether these have to leave the batch now.
    """
    last_ids = tf.reshape(hypotheses.last_ids, [-1])
    output = model.decode_step(last_ids, step, state, active.context)
    beams = hypotheses, output, model.log_normaliser(output.logits), step, rules
    if rules.options.diversity_groups > 1:
        hypotheses, parents, is_nan = extended_in_groups(_extended, *beams)
    else:
        hypotheses, parents, is_nan = _extended(*beams)
    must_leave = is_nan | (step + 1 >= active.limit)
    certain = _is_certain(hypotheses, step + 1, active, rules)
    hypotheses = _without_numbers(hypotheses, is_nan)
    # A sentence that is certain may stay for some steps, which change nothing any more.
    live_log_probs = tf.where(certain[:, None], IMPOSSIBLE, hypotheses.live_log_probs)
    hypotheses = hypotheses._replace(live_log_probs=live_log_probs)
    leaves = must_leave | certain
    # Each new hypothesis continues from the state of its parent.
    state = output.state
    if hypotheses.last_ids.shape[1] > 1:
        state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, parents), state)
    some_leave = tf.reduce_any(must_leave) | _are_many(leaves)
    return step + 1, hypotheses, state, leaves, some_leave


def _with_any_rows(variables):
    """Returns shapes of loop variables of which only the number of rows changes."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), variables)


def _of_any_size(variables):
    """Returns shapes of loop variables of which all axes may change, as those of a state do."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables)


def _no_hypotheses(batch_size, length, rules):
    """Returns `_Hypotheses` to start from: one live one without tokens, or one for each group."""
    beam_size, live, special_ids = rules.options.beam_size, rules.num_live, rules.special_ids
    live_ids, done_ids = (
        tf.fill([batch_size, count, length], tf.constant(special_ids.pad, tf.int32))
        for count in (live, beam_size)
    )
    in_group = tf.range(live) % (live // rules.options.diversity_groups)
    first_only = tf.where(in_group == 0, 0.0, IMPOSSIBLE)
    nowhere = tf.fill([batch_size, beam_size], IMPOSSIBLE)
    return _Hypotheses(
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
    banks, preference = rules.guests.banks, rules.guests.preference
    vocab_size = rules.barred.shape[0]
    # The best extensions of each hypothesis, among them those that are barred.
    most = 2 * beam_size if beam_size > 1 else 1
    width = min(most + len(rules.special_ids.never), vocab_size)
    chooser = banks or preference
    if chooser:
        log_probs, tokens = chooser.candidates(output, width)  # [A * L, width]
        width = tf.shape(tokens)[1]
    else:
        log_probs, tokens = largest(output.logits, width)
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
    if preference:
        preferred = preference.of(output, by_sentence, tf.reshape(tokens, [-1, width]))
    most = min(most, beam_size * vocab_size)
    preferred, best = tf.math.top_k(preferred, most)
    if rules.each:  # A narrower beam looks at fewer extensions.
        narrow = rules.each.beam_size
        preferred = _only_first(preferred, tf.where(narrow > 1, 2 * narrow, 1))
    start = tf.range(tf.shape(best)[0])[:, None] * (live * width)
    places = best + start
    if banks:
        left = _without_used(by_sentence, places, tokens, rules)
        of_banks = banks.of(output, left, tf.reshape(tokens, [-1, width]))
        of_banks, best = tf.math.top_k(of_banks, most)
        preferred, places = (
            tf.reshape(tf.stack(both, axis=1), [-1, most])
            for both in ((preferred, of_banks), (places, best + start))
        )
    log_probs = preferred
    if chooser:
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
    `[A * L, 1]` is subtracted from them. Returns `(_Hypotheses, parents, is_nan)`: parents
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
    divisor = length_normaliser(step + 1, rules.length_penalty)
    scores = possible / (divisor[:, None] if rules.each else divisor)
    may_end &= possible > IMPOSSIBLE / 2
    if rules.each:
        may_end &= tf.range(live) < rules.each.beam_size[:, None]
    scores = tf.concat([hypotheses.done_scores, tf.where(may_end, scores, IMPOSSIBLE)], axis=1)
    new_ids = tf.where(here, rules.special_ids.eos, tf.gather(ids, ending))  # [A, L, T]
    done_scores, kept = tf.math.top_k(scores, beam_size)
    done_ids = _picked(tf.concat([hypotheses.done_ids, new_ids], axis=1), kept)
    done_log_probs = _picked(tf.concat([hypotheses.done_log_probs, possible], axis=1), kept)
    done_extra = hypotheses.done_extra
    if rules.guests.ending:
        gained = tf.gather(rules.guests.ending(output), ending)
        done_extra = _picked(tf.concat([done_extra, gained], axis=1), kept)

    # Live hypotheses.
    live_log_probs, kept = tf.math.top_k(tf.where(ends, IMPOSSIBLE, preferred), beam_size)
    tokens, parents = _picked(tokens, kept), _picked(parents, kept)
    if rules.guests.preference or rules.guests.banks:
        live_log_probs = _picked(tf.where(ends, IMPOSSIBLE, log_probs), kept)
    tokens, parents, live_log_probs = (
        tf.reshape(values, [-1, live]) for values in (tokens, parents, live_log_probs)
    )
    live_ids = tf.where(here, tokens[:, :, None], tf.gather(ids, parents))
    if rules.each:
        done_scores, live_log_probs = (
            _only_first(values, rules.each.beam_size) for values in (done_scores, live_log_probs)
        )
    found = _Hypotheses(
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


def _is_certain(hypotheses, length, active, rules):
    """Returns `[A]` bool: whether the sentence is done before its limit, see `beam_search`."""
    scores, limit = hypotheses.done_scores, tf.cast(active.limit, tf.float32)
    most_probable = tf.reduce_max(hypotheses.live_log_probs, axis=1)
    ahead = tf.minimum(_AHEAD * tf.cast(length, tf.float32), limit)
    likely = most_probable / length_normaliser(ahead, rules.length_penalty)
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


def _are_many(leaves):
    """Returns whether so many of the sentences are done that removing them pays."""
    return 8 * tf.math.count_nonzero(leaves, dtype=tf.int32) >= tf.size(leaves)


def _without_numbers(hypotheses, is_nan):
    """Returns `_Hypotheses` with NaN scores for the sentences in which `is_nan` `[A]` is True."""
    nan = tf.where(is_nan, math.nan, 0.0)[:, None]
    return hypotheses._replace(
        live_log_probs=hypotheses.live_log_probs + nan,
        done_scores=hypotheses.done_scores + nan,
        done_log_probs=hypotheses.done_log_probs + nan,
    )


def _parted(active, state, leaves, results):
    """Moves the sentences that are done, by `leaves` `[A]`, from the search to the results."""
    gone, staying = (tf.where(flags)[:, 0] for flags in (leaves, ~leaves))
    rows = tf.gather(active.row, gone)[:, None]
    results = tf.nest.map_structure(
        lambda batch, leaf: tf.tensor_scatter_nd_update(batch, rows, tf.gather(leaf, gone)),
        results,
        active.hypotheses,
    )
    active = tf.nest.map_structure(lambda leaf: tf.gather(leaf, staying), active)
    of_state = tf.where(tf.repeat(~leaves, tf.shape(results.live_ids)[1]))[:, 0]
    state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, of_state), state)
    return active, state, results


def _ranked(hypotheses, limits, rules):
    """Returns `Hypotheses`: the finished by score, then unfinished ones by score, K in all."""
    live_scores = hypotheses.live_log_probs
    live_scores /= length_normaliser(limits, rules.length_penalty)[:, None]
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
