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
beam was found to end with a better score later. For a model whose scores may rise, it is the
only one besides the limit. A sentence that is done leaves the batch, so that later steps compute
only the sentences that remain.
"""

import functools

import tensorflow as tf

from nmt_zoo.decoding.search.extension import (
    Active,
    empty_beam,
    extend,
    make_rules,
    ranked,
)
from nmt_zoo.decoding.search.terms import (
    EachSentence,
    Guests,
    Hypotheses,
    SearchOptions,
    SpecialIds,
)
from nmt_zoo.models.base import Searchable

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
    rules = make_rules(model, options, special_ids, n_best, guests)
    context = model.encode(source_ids)
    state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, rules.num_live, axis=0), model.initial_state(context)
    )
    nothing = empty_beam(batch_size, length, rules)
    best_possible = rules.normaliser(limits)
    active = Active(tf.range(batch_size), limits, best_possible, rules.each, nothing, context)

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
    return ranked(results, limits, rules)


def _extend_until_some_leave(model, rules, step, active, state, results):
    """Extends the same sentences step by step, then moves those that are done to the results."""
    rules = rules._replace(each=active.each)

    def all_stay(step, hypotheses, state, leaves, some_leave):
        return ~some_leave

    def extended(step, hypotheses, state, *_):
        *found, must_leave, certain = extend(model, rules, active, step, hypotheses, state)
        leaves = must_leave | certain
        some_leave = tf.reduce_any(must_leave) | _are_many(leaves)
        return step + 1, *found, leaves, some_leave

    none_leave = tf.zeros_like(active.limit, tf.bool)
    scalar = tf.TensorShape([])
    step, hypotheses, state, leaves, _ = tf.while_loop(
        all_stay,
        extended,
        (step, active.hypotheses, state, none_leave, tf.constant(False)),
        shape_invariants=(
            *(scalar, _with_any_rows(active.hypotheses), _of_any_size(state)),
            *(_with_any_rows(none_leave), scalar),
        ),
    )
    active = active._replace(hypotheses=hypotheses)
    return step, *_parted(active, state, leaves, results)


def _with_any_rows(variables):
    """Returns shapes of loop variables of which only the number of rows changes."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), variables)


def _of_any_size(variables):
    """Returns shapes of loop variables of which all axes may change, as those of a state do."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables)


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


def _are_many(leaves):
    """Returns whether so many of the sentences are done that removing them pays."""
    return 8 * tf.math.count_nonzero(leaves, dtype=tf.int32) >= tf.size(leaves)
