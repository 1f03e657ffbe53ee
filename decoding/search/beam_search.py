"""One beam search for every model; greedy search is a beam of 1."""

import functools
import math
from typing import Any, NamedTuple

import tensorflow as tf

from decoding.search.diversity import extended_in_groups
from decoding.search.largest import largest
from decoding.search.terms import IMPOSSIBLE, EachSentence, Hypotheses, length_normaliser


def beam_search(model, source_ids, *, limits, options, special_ids, n_best=None):
    """Finds probable translations by breadth-first search.

    Each step extends the K live hypotheses of a sentence by every token and looks at the 2K best
    extensions. Among the first K of these, the extensions that end in EOS join the finished set.
    The K best extensions that do not end in EOS are the next live hypotheses. A sentence is done
    when K hypotheses are finished, when no live hypothesis can become one of the `n_best`, or when
    its length limit is reached. It then leaves the batch, so that later steps compute only the
    sentences that remain. With a beam of 1, every step takes the arg max.

    Args:
        model: `models.base.Searchable`.
        source_ids: `[B, S]` int32, padded.
        limits: most tokens including EOS, int32 scalar or `[B]`, at least 1. If each sentence has a
            limit of its own, its result does not depend on the rest of the batch.
        options: `SearchOptions`.
        special_ids: `SpecialIds`.
        n_best: number of translations that are asked for, int or int32 scalar, 1 to K; default K.
            Or `EachSentence`, if sentences also differ in options.

    Returns:
        `Hypotheses` with T = the largest limit. Only the first `n_best` of a sentence are certain;
        the others may be missing.
    """
    batch_size = tf.shape(source_ids)[0]
    limits = tf.broadcast_to(tf.cast(limits, tf.int32), [batch_size])
    length = tf.maximum(tf.reduce_max(limits), 1)  # The maximum of an empty batch is -2^31.
    context = model.encode(source_ids)
    state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, options.beam_size, axis=0), model.initial_state(context)
    )
    nothing = _no_hypotheses(batch_size, options, length, special_ids)
    each = n_best if isinstance(n_best, EachSentence) else ()
    rules = _Rules(
        options,
        special_ids,
        barred=tf.where(special_ids.are_never(model.target_vocab_size), IMPOSSIBLE, 0.0),
        n_best=options.beam_size if n_best is None else n_best,
        may_stop_early=model.scores_only_fall and options.diversity_groups == 1,
        preference=model.preference,
        tokens=model.tokens,
        each=each,
    )

    def sentences_left(step, active, *_):
        return tf.size(active.row) > 0

    best_possible = length_normaliser(limits, rules.length_penalty())
    active = _Active(tf.range(batch_size), limits, best_possible, each, nothing, context)
    shapes = (
        *(tf.TensorShape([]), _with_any_rows(active), _of_any_size(state)),
        _with_any_rows(nothing),
    )
    *_, results = tf.while_loop(
        sentences_left,
        functools.partial(_extend_until_some_leave, model, rules),
        (tf.constant(0), active, state, nothing),
        shape_invariants=shapes,
    )
    return _ranked(results, limits, rules)


class _Rules(NamedTuple):
    """Settings that stay the same through a search.

    Attributes:
        options: `SearchOptions`.
        special_ids: `SpecialIds`.
        barred: `[V]` float32, `IMPOSSIBLE` for tokens that are never emitted, 0 for others.
        n_best: int or int32 scalar, number of translations asked for.
        may_stop_early: whether hypotheses can only fall when they are extended.
        preference: the model's, see `models.base.Searchable`.
        tokens: the model's, likewise.
        each: `EachSentence` of A sentences, or ().
    """

    options: Any
    special_ids: Any
    barred: Any
    n_best: Any
    may_stop_early: Any
    preference: Any
    tokens: Any
    each: Any

    def length_penalty(self):
        """Returns the length penalty: a number, or `[A]`."""
        return self.each.length_penalty if self.each else self.options.length_penalty


class _Hypotheses(NamedTuple):
    """The search results so far: K live and at most K finished hypotheses of A sentences.

    Attributes:
        live_ids: `[A, K, T]` int32.
        live_log_probs: `[A, K]` float32.
        last_ids: `[A, K]` int32, last token of each live hypothesis.
        done_ids: `[A, K, T]` int32.
        done_scores: `[A, K]` float32, the best first; `IMPOSSIBLE` in unused places.
        done_log_probs: `[A, K]` float32.
    """

    live_ids: Any
    live_log_probs: Any
    last_ids: Any
    done_ids: Any
    done_scores: Any
    done_log_probs: Any


