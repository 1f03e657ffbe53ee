"""One beam search for every model; greedy search is a beam of 1."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

_IMPOSSIBLE = -1e9  # Finite, so that sums and differences of impossible scores are never NaN.


class Hypotheses(NamedTuple):
    """Translations of B sentences: K hypotheses for each, the best first.

    Attributes:
        ids: `[B, K, T]` int32, with EOS, padded after it.
        log_probs: `[B, K]` float32, natural log-probability of all tokens including EOS. For a
            model that combines others: the sum of its scores.
        scores: `[B, K]` float32, `log_probs` divided by the length penalty.
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


def length_normaliser(length, length_penalty):
    """`((5 + length) / 6) ^ length_penalty`, Wu et al. 2016, equation 14."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** length_penalty


def beam_search(model, source_ids, *, beam_size, max_target_length, length_penalty, special_ids):
    """Finds probable translations by breadth-first search.

    Each step extends the K live hypotheses of a sentence by every token and looks at the 2K best
    extensions. Among the first K of these, the extensions that end in EOS join the finished set.
    The K best extensions that do not end in EOS are the next live hypotheses. A sentence is done
    when K hypotheses are finished or its length limit is reached. It then leaves the batch, so that
    later steps compute only the sentences that remain. With `beam_size` 1, every step takes the
    arg max.

    Args:
        model: `models.base.Searchable`.
        source_ids: `[B, S]` int32, padded.
        beam_size: K, int.
        max_target_length: most tokens including EOS, int32 scalar or `[B]`, at least 1. If each
            sentence has a limit of its own, its result does not depend on the rest of the batch.
        length_penalty: alpha of `length_normaliser`; 0 compares plain log-probabilities.
        special_ids: `SpecialIds`.

    Returns:
        `Hypotheses` with T = the largest limit.
    """
    batch_size = tf.shape(source_ids)[0]
    limits = tf.broadcast_to(tf.cast(max_target_length, tf.int32), [batch_size])
    length = tf.maximum(tf.reduce_max(limits), 1)  # The maximum of an empty batch is -2^31.
    never = sorted({special_ids.pad, special_ids.bos, *special_ids.forbidden})
    context = model.encode(source_ids)
    state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, beam_size, axis=0), model.initial_state(context, length)
    )
    nothing = _no_hypotheses(batch_size, beam_size, length, special_ids.pad)
    active = _Active(
        row=tf.range(batch_size),
        limit=limits,
        last_ids=tf.fill([batch_size, beam_size], tf.constant(special_ids.bos, tf.int32)),
        hypotheses=nothing,
        context=context,
    )

    def keep_going(step, active, *_):
        return tf.size(active.row) > 0

    def extend(step, active, state, results):
        output = model.decode_step(tf.reshape(active.last_ids, [-1]), step, state, active.context)
        token_log_probs = output.logits - model.log_normaliser(output.logits)  # [A * K, V]
        extensions = _best_extensions(
            token_log_probs, active.hypotheses.live_log_probs, never, beam_size
        )
        hypotheses, last_ids, parents = _extended(
            active.hypotheses, extensions, step, special_ids.eos, length_penalty
        )
        # A NaN or infinite score makes the sum NaN; summing is cheaper than testing every score.
        sums = tf.reshape(tf.reduce_sum(token_log_probs, axis=1), [-1, beam_size])
        is_nan = tf.reduce_any(tf.math.is_nan(sums), axis=1)
        enough = tf.reduce_all(hypotheses.done[:, :, 0] > _IMPOSSIBLE / 2, axis=1)
        leaves = enough | is_nan | (step + 1 >= active.limit)
        active = active._replace(last_ids=last_ids, hypotheses=hypotheses)
        parents += tf.range(tf.size(leaves))[:, None] * beam_size  # [A, K], rows of the state
        active, parents, results = tf.cond(
            tf.reduce_any(leaves),
            lambda: _parted(active, parents, leaves, is_nan, results),
            lambda: (active, parents, results),
        )
        # Each new hypothesis continues from the state of its parent.
        rows = tf.reshape(parents, [-1])
        state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), output.state)
        return step + 1, active, state, results

    variables = (tf.constant(0), active, state, nothing)
    # A step may return states whose static shapes are less exact than those of the initial state.
    # In `active`, including the context, only the number of rows changes.
    step, _, *others = tf.nest.map_structure(
        lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables
    )
    sentences = tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), active)
    *_, results = tf.while_loop(
        keep_going, extend, variables, shape_invariants=(step, sentences, *others)
    )
    return _ranked(results, limits, length_penalty, beam_size)


class _Hypotheses(NamedTuple):
    """The search results so far: K live and at most K finished hypotheses for each sentence.

    Attributes:
        live_ids: `[B, K, T]` int32.
        live_log_probs: `[B, K]` float32.
        done_ids: `[B, K, T]` int32.
        done: `[B, K, 2]` float32, score and log-probability; `_IMPOSSIBLE` in unused places.
    """

    live_ids: Any
    live_log_probs: Any
    done_ids: Any
    done: Any


class _Active(NamedTuple):
    """The A sentences that are not done, with their hypotheses and the model's context.

    Attributes:
        row: `[A]` int32, the row of each sentence in the batch.
        limit: `[A]` int32, most tokens of a hypothesis.
        last_ids: `[A, K]` int32, last token of each live hypothesis.
        hypotheses: `_Hypotheses`.
        context: the model's context of these sentences.
    """

    row: Any
    limit: Any
    last_ids: Any
    hypotheses: Any
    context: Any


def _no_hypotheses(batch_size, beam_size, length, pad_id):
    """Returns `_Hypotheses` to start from: one live hypothesis without tokens, no finished ones."""
    empty = tf.fill([batch_size, beam_size, length], tf.constant(pad_id, tf.int32))
    first_only = tf.where(tf.range(beam_size) == 0, 0.0, _IMPOSSIBLE)
    return _Hypotheses(
        live_ids=empty,
        live_log_probs=tf.broadcast_to(first_only, [batch_size, beam_size]),
        done_ids=empty,
        done=tf.fill([batch_size, beam_size, 2], _IMPOSSIBLE),
    )


def _extended(hypotheses, extensions, step, eos_id, length_penalty):
    """Returns `(_Hypotheses, last_ids [A, K], parents [A, K])` after a step, parents below K."""
    live_ids, live_log_probs, done_ids, done = hypotheses
    parents, tokens, log_probs = extensions  # [A, 2K]
    beam_size = live_log_probs.shape[1]
    ids = tf.gather(live_ids, parents, batch_dims=1)  # [A, 2K, T]
    ids = tf.where(tf.range(tf.shape(ids)[2]) == step, tokens[:, :, None], ids)

    # Finished hypotheses. Only the first K extensions may end: a beam of 1 is then greedy.
    ends = tokens == eos_id
    may_end = ends & (tf.range(tf.shape(tokens)[1]) < beam_size)
    may_end &= log_probs > _IMPOSSIBLE / 2
    scores = log_probs / length_normaliser(step + 1, length_penalty)
    new = tf.where(may_end[:, :, None], tf.stack([scores, log_probs], axis=-1), _IMPOSSIBLE)
    done = tf.concat([done, new], axis=1)  # [A, K + 2K, 2]
    _, best = tf.math.top_k(done[:, :, 0], beam_size)
    done_ids = tf.gather(tf.concat([done_ids, ids], axis=1), best, batch_dims=1)
    done = tf.gather(done, best, batch_dims=1)

    # Live hypotheses.
    live_log_probs, best = tf.math.top_k(tf.where(ends, _IMPOSSIBLE, log_probs), beam_size)
    live_ids, tokens, parents = (tf.gather(x, best, batch_dims=1) for x in (ids, tokens, parents))
    return _Hypotheses(live_ids, live_log_probs, done_ids, done), tokens, parents


def _parted(active, parents, leaves, is_nan, results):
    """Moves the sentences that are done from the search to the results.

    Args:
        active: `_Active`.
        parents: `[A, K]`.
        leaves: `[A]` bool, True for sentences that are done.
        is_nan: `[A]` bool, True for sentences with scores that are not numbers.
        results: `_Hypotheses` of the whole batch.

    Returns:
        `(active, parents, results)`; the sentences that are done are no longer in the first two.
    """
    gone, staying = (tf.where(flags)[:, 0] for flags in (leaves, ~leaves))
    rows = tf.gather(active.row, gone)[:, None]
    results = tf.nest.map_structure(
        lambda batch, leaf: tf.tensor_scatter_nd_update(batch, rows, tf.gather(leaf, gone)),
        results,
        _without_numbers(active.hypotheses, is_nan),
    )
    active, parents = tf.nest.map_structure(
        lambda leaf: tf.gather(leaf, staying), (active, parents)
    )
    return active, parents, results


def _without_numbers(hypotheses, is_nan):
    """Returns `_Hypotheses` with NaN scores for the sentences in which `is_nan` `[A]` is True."""
    nan = tf.where(is_nan, math.nan, 0.0)
    return hypotheses._replace(
        live_log_probs=hypotheses.live_log_probs + nan[:, None],
        done=hypotheses.done + nan[:, None, None],
    )


def _best_extensions(log_probs, live_log_probs, never, beam_size):
    """Returns the most probable extensions: `(parents, tokens, log_probs)`, each `[B, 2K]`."""
    vocab_size = log_probs.shape[-1]
    barred = tf.reduce_any(tf.range(vocab_size)[:, None] == tf.constant(never), axis=1)
    log_probs = tf.where(barred, _IMPOSSIBLE, log_probs)  # [N, V]
    log_probs = tf.reshape(log_probs, [-1, beam_size, vocab_size]) + live_log_probs[:, :, None]
    flat = tf.reshape(log_probs, [-1, beam_size * vocab_size])
    best, index = tf.math.top_k(flat, min(2, vocab_size) * beam_size)
    return index // vocab_size, index % vocab_size, best


def _ranked(hypotheses, limits, length_penalty, beam_size):
    """Returns `Hypotheses`: the finished by score, then unfinished ones by score, K in all."""
    live_ids, live_log_probs, done_ids, done = hypotheses
    live_scores = live_log_probs / length_normaliser(limits, length_penalty)[:, None]
    finished = done[:, :, 0] > _IMPOSSIBLE / 2
    is_finished = tf.concat([finished, tf.zeros_like(finished)], axis=1)
    scores = tf.concat([done[:, :, 0], live_scores], axis=1)
    # Sort by rank instead of score: every finished hypothesis precedes every unfinished one.
    rank = tf.where(is_finished, 0.0, 2 * _IMPOSSIBLE) + tf.maximum(scores, _IMPOSSIBLE)
    rank = tf.where(tf.concat([finished, tf.ones_like(finished)], 1), rank, 4 * _IMPOSSIBLE)
    _, best = tf.math.top_k(rank, beam_size)
    return Hypotheses(
        ids=tf.gather(tf.concat([done_ids, live_ids], axis=1), best, batch_dims=1),
        log_probs=tf.gather(tf.concat([done[:, :, 1], live_log_probs], 1), best, batch_dims=1),
        scores=tf.gather(scores, best, batch_dims=1),
        finished=tf.gather(is_finished, best, batch_dims=1),
    )
