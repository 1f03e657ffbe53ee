"""Diverse beams: groups of hypotheses that avoid each other's tokens.

Vijayakumar et al. 2016, "Diverse Beam Search: Decoding Diverse Solutions from Neural Sequence
Models", with Hamming diversity.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from nmt_zoo.decoding.search.largest import largest
from nmt_zoo.decoding.search.terms import IMPOSSIBLE
from nmt_zoo.models.base import StepOutput


def extended_in_groups(
    extended: Callable,
    hypotheses: Any,
    output: StepOutput,
    normaliser: tf.Tensor,
    step: tf.Tensor,
    rules: Any,
) -> tuple:
    """Extends each group of hypotheses by itself, away from the tokens of the groups before it.

    A token counts as less probable, by `diversity_strength`, for each hypothesis of an earlier
    group that has just been extended by it. This decides which hypotheses go on, and leaves their
    scores as they are. `extended` extends the hypotheses of one group; the other arguments and
    what is returned are as of `extended`.
    """
    options = rules.options
    beam_size = options.beam_size
    size = beam_size // options.diversity_groups
    rules = rules._replace(options=options._replace(beam_size=size, diversity_groups=1))
    vocab_size = output.logits.shape[-1]
    by_sentence = tf.reshape(tf.range(tf.shape(output.logits)[0]), [-1, beam_size])
    taken, groups, origins, broken = 0.0, [], [], []
    for start in range(0, beam_size, size):
        group = slice(start, start + size)
        rows = tf.reshape(by_sentence[:, group], [-1])
        here = tf.nest.map_structure(lambda leaf, group=group: leaf[:, group], hypotheses)
        logits = tf.gather(output.logits, rows)
        preference = Distance(tf.repeat(taken, size, axis=0)) if groups else None
        guests = rules.guests._replace(preference=preference)
        found, parents, is_nan = extended(
            here,
            output._replace(logits=logits),
            tf.gather(normaliser, rows),
            step,
            rules._replace(guests=guests),
        )
        is_live = tf.cast(found.live_log_probs > IMPOSSIBLE / 2, tf.float32)[:, :, None]
        counts = tf.reduce_sum(tf.one_hot(found.last_ids, vocab_size) * is_live, axis=1)
        taken += options.diversity_strength * counts  # [A, V]
        groups.append(found)
        origins.append(tf.reshape(tf.gather(rows, parents), [-1, size]))
        broken.append(is_nan)
    together = tf.nest.map_structure(lambda *leaves: tf.concat(leaves, axis=1), *groups)
    parents = tf.reshape(tf.concat(origins, axis=1), [-1])
    return together, parents, tf.reduce_any(tf.stack(broken), axis=0)


class Distance:
    """A `terms.Chooser` that prefers tokens which earlier groups of a diverse beam did not take.

    `cost` `[A * K, V]` float32 is subtracted from the log-probability of each token.
    """

    def __init__(self, cost: tf.Tensor) -> None:
        self.cost = cost

    def candidates(self, output: StepOutput, width: int) -> tuple[tf.Tensor, tf.Tensor]:
        _, tokens = largest(output.logits - self.cost, width)
        return tf.gather(output.logits, tokens, batch_dims=1), tokens

    def of(self, output: StepOutput, log_probs: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        cost = tf.gather(self.cost, tokens, batch_dims=1)
        return log_probs - tf.reshape(cost, tf.shape(log_probs))