class _Active(NamedTuple):
    """The A sentences that are not done, with their hypotheses and the model's context.

    Attributes:
        row: `[A]` int32, the row of each sentence in the batch.
        limit: `[A]` int32, most tokens of a hypothesis.
        best_possible: `[A]` float32, the length normaliser of so many tokens.
        each: `EachSentence` or ().
        hypotheses: `_Hypotheses`.
        context: the model's context of these sentences.
    """

    row: Any
    limit: Any
    best_possible: Any
    each: Any
    hypotheses: Any
    context: Any


def _extend_until_some_leave(model, rules, step, active, state, results):
    """Extends the same sentences step by step, then removes those that are done.

    Args:
        model: `models.base.Searchable`.
        rules: `_Rules`.
        step: number of tokens so far, scalar int32.
        active: `_Active`.
        state: the model's state, leaves `[A * K, ...]`.
        results: `_Hypotheses` of the whole batch.

    Returns:
        The last four after these steps.
    """

    def all_stay(step, hypotheses, state, leaves, some_leave):
        return ~some_leave

    none_leave = tf.zeros_like(active.limit, tf.bool)
    scalar = tf.TensorShape([])
    shapes = (
        *(scalar, _with_any_rows(active.hypotheses), _of_any_size(state)),
        *(_with_any_rows(none_leave), scalar),
    )
    step, hypotheses, state, leaves, _ = tf.while_loop(
        all_stay,
        functools.partial(_extend, model, rules._replace(each=active.each), active),
        (step, active.hypotheses, state, none_leave, tf.constant(False)),
        shape_invariants=shapes,
    )
    active = active._replace(hypotheses=hypotheses)
    return step, *_parted(active, state, leaves, results)


def _extend(model, rules, active, step, hypotheses, state, *_):
    """Extends the live hypotheses of all active sentences by a token.

    Args: as `_extend_until_some_leave`, and `hypotheses`, those of the active sentences by now.

    Returns:
        `(step, hypotheses, state, leaves, some_leave)` after the step: leaves `[A]` bool, whether a
        sentence is done; some_leave, whether those that are done have to leave the batch now.
    """
    extended = _extended
    if rules.options.diversity_groups > 1:
        extended = functools.partial(extended_in_groups, _extended)
    last_ids = tf.reshape(hypotheses.last_ids, [-1])
    output = model.decode_step(last_ids, step, state, active.context)
    hypotheses, parents, is_nan = extended(
        hypotheses, output, model.log_normaliser(output.logits), step, rules
    )
    must_leave = is_nan | (step + 1 >= active.limit)
    certain = _is_certain(hypotheses, active.best_possible, rules)
    hypotheses = _without_numbers(hypotheses, is_nan)
    # A sentence that is certain may stay for some steps, which change nothing any more.
    live_log_probs = tf.where(certain[:, None], IMPOSSIBLE, hypotheses.live_log_probs)
    hypotheses = hypotheses._replace(live_log_probs=live_log_probs)
    leaves = must_leave | certain
    # Each new hypothesis continues from the state of its parent.
    state = output.state
    if rules.options.beam_size > 1:
        state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, parents), state)
    some_leave = tf.reduce_any(must_leave) | _are_many(leaves)
    return step + 1, hypotheses, state, leaves, some_leave


def _with_any_rows(variables):
    """Returns shapes of loop variables of which only the number of rows changes."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), variables)


def _of_any_size(variables):
    """Returns shapes of loop variables of which all axes may change, as those of a state do."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables)


