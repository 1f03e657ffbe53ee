"""Parts of a batch that fit into memory."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.types import Hypotheses

# Limits on a group of A sentences. Self-attention of the source has A x S x S weights for every
# head of a layer. A Transformer caches keys and values of A x K x T target positions for every
# layer: `transformer_base` needs 0.8 GB for MAX_TARGET_POSITIONS, and twice as much where phrases
# are required.
MAX_SOURCE_WEIGHTS = 1 << 21
MAX_TARGET_POSITIONS = 1 << 15


def in_halves(function: Callable[..., list], *lists: Sequence) -> list:
    """Calls a function with a batch, and halves a batch that does not fit into memory.

    `function` takes lists of equal length and returns a list as long. Returns the list of all
    entries; None for those that do not fit into memory even alone.
    """
    try:
        return function(*lists)
    except tf.errors.ResourceExhaustedError:
        middle = len(lists[0]) // 2
        if not middle:
            return [None]
        halves = ([entries[:middle] for entries in lists], [entries[middle:] for entries in lists])
        return [result for half in halves for result in in_halves(function, *half)]


def search_in_groups(
    search: Callable[..., Hypotheses],
    source_ids: tf.Tensor,
    limits: tf.Tensor,
    beam_size: int,
    most_sentences: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Hypotheses:
    """Searches a batch in groups; finds the same hypotheses as one search of the whole batch.

    Each sentence costs as much as the longest of its group: its source is padded, and there is room
    for the longest translation. So a long sentence among short ones gets a group of its own.
    `search` is `(source_ids [A, S'], limits [A], rows [A]) -> Hypotheses`; rows are the places of
    the sentences in the batch. `source_ids` are `[B, S]` int32, padded; `limits` `[B]` int32, most
    tokens of a translation. T of the `Hypotheses` is the largest limit. `most_sentences`, if it is
    given, says how many sentences are a group, for the most tokens of a source.
    """
    batch_size, width = tf.unstack(tf.shape(source_ids))
    length = tf.maximum(tf.reduce_max(limits), 1)
    order = tf.argsort(limits, direction="DESCENDING", stable=True)
    source_ids, limits = tf.gather(source_ids, order), tf.gather(limits, order)
    positions = tf.range(1, width + 1)
    lengths = tf.reduce_max(tf.where(source_ids == PAD_ID, 1, positions), axis=1)

    def some_left(start, _):
        return start < batch_size

    def next_group(start, hypotheses):
        if most_sentences:
            longest = tf.reduce_max(lengths[start:])
            fitting, similar = most_sentences(longest), batch_size - start
        else:
            similar = tf.reduce_sum(tf.cast(2 * limits[start:] >= limits[start], tf.int32))
            longest = tf.reduce_max(lengths[start : start + similar])
            fitting = tf.minimum(
                MAX_SOURCE_WEIGHTS // longest // longest,  # `longest ** 2` may overflow int32.
                MAX_TARGET_POSITIONS // limits[start] // beam_size,
            )
        end = start + tf.clip_by_value(fitting, 1, similar)
        group = search(source_ids[start:end, :longest], limits[start:end], order[start:end])
        missing = [[0, 0], [0, 0], [0, length - tf.shape(group.ids)[2]]]
        group = group._replace(
            ids=tf.pad(group.ids, missing, constant_values=PAD_ID),
            token_log_probs=tf.pad(group.token_log_probs, missing),
        )
        both = zip(hypotheses, group, strict=True)
        return end, Hypotheses(*(tf.concat(values, axis=0) for values in both))

    nothing = Hypotheses(
        ids=tf.zeros([0, beam_size, length], tf.int32),
        log_probs=tf.zeros([0, beam_size]),
        scores=tf.zeros([0, beam_size]),
        finished=tf.zeros([0, beam_size], tf.bool),
        token_log_probs=tf.zeros([0, beam_size, length]),
    )
    of_tokens, others = (tf.TensorShape([None, beam_size, *more]) for more in ([None], []))
    shapes = Hypotheses(of_tokens, others, others, others, of_tokens)
    _, hypotheses = tf.while_loop(
        some_left, next_group, (0, nothing), shape_invariants=(tf.TensorShape([]), shapes)
    )
    back = tf.math.invert_permutation(order)
    return Hypotheses(*(tf.gather(values, back) for values in hypotheses))
