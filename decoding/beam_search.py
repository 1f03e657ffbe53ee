"""One beam search for every model; greedy search is a beam of 1."""

from typing import Any, NamedTuple

import tensorflow as tf

_IMPOSSIBLE = -1e9  # Finite, so that sums and differences of impossible scores are never NaN.


class Hypotheses(NamedTuple):
    """Translations of B sentences, K for each, the best first.

    Attributes:
        ids: `[B, K, T]` int32, with EOS, padded behind it.
        log_probs: `[B, K]` float32, natural log-probability of all tokens with EOS; of a model that
            combines others, the sum of its scores.
        scores: `[B, K]` float32, `log_probs` divided by the length penalty.
        finished: `[B, K]` bool, whether EOS was reached within the length limit. Unfinished ones
            stand behind the finished ones. Where there are fewer than K hypotheses at all, the
            places left have a log-probability of -1e8 or less.
    """

    ids: Any
    log_probs: Any
    scores: Any
    finished: Any


def length_normaliser(length, length_penalty):
    """`((5 + length) / 6) ^ length_penalty`, Wu et al. 2016, equation 14."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** length_penalty


def beam_search(
    model,
    source_ids,
    *,
    beam_size,
    max_target_length,
    length_penalty,
    bos_id,
    eos_id,
    pad_id,
    forbidden_ids=(),
):
    """Finds probable translations, breadth first.

    Each step extends the K live hypotheses of a sentence by every token and looks at the 2K best
    extensions. Those that end in EOS and are among the first K join the finished set; the K best
    others live on. A sentence is done when K hypotheses are finished or its length limit is
    reached. With `beam_size` 1 the result is the arg max of every step.

    Args:
        model: `TranslationModel`.
        source_ids: `[B, S]` int32, padded.
        beam_size: K, int.
        max_target_length: tokens with EOS, int32 scalar or `[B]` at least 1. With one limit a
            sentence, the result does not depend on the neighbours in the batch.
        length_penalty: alpha of `length_normaliser`; 0 compares plain log-probabilities.
        bos_id: id given to the first step; never emitted.
        eos_id: id that ends a hypothesis.
        pad_id: id behind the end; never emitted.
        forbidden_ids: further ids never emitted, such as UNK.

    Returns:
        `Hypotheses` with T = the largest limit.
    """
    batch_size = tf.shape(source_ids)[0]
    limits = tf.broadcast_to(tf.cast(max_target_length, tf.int32), [batch_size])
    length = tf.maximum(tf.reduce_max(limits), 1)  # Of no sentences the largest limit is -2^31.
    context = model.encode(source_ids)
    state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, beam_size, axis=0), model.initial_state(context, length)
    )
    never = sorted({pad_id, bos_id, *forbidden_ids})
    empty = tf.fill([batch_size, beam_size, length], tf.constant(pad_id, tf.int32))
    impossible = tf.fill([batch_size, beam_size], _IMPOSSIBLE)

    def keep_going(step, active, *_):
        return tf.reduce_any(active) & (step < length)

    def extend(step, active, last_ids, live_ids, live_log_probs, done, done_ids, state):
        output = model.decode_step(last_ids, step, state, context)
        parents, tokens, log_probs = _best_extensions(
            output.logits - model.log_normaliser(output.logits), live_log_probs, never, beam_size
        )
        ids = tf.gather(live_ids, parents, batch_dims=1)  # [B, 2K, T]
        here = tf.range(length) == step
        ids = tf.where(here, tokens[:, :, None], ids)

        # Finished hypotheses. Only the first K extensions may end: a beam of 1 is then greedy.
        ends = tokens == eos_id
        may_end = ends & active[:, None] & (tf.range(tf.shape(tokens)[1]) < beam_size)
        may_end &= log_probs > _IMPOSSIBLE / 2
        new_scores = log_probs / length_normaliser(step + 1, length_penalty)
        new = tf.stack(
            [
                tf.where(may_end, new_scores, _IMPOSSIBLE),
                tf.where(may_end, log_probs, _IMPOSSIBLE),
            ],
            axis=-1,
        )
        done = tf.concat([done, new], axis=1)  # [B, K + 2K, 2]
        _, best = tf.math.top_k(done[:, :, 0], beam_size)
        done_ids = tf.gather(tf.concat([done_ids, ids], axis=1), best, batch_dims=1)
        done = tf.gather(done, best, batch_dims=1)

        # Live hypotheses. A sentence that is done keeps those it had.
        log_probs, best = tf.math.top_k(tf.where(ends, _IMPOSSIBLE, log_probs), beam_size)
        parents = tf.gather(parents, best, batch_dims=1)
        last_ids = tf.reshape(tf.gather(tokens, best, batch_dims=1), [-1])
        live_ids = tf.where(active[:, None, None], tf.gather(ids, best, batch_dims=1), live_ids)
        live_log_probs = tf.where(active[:, None], log_probs, live_log_probs)
        rows = tf.reshape(parents + tf.range(batch_size)[:, None] * beam_size, [-1])
        state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), output.state)

        enough = tf.reduce_all(done[:, :, 0] > _IMPOSSIBLE / 2, axis=1)
        active &= ~enough & (step + 1 < limits)
        return step + 1, active, last_ids, live_ids, live_log_probs, done, done_ids, state

    first_only = tf.where(tf.range(beam_size) == 0, 0.0, _IMPOSSIBLE)
    variables = (
        tf.constant(0),
        tf.ones([batch_size], tf.bool),
        tf.fill([batch_size * beam_size], tf.constant(bos_id, tf.int32)),
        empty,
        tf.broadcast_to(first_only, [batch_size, beam_size]),
        tf.stack([impossible, impossible], axis=-1),
        empty,
        state,
    )
    # Steps may know less of their shapes than the start.
    invariants = tf.nest.map_structure(
        lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables
    )
    _, _, _, live_ids, live_log_probs, done, done_ids, _ = tf.while_loop(
        keep_going, extend, variables, shape_invariants=invariants
    )
    return _ranked(live_ids, live_log_probs, done, done_ids, limits, length_penalty, beam_size)


def _best_extensions(log_probs, live_log_probs, never, beam_size):
    """The most probable extensions: `(parents, tokens, log_probs)`, `[B, 2K]` each."""
    vocab_size = log_probs.shape[-1]
    barred = tf.reduce_any(tf.range(vocab_size)[:, None] == tf.constant(never), axis=1)
    log_probs = tf.where(barred, _IMPOSSIBLE, log_probs)  # [N, V]
    log_probs = tf.reshape(log_probs, [-1, beam_size, vocab_size]) + live_log_probs[:, :, None]
    flat = tf.reshape(log_probs, [-1, beam_size * vocab_size])
    best, index = tf.math.top_k(flat, min(2, vocab_size) * beam_size)
    return index // vocab_size, index % vocab_size, best


def _ranked(live_ids, live_log_probs, done, done_ids, limits, length_penalty, beam_size):
    """Finished hypotheses by score; free places are filled with unfinished ones, by score."""
    live_scores = live_log_probs / length_normaliser(limits, length_penalty)[:, None]
    finished = done[:, :, 0] > _IMPOSSIBLE / 2
    is_finished = tf.concat([finished, tf.zeros_like(finished)], axis=1)
    scores = tf.concat([done[:, :, 0], live_scores], axis=1)
    # The rank, not the score, puts every finished hypothesis before every unfinished one.
    rank = tf.where(is_finished, 0.0, 2 * _IMPOSSIBLE) + tf.maximum(scores, _IMPOSSIBLE)
    rank = tf.where(tf.concat([finished, tf.ones_like(finished)], 1), rank, 4 * _IMPOSSIBLE)
    _, best = tf.math.top_k(rank, beam_size)
    return Hypotheses(
        ids=tf.gather(tf.concat([done_ids, live_ids], axis=1), best, batch_dims=1),
        log_probs=tf.gather(tf.concat([done[:, :, 1], live_log_probs], 1), best, batch_dims=1),
        scores=tf.gather(scores, best, batch_dims=1),
        finished=tf.gather(is_finished, best, batch_dims=1),
    )