def _no_hypotheses(batch_size, options, length, special_ids):
    """Returns `_Hypotheses` to start from: one live hypothesis without tokens, no finished ones.

    If the beam is divided into groups, each begins with such a hypothesis.
    """
    beam_size = options.beam_size
    empty = tf.fill([batch_size, beam_size, length], tf.constant(special_ids.pad, tf.int32))
    in_group = tf.range(beam_size) % (beam_size // options.diversity_groups)
    first_only = tf.where(in_group == 0, 0.0, IMPOSSIBLE)
    nowhere = tf.fill([batch_size, beam_size], IMPOSSIBLE)
    return _Hypotheses(
        live_ids=empty,
        live_log_probs=tf.broadcast_to(first_only, [batch_size, beam_size]),
        last_ids=tf.fill([batch_size, beam_size], tf.constant(special_ids.bos, tf.int32)),
        done_ids=empty,
        done_scores=nowhere,
        done_log_probs=nowhere,
    )


class _Extensions(NamedTuple):
    """The best extensions of the live hypotheses of A sentences by a token, the best first.

    Attributes:
        tokens: `[A, E]` int32.
        parents: `[A, E]` int32, the row of the hypothesis that each one extends.
        log_probs: `[A, E]` float32.
        preferred: `[A, E]` float32, the numbers by which they are ranked: `log_probs`, unless the
            model has a preference.
        is_nan: `[A]` bool, whether a score of the sentence is not a number.
    """

    tokens: Any
    parents: Any
    log_probs: Any
    preferred: Any
    is_nan: Any


def _best_extensions(hypotheses, output, normaliser, rules):
    """Returns the 2K `_Extensions` of each sentence that are the best; 1 if the beam is 1.

    Args: as `_extended`.
    """
    beam_size = rules.options.beam_size
    vocab_size = rules.barred.shape[0]
    # The best extensions of each hypothesis, among them those that are barred.
    most = 2 * beam_size if beam_size > 1 else 1
    width = min(most + len(rules.special_ids.never), vocab_size)
    choose = rules.preference.candidates if rules.preference else _most_probable
    log_probs, tokens = choose(output, width)  # [A * K, width]
    if rules.tokens is not None:
        tokens = tf.gather(rules.tokens, tokens)
    width = tf.shape(tokens)[1] if rules.preference else width
    log_probs = log_probs - normaliser + tf.gather(rules.barred, tokens)
    log_probs += tf.reshape(hypotheses.live_log_probs, [-1, 1])
    # A logit that is NaN or infinite makes its normaliser, or the difference, NaN or infinite.
    is_nan = tf.reduce_any(tf.math.is_nan(log_probs) | ~tf.math.is_finite(normaliser), axis=1)
    is_nan = tf.reduce_any(tf.reshape(is_nan, [-1, beam_size]), axis=1)
    # The best extensions of each sentence, [A, 2K].
    by_sentence = tf.reshape(log_probs, [-1, beam_size * width])
    preferred = by_sentence
    if rules.preference:
        preferred = rules.preference.of(output, by_sentence, tf.reshape(tokens, [-1, width]))
    preferred, best = tf.math.top_k(preferred, min(most, beam_size * vocab_size))
    if rules.each:  # A narrower beam looks at fewer extensions.
        narrow = rules.each.beam_size
        preferred = _only_first(preferred, tf.where(narrow > 1, 2 * narrow, 1))
    places = best + tf.range(tf.shape(best)[0])[:, None] * (beam_size * width)
    log_probs = preferred
    if rules.preference:
        log_probs = tf.gather(tf.reshape(by_sentence, [-1]), places)
    tokens = tf.gather(tf.reshape(tokens, [-1]), places)
    return _Extensions(tokens, places // width, log_probs, preferred, is_nan)


def _extended(hypotheses, output, normaliser, step, rules):
    """Extends every live hypothesis by a token.

    Args:
        hypotheses: `_Hypotheses` of A sentences.
        output: `StepOutput` with logits `[A * K, V]`, or a column for each of `rules.tokens`.
        normaliser: `[A * K, 1]`, to subtract from logits.
        step: scalar int32.
        rules: `_Rules`.

    Returns:
        `(_Hypotheses, parents, is_nan)`: parents `[A * K]`, the row of the hypothesis that each
        live one extends; is_nan `[A]`, whether a score of the sentence is not a number.
    """
    beam_size = rules.options.beam_size
    tokens, parents, log_probs, preferred, is_nan = _best_extensions(
        hypotheses, output, normaliser, rules
    )
    ends = tokens == rules.special_ids.eos
    here = tf.range(tf.shape(hypotheses.live_ids)[2]) == step
    ids = tf.reshape(hypotheses.live_ids, [-1, tf.shape(hypotheses.live_ids)[2]])

    # Finished hypotheses. Only the first K extensions may end: a beam of 1 is then greedy.
    first = slice(None), slice(beam_size)
    divisor = length_normaliser(step + 1, rules.length_penalty())
    scores = log_probs[first] / (divisor[:, None] if rules.each else divisor)
    possible = log_probs[first]
    if rules.each:
        possible = _only_first(possible, rules.each.beam_size)
    may_end = ends[first] & (possible > IMPOSSIBLE / 2)
    scores = tf.concat([hypotheses.done_scores, tf.where(may_end, scores, IMPOSSIBLE)], axis=1)
    new_ids = tf.where(here, rules.special_ids.eos, tf.gather(ids, parents[first]))  # [A, K, T]
    done_scores, kept = tf.math.top_k(scores, beam_size)
    done_ids, done_log_probs = (
        _picked(tf.concat(both, axis=1), kept)
        for both in (
            (hypotheses.done_ids, new_ids),
            (hypotheses.done_log_probs, log_probs[first]),
        )
    )

    # Live hypotheses.
    live_log_probs, kept = tf.math.top_k(tf.where(ends, IMPOSSIBLE, preferred), beam_size)
    tokens, parents = _picked(tokens, kept), _picked(parents, kept)
    if rules.preference:
        live_log_probs = _picked(tf.where(ends, IMPOSSIBLE, log_probs), kept)
    live_ids = tf.where(here, tokens[:, :, None], tf.gather(ids, parents))
    if rules.each:
        done_scores, live_log_probs = (
            _only_first(values, rules.each.beam_size) for values in (done_scores, live_log_probs)
        )
    found = _Hypotheses(live_ids, live_log_probs, tokens, done_ids, done_scores, done_log_probs)
    return found, tf.reshape(parents, [-1]), is_nan


def _most_probable(output, width):
    """Returns the best tokens of each hypothesis: `(logits, tokens)`, `[A * K, width]` each."""
    return largest(output.logits, width)


def _picked(values, index):
    """Gathers along axis 1: `values [A, n, ...]`, `index [A, m]` -> `[A, m, ...]`.

    With fewer operations than `tf.gather(..., batch_dims=1)`. n is static.
    """
    more = [tf.shape(values)[2]] if values.shape.rank > 2 else []
    rows = tf.range(tf.shape(index)[0])[:, None] * values.shape[1]
    return tf.gather(tf.reshape(values, [-1, *more]), index + rows)


def _only_first(log_probs, counts):
    """Makes all but the first `counts` `[A]` places of each row impossible; `[A, n]`."""
    is_first = tf.range(tf.shape(log_probs)[1]) < counts[:, None]
    return tf.where(is_first, log_probs, IMPOSSIBLE)


def _is_certain(hypotheses, best_possible, rules):
    """Returns `[A]` bool: whether the translations asked for cannot change any more.

    Args:
        hypotheses: `_Hypotheses`.
        best_possible: that of `_Active`. Log-probabilities are negative, so no extension of a live
            hypothesis scores better than its log-probability now, divided by this.
        rules: `_Rules`.
    """
    scores = hypotheses.done_scores
    if rules.each:  # Scores are sorted.
        worst, worst_wanted = (
            tf.gather(scores, count - 1, axis=1, batch_dims=1)
            for count in (rules.each.beam_size, rules.each.n_best)
        )
    else:
        worst = tf.reduce_min(scores, axis=1)
        worst_wanted = tf.gather(scores, rules.n_best - 1, axis=1)
    certain = worst > IMPOSSIBLE / 2
    if rules.may_stop_early:
        certain |= worst_wanted >= tf.reduce_max(hypotheses.live_log_probs, 1) / best_possible
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
    """Moves the sentences that are done from the search to the results.

    Args:
        active: `_Active`.
        state: the model's state, leaves `[A * K, ...]`.
        leaves: `[A]` bool, True for sentences that are done.
        results: `_Hypotheses` of the whole batch.

    Returns:
        `(active, state, results)`; the sentences that are done are no longer in the first two.
    """
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
    live_scores /= length_normaliser(limits, rules.length_penalty())[:, None]
    finished = hypotheses.done_scores > IMPOSSIBLE / 2
    is_finished = tf.concat([finished, tf.zeros_like(finished)], axis=1)
    scores = tf.concat([hypotheses.done_scores, live_scores], axis=1)
    # Sort by rank instead of score: every finished hypothesis precedes every unfinished one.
    rank = tf.where(is_finished, 0.0, 2 * IMPOSSIBLE) + tf.maximum(scores, IMPOSSIBLE)
    rank = tf.where(tf.concat([finished, tf.ones_like(finished)], 1), rank, 4 * IMPOSSIBLE)
    _, best = tf.math.top_k(rank, rules.options.beam_size)
    ids, log_probs = (
        tf.concat(both, axis=1)
        for both in (
            (hypotheses.done_ids, hypotheses.live_ids),
            (hypotheses.done_log_probs, hypotheses.live_log_probs),
        )
    )
    found = Hypotheses(*(_picked(values, best) for values in (ids, log_probs, scores, is_finished)))
    if rules.each:
        log_probs, scores = (
            _only_first(values, rules.each.beam_size) for values in (found.log_probs, found.scores)
        )
        found = found._replace(log_probs=log_probs, scores=scores)
    return found
