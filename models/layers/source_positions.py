"""Priors of alignment links: the position models of IBM Models 1 and 2.

A position model gives, for each target word, a prior over the n source positions of the sentence.
The last position, `</s>`, is NULL. `position_estimates` in `training.ways.expectation_maximisation`
implements the same models for expectation maximisation.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.base import Tensor, add_array
from nmt_zoo.models.layers.masks import masked_softmax
from nmt_zoo.models.layers.translation_table import logarithms

State = dict[str, Tensor]


def lengths_of(mask: Tensor) -> Tensor:
    """`[B, S]` bool -> `[B]` int32."""
    return ops.sum(ops.cast(mask, "int32"), axis=1)


def is_null(source_mask: Tensor) -> Tensor:
    """`[B, S]` bool -> `[B, S]` bool, True at the last real position, which is NULL.

    In a row of nothing but padding, which fills up a batch of fixed shape, NULL is the first
    position, so that probabilities and their gradients stay finite there.
    """
    last = ops.maximum(lengths_of(source_mask) - 1, 0)
    return ops.equal(ops.arange(ops.shape(source_mask)[1]), last[:, None])


def posterior(prior: Tensor, translation: Tensor) -> Tensor:
    joint = prior * translation
    return joint / ops.sum(joint, axis=-1, keepdims=True)


class Uniform(keras.layers.Layer):
    """Model 1: every source position has probability 1 / n; Brown et al. 1993, section 4.1.

    Also the base class of the other position models. In all methods, `source_mask [B, S]` and
    `target_mask [B, T]` are bool; `target_lengths [B]` float32 are in tokens with `</s>`;
    `translation [B, T, S]` float32 is t(target token | source word), whose rows may be scaled.
    """

    def build(self, input_shape: Any = None) -> None:
        self.built = True

    def prior(self, positions: Tensor, source_mask: Tensor, target_lengths: Tensor) -> Tensor:
        """Computes P(source position | target position), whatever the target words.

        `positions [T]` int32 of the target, counted from 0 -> `[B, T, S]` float32, or `[B, 1, S]`
        if equal for all positions.
        """
        mask = ops.cast(ops.logical_or(source_mask, is_null(source_mask)), "float32")
        return (mask / ops.sum(mask, axis=1, keepdims=True))[:, None, :]

    def set_parameters(self, *arrays: np.ndarray) -> None:
        """Sets the parameters from the arrays of the estimate of this name: here, none."""

    def priors(self, source_mask: Tensor, translation: Tensor, target_lengths: Tensor) -> Tensor:
        """Computes P(source position of token t | target tokens before it), shaped as `prior`."""
        positions = ops.arange(ops.shape(translation)[1])
        return self.prior(positions, source_mask, target_lengths)

    def posteriors(
        self,
        source_mask: Tensor,
        translation: Tensor,
        target_mask: Tensor,
        target_lengths: Tensor,
    ) -> Tensor:
        """Computes P(source position of token t | all target tokens), `[B, T, S]` float32."""
        return posterior(self.priors(source_mask, translation, target_lengths), translation)

    def initial_state(self, source_mask: Tensor) -> State:
        """Returns what decoding remembers of the links so far, name -> tensor with B rows."""
        return {}

    def step_prior(self, step: Tensor, state: State, source_mask: Tensor, lengths: Tensor):
        """Computes the prior of a decoding step, `[B, K, S]`, or `[B, 1, S]` if equal for all K."""
        return self.prior(ops.reshape(step, (1,)), source_mask, lengths)

    def follow(self, state: State, origin: Tensor, source_mask: Tensor) -> State:
        """Updates a state, leaves `[B, K, ...]`, by a word's posterior `origin [B, K, S]`."""
        return state


class PositionTable(Uniform):
    """Model 2: a probability for each source and target position and n; Brown et al., section 4.2.

    There, it depends on the length of the target, too, which is not known while translating.
    `max_positions` is the largest n and the number of target positions in the table; beyond them,
    the prior is uniform.

    With `shared`, the table is the same for all n, so that what is learned from sentences of one
    length helps with all others: the softmax of its first n columns. Source positions beyond the
    table have the logit of its last column.
    """

    def __init__(self, max_positions: int, shared: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_positions, self.shared = max_positions, shared

    def build(self, input_shape: Any = None) -> None:
        # [n - 1, target position, source position]; shared: without n
        shape = (self.max_positions,) * (2 if self.shared else 3)
        self.logits = add_array(self, "logits", shape, 0, trainable=True)
        self.built = True

    def set_parameters(self, array: np.ndarray) -> None:
        logits = np.zeros(self.logits.shape, np.float32)
        logits[tuple(map(slice, array.shape))] = logarithms(array)
        if self.shared:
            logits[:, array.shape[1] :] = logits[:, array.shape[1] - 1, None]
        self.logits.assign(logits)

    def prior(self, positions: Tensor, source_mask: Tensor, target_lengths: Tensor) -> Tensor:
        size, columns = self.max_positions, ops.arange(ops.shape(source_mask)[1])
        rows = ops.minimum(positions, size - 1)[None]
        has_row = (positions < size)[None, :, None]
        if self.shared:
            in_table = has_row
        else:
            lengths = lengths_of(source_mask)[:, None]
            rows = ops.minimum(lengths - 1, size - 1) * size + rows
            in_table = ops.logical_and(has_row, (lengths <= size)[:, :, None])
        cells = rows[:, :, None] * size + ops.minimum(columns, size - 1)
        scores = ops.take(ops.reshape(self.logits, (-1,)), cells)
        return masked_softmax(ops.where(in_table, scores, 0.0), source_mask[:, None, :])


class Diagonal(Uniform):
    """Model 2 by distance from the diagonal; Dyer, Chahuneau and Smith 2013, section 2.

    NULL has the fixed probability `null_probability`, in (0, 1); the N source words share the rest
    in proportion to exp(-tension |i / m - j / N|), where i is the target position, m the number of
    target tokens and j the source position, both positions counted from 1.
    """

    def __init__(self, null_probability: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.null_probability = null_probability

    def build(self, input_shape: Any = None) -> None:
        self.tension = add_array(self, "tension", (), 4.0, trainable=True)
        self.built = True

    def set_parameters(self, tension: np.ndarray) -> None:
        self.tension.assign(tension)

    def prior(self, positions: Tensor, source_mask: Tensor, target_lengths: Tensor) -> Tensor:
        null = is_null(source_mask)[:, None, :]
        num_words = ops.cast(lengths_of(source_mask) - 1, "float32")[:, None, None]
        columns = ops.cast(ops.arange(1, ops.shape(source_mask)[1] + 1), "float32")
        rows = ops.cast(positions + 1, "float32")[None, :, None]
        distances = ops.abs(
            rows / target_lengths[:, None, None] - columns / ops.maximum(num_words, 1.0)
        )
        is_word = ops.logical_and(source_mask[:, None, :], ops.logical_not(null))
        words = masked_softmax(-self.tension * distances, is_word)
        p0 = ops.where(num_words > 0, self.null_probability, 1.0)
        return ops.where(null, p0, (1 - p0) * ops.where(is_word, words, 0.0))
