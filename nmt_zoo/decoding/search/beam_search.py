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
from typing import Any

import tensorflow as tf

from nmt_zoo.decoding.search.extension import Unfinished, extend, make_setup, ranked, start
from nmt_zoo.decoding.search.types import Hypotheses, SearchOptions, SentenceOptions
from nmt_zoo.models.base import Searchable


def beam_search(
    model: Searchable,
    source_ids: tf.Tensor,
    *,
    limits: int | tf.Tensor,
    options: SearchOptions,
    n_best: int | tf.Tensor | SentenceOptions | None = None,
    wanted_ids: tf.Tensor | None = None,
    **rules: Any,
) -> Hypotheses:
    """Finds probable translations by breadth-first search, as described above.

    Args:
        source_ids: `[B, S]` int32, padded.
        limits: most tokens including EOS, int32 scalar or `[B]`, at least 1. If each sentence has a
            limit of its own, its result does not depend on the rest of the batch.
        n_best: 1 to K, by default K; `SentenceOptions` if sentences also differ in options.
        wanted_ids: `[B, A]` int32, padded, tokens that the model has to consider for a sentence.
        **rules: further fields of `extension.Setup`.
    Returns:
        `Hypotheses` with T = the largest limit. Only the first `n_best` of a sentence are certain;
        the others may be missing.
    """
    batch_size = tf.shape(source_ids)[0]
    limits = tf.broadcast_to(tf.cast(limits, tf.int32), [batch_size])
    length = tf.maximum(tf.reduce_max(limits), 1)  # The maximum of an empty batch is -2^31.
    setup = make_setup(model, options, **rules)
    if wanted_ids is None:
        context = model.encode(source_ids)
    else:
        context = model.encode_to_score(source_ids, wanted_ids)
    wanted = SentenceOptions.of(options, n_best, batch_size)
    unfinished, state = start(setup, context, limits, length, wanted)

    def some_left(step, unfinished, *_):
        return tf.size(unfinished.row) > 0

    # Two loops, because TensorFlow's executor of small graphs cannot run a conditional in a loop.
    *_, results = tf.while_loop(
        some_left,
        functools.partial(_extend_until_some_leave, setup),
        (tf.constant(0), unfinished, state, unfinished.hypotheses),
        shape_invariants=(
            *(tf.TensorShape([]), _with_any_rows(unfinished), _of_any_size(state)),
            _with_any_rows(unfinished.hypotheses),
        ),
    )
    return ranked(setup, unfinished, results)


def _extend_until_some_leave(setup, step, unfinished, state, results):
    """Extends the same sentences step by step, then moves those that are done to the results."""

    def all_stay(step, hypotheses, state, leaves, some_leave):
        return ~some_leave

    def extended(step, hypotheses, state, *_):
        sentences = unfinished._replace(hypotheses=hypotheses)
        hypotheses, state, must_leave, certain = extend(setup, sentences, step, state)
        leaves = must_leave | certain
        # Removing sentences pays if they are many.
        are_many = 8 * tf.math.count_nonzero(leaves, dtype=tf.int32) >= tf.size(leaves)
        some_leave = tf.reduce_any(must_leave) | are_many
        return step + 1, hypotheses, state, leaves, some_leave

    none_leave = tf.zeros_like(unfinished.limit, tf.bool)
    scalar = tf.TensorShape([])
    step, hypotheses, state, leaves, _ = tf.while_loop(
        all_stay,
        extended,
        (step, unfinished.hypotheses, state, none_leave, tf.constant(False)),
        shape_invariants=(
            *(scalar, _with_any_rows(unfinished.hypotheses), _of_any_size(state)),
            *(_with_any_rows(none_leave), scalar),
        ),
    )
    unfinished = unfinished._replace(hypotheses=hypotheses)
    return step, *_parted(unfinished, state, leaves, results)


def _with_any_rows(variables):
    """Returns shapes of loop variables of which only the number of rows changes."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), variables)


def _of_any_size(variables):
    """Returns shapes of loop variables of which all axes may change, as those of a state do."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables)


def _parted(unfinished: Unfinished, state, leaves, results):
    """Moves the sentences that are done, by `leaves` `[A]`, from the search to the results."""
    gone, staying = (tf.where(flags)[:, 0] for flags in (leaves, ~leaves))
    rows = tf.gather(unfinished.row, gone)[:, None]
    results = tf.nest.map_structure(
        lambda batch, leaf: tf.tensor_scatter_nd_update(batch, rows, tf.gather(leaf, gone)),
        results,
        unfinished.hypotheses,
    )
    unfinished = tf.nest.map_structure(lambda leaf: tf.gather(leaf, staying), unfinished)
    of_state = tf.where(tf.repeat(~leaves, tf.shape(results.live_ids)[1]))[:, 0]
    state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, of_state), state)
    return unfinished, state, results
