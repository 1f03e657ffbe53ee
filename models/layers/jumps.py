"""The hidden Markov alignment model: alignment links depend on the link of the previous word.

Vogel, Ney and Tillmann 1996, "HMM-Based Word Alignment in Statistical Translation"; NULL as Och and
Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 2.1.2.
`training.ways.expectation_maximisation.jump_estimates` implements the same model for expectation
maximisation.
"""

from typing import Any

import numpy as np
from keras import ops

from nmt_zoo.models.base import Tensor, add_array
from nmt_zoo.models.layers.masks import masked_softmax
from nmt_zoo.models.layers.recurrent import scan_over_time
from nmt_zoo.models.layers.source_positions import State, Uniform, is_null, posterior
from nmt_zoo.models.layers.translation_table import logarithms


class Jumps(Uniform):
    """Probabilities of the source word of a target word, given the previous source word.

    After source word q, a target word is linked to NULL with probability p0, `null_probability`, in
    (0, 1), and to source word r with a probability proportional to (1 - p0) s(r - q). The first
    target word has separate weights, by r. A link to NULL leaves q unchanged. Jumps farther than
    `max_jump`, W, have the weight of the farthest jump.

    `previous`, `[B, S + 1]`, is the distribution of the previous source word given the target words
    so far. Its first entry is the probability that there is no such word yet.
    """

    def __init__(self, null_probability: float, max_jump: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.null_probability = null_probability
        self.max_jump = max_jump

    def build(self, input_shape: Any = None) -> None:
        def logits(name, first):
            """Adds logits of the jumps `first` ... W; initially, the next word is most probable."""
            value = -np.abs(np.arange(first, self.max_jump + 1) - 1) / 5
            return add_array(self, name, value.shape, value, trainable=True)

        self.jump_logits = logits("jump_logits", -self.max_jump)
        self.start_logits = logits("start_logits", 1)
        self.built = True

    def set_parameters(self, jumps: np.ndarray, starts: np.ndarray) -> None:
        self.jump_logits.assign(logarithms(jumps))
        self.start_logits.assign(logarithms(starts))

    def transitions(self, source_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the probabilities of the next source position from `source_mask [B, S]` bool.

        Returns `[B, S + 1, S]` float32, the probability of each word after each previous source
        word, and `[B, S]` float32, the probability of NULL; for each previous word they sum to 1.
        """
        positions, widest = ops.arange(ops.shape(source_mask)[1]), self.max_jump
        jumps = ops.clip(positions[None] - positions[:, None], -widest, widest) + widest
        starts = ops.take(self.start_logits, ops.minimum(positions, widest - 1))
        scores = ops.concatenate([starts[None], ops.take(self.jump_logits, jumps)], axis=0)
        null = is_null(source_mask)
        is_word = ops.logical_and(source_mask, ops.logical_not(null))[:, None, :]
        words = ops.where(is_word, masked_softmax(scores[None], is_word), 0.0)
        p0 = ops.where(ops.any(is_word, axis=2), self.null_probability, 1.0)  # [B, 1]
        return (1 - p0)[:, :, None] * words, ops.where(null, p0, 0.0)

    def priors(self, source_mask: Tensor, translation: Tensor, target_lengths: Tensor) -> Tensor:
        """The forward algorithm; as `Uniform`, `[B, T, S]`."""
        words, null_prior = self.transitions(source_mask)
        null = is_null(source_mask)[:, None, :]

        def step(emission, state):
            previous = state[0][:, None, :]
            prior = ops.matmul(previous, words) + null_prior[:, None, :]
            previous = _moved(previous, posterior(prior, emission[:, None, :]), null)
            return prior[:, 0], [previous[:, 0]]

        return scan_over_time(step, translation, [self._no_previous(source_mask)])[0]

    def posteriors(
        self,
        source_mask: Tensor,
        translation: Tensor,
        target_mask: Tensor,
        target_lengths: Tensor,
    ) -> Tensor:
        """Forward-backward."""
        words, null_prior = self.transitions(source_mask)
        null = is_null(source_mask)[:, None, :]
        prior = self.priors(source_mask, translation, target_lengths)
        scaled = translation / ops.sum(prior * translation, axis=-1, keepdims=True)
        real = target_mask[:, :, None]
        to_word = ops.where(ops.logical_and(real, ops.logical_not(null)), scaled, 0.0)
        stayed = ops.sum(null_prior[:, None, :] * scaled, axis=-1, keepdims=True)
        stayed = ops.where(real, stayed, 1.0)

        def step(x, state):
            """`state` is P(tokens after | previous) / P(tokens after | tokens up to this one)."""
            (after,) = state
            ahead = x[:, :-1] * after[:, 1:]
            before = ops.einsum("bqs,bs->bq", words, ahead) + x[:, -1:] * after
            return after[:, 1:], [before]

        inputs = ops.concatenate([to_word, stayed], axis=-1)
        ones = ops.ones_like(self._no_previous(source_mask))
        after, _ = scan_over_time(step, inputs, [ones], reverse=True)
        from_words = ops.where(null, 0.0, prior * scaled * after)
        rest = ops.maximum(1 - ops.sum(from_words, axis=-1, keepdims=True), 0.0)
        return from_words + ops.where(null, rest, 0.0)

    def _no_previous(self, source_mask):
        """Returns `previous` before the first target word."""
        zeros = ops.zeros_like(source_mask, dtype="float32")
        return ops.concatenate([ops.ones_like(zeros[:, :1]), zeros], axis=1)

    def initial_state(self, source_mask: Tensor) -> State:
        return {"previous": self._no_previous(source_mask)}

    def step_prior(self, step: Tensor, state: State, source_mask: Tensor, lengths: Tensor):
        words, null_prior = self.transitions(source_mask)
        return ops.matmul(state["previous"], words) + null_prior[:, None, :]

    def follow(self, state: State, origin: Tensor, source_mask: Tensor) -> State:
        null = is_null(source_mask)[:, None, :]
        return {**state, "previous": _moved(state["previous"], origin, null)}


def _moved(previous, posterior, null):
    """Computes `previous` after a target word, from `previous` before it, `[B, K, S + 1]`.

    `posterior [B, K, S]`, distribution of the word's source position; `null [B, 1, S]` bool, True
    at NULL.
    """
    stayed = ops.sum(ops.where(null, posterior, 0.0), axis=-1, keepdims=True)
    words = ops.where(null, 0.0, posterior)
    return previous * stayed + ops.pad(words, [[0, 0], [0, 0], [1, 0]])
