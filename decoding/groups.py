"""Searches a batch in groups: sentences of similar length, no more of them than memory allows."""

import tensorflow as tf

from decoding.beam_search import Hypotheses

# Largest group of A sentences. Attention from source to source has A x S x S weights for every head
# of a layer. A Transformer keeps keys and values of A x K x T target positions for every layer: for
# `transformer_base` 0.8 GB of so many.
MAX_SOURCE_WEIGHTS = 1 << 21
MAX_TARGET_POSITIONS = 1 << 15


def search_in_groups(search, source_ids, limits, beam_size, pad_id):
    """Searches a batch as a whole would be, with other costs.

    A sentence costs what the longest of its group does: padding in the encoder, and room for the
    longest translation. So one long sentence among short ones is searched apart from them.

    Args:
        search: `(source_ids [A, S'], limits [A]) -> Hypotheses`.
        source_ids: `[B, S]` int32, padded.
        limits: `[B]` int32, most tokens of a translation.
        beam_size: K.
        pad_id: id of padding.

    Returns:
        `Hypotheses` with T = the largest limit.
    """
    batch_size, width = tf.unstack(tf.shape(source_ids))
    length = tf.maximum(tf.reduce_max(limits), 1)
    order = tf.argsort(limits, direction="DESCENDING", stable=True)
    source_ids, limits = tf.gather(source_ids, order), tf.gather(limits, order)
    places = tf.range(1, width + 1)
    lengths = tf.reduce_max(tf.where(source_ids == pad_id, 1, places), axis=1)

    def some_left(start, _):
        return start < batch_size

    def next_group(start, found):
        similar = tf.reduce_sum(tf.cast(2 * limits[start:] >= limits[start], tf.int32))
        longest = tf.reduce_max(lengths[start : start + similar])
        fitting = tf.minimum(
            MAX_SOURCE_WEIGHTS // longest // longest,  # The square may be beyond int32.
            MAX_TARGET_POSITIONS // limits[start] // beam_size,
        )
        end = start + tf.clip_by_value(fitting, 1, similar)
        group = search(source_ids[start:end, :longest], limits[start:end])
        room = [[0, 0], [0, 0], [0, length - tf.shape(group.ids)[2]]]
        group = group._replace(ids=tf.pad(group.ids, room, constant_values=pad_id))
        together = [tf.concat(both, axis=0) for both in zip(found, group, strict=True)]
        return end, Hypotheses(*together)

    nothing = Hypotheses(
        ids=tf.zeros([0, beam_size, length], tf.int32),
        log_probs=tf.zeros([0, beam_size]),
        scores=tf.zeros([0, beam_size]),
        finished=tf.zeros([0, beam_size], tf.bool),
    )
    shapes = Hypotheses(
        tf.TensorShape([None, beam_size, None]), *[tf.TensorShape([None, beam_size])] * 3
    )
    _, found = tf.while_loop(
        some_left, next_group, (0, nothing), shape_invariants=(tf.TensorShape([]), shapes)
    )
    back = tf.math.invert_permutation(order)
    return Hypotheses(*(tf.gather(values, back) for values in found))
