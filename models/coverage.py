"""Decoding for models of word alignment: tracks coverage of the source, and plans the length."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.architecture import Part
from nmt_zoo.models.base import (
    StepOutput,
    Tensor,
    TranslationModel,
    add_array,
    by_hypothesis,
    by_sentence,
)
from nmt_zoo.models.layers.basic import Composite
from nmt_zoo.models.layers.masks import HIDDEN_SCORE, TINY
from nmt_zoo.models.layers.source_positions import is_null, lengths_of, posterior

# Tuned on validation text:
_TRANSLATED = 0.03  # Factor on the prior of a source word that has been translated.
_NULL = 0.1  # Factor on NULL's prior: NULL may explain words but should rarely generate any.


@keras.saving.register_keras_serializable("nmt_zoo")
class TranslationLength(keras.layers.Layer):
    """A logistic distribution whose mean is linear in the source length n, in tokens with `</s>`.

    The mean is intercept + slope n, at least 1. The variance is proportional to n, like the
    variance of a sum of independent parts. `parameters` holds the intercept, the slope and the
    variance per source token; these are measured, not trained.
    """

    def build(self, input_shape: Any = None) -> None:
        self.parameters = add_array(self, "parameters", (3,), [0.0, 1.0, 0.5])
        self.built = True

    def mean(self, source_mask: Tensor) -> Tensor:
        """`[B, S]` bool -> `[B]` float32, mean length in tokens with `</s>`."""
        lengths = ops.cast(lengths_of(source_mask), "float32")
        return ops.maximum(self.parameters[0] + self.parameters[1] * lengths, 1.0)

    def end_probability(self, num_words: Tensor, source_mask: Tensor) -> Tensor:
        """Computes P(the translation has exactly `num_words` words | it has at least `num_words`).

        `num_words` is a scalar, without `</s>`; `source_mask [B, S]` bool -> `[B]` float32.
        """
        variance = self.parameters[2] * ops.cast(lengths_of(source_mask), "float32")
        scale = ops.sqrt(3 * variance) / np.pi
        excess = ops.cast(num_words, "float32") + 1 - self.mean(source_mask)
        # log P(longer than x) = -softplus((x - mean) / scale)
        before, behind = (ops.softplus((excess + side) / scale) for side in (-0.5, 0.5))
        return -ops.expm1(before - behind)


class CoverageModel(Composite, TranslationModel):
    """Base class of models whose predictions hardly depend on the previous target words.

    With such predictions alone, the best word may be the same at every step, and nothing plans the
    end. So a decoding step differs from `call`: it chooses a source word and then its translation.
    Its state tracks how much of each source word has been translated so far, the *coverage*: the
    sum of the word's posteriors for all target words so far. The attention of a step to source
    position j is proportional to the prior times `1 - coverage`, at least 0.03, times
    `exp(-|j - r|)`, where r is the sum of the coverage of all words; for NULL, to a tenth of its
    prior. So source words are read once and, unless the prior prefers otherwise, in their order.
    The probability of `</s>` does not come from the model: it is the probability that the
    translation of a source of n tokens has just this length (`length`). Therefore the
    log-probabilities of a search differ from those of `score`.

    Some models are no mixture of the translations of single source words: attention, for instance,
    adds source words up. In these models, source word j is translated to e with the probability
    `rows_j(e) P(e) / M(e)`, normalised for each j, where P is the prediction of the model and
    `M = sum_j prior_j rows_j` the prediction of the mixture.

    A subclass implements `position_prior`. Its context contains `source_mask [B, S]` and
    `rows [B, S, V]` float32, the translation probabilities of each source word alone. A subclass
    that is no mixture also implements `gain`.
    """

    corpus_facts = "lengths"
    tracks_coverage = True

    def __init__(
        self, source_vocab_size: int, target_vocab_size: int, *, eos_id: int = 3, **kwargs: Any
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.eos_id = eos_id
        self.length = TranslationLength(name="length")

    def position_prior(self, step: Tensor, state: dict[str, Any], source_mask: Tensor) -> Tensor:
        """Computes the prior of source positions, without the coverage.

        `step`, scalar int32, is the target position; leaves of `state` are `[B, K, ...]`;
        `source_mask [B, S]` bool -> `[B, K, S]` float32, or `[B, 1, S]` if equal for all
        hypotheses.
        """
        raise NotImplementedError

    def gain(self, prior: Tensor, context: dict[str, Any]) -> Tensor | None:
        """Computes the model's log-probabilities minus those of the mixture of `rows`.

        `prior` from `position_prior`, the same for all hypotheses; `context` from `encode` ->
        `[B, 1, V]` float32; None if the model is that mixture.
        """
        return None

    def follow(self, state: dict[str, Any], origin: Tensor, source_mask: Tensor) -> dict[str, Any]:
        """Updates the entries that a subclass adds to the state (not `coverage` and `weights`).

        `state`, leaves `[B, K, ...]`; `origin [B, K, S]`, the posterior of the last token over
        source positions; `source_mask [B, S]` bool.
        """
        return state

    def _search_part(self) -> Part:
        """Describes what decoding adds to the predictions."""
        lines = "covers each source word once", "length a + b S, variance c S"
        return Part("Search with coverage", "output", lines, (self.length,))

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State, `[B, S]` each: `coverage`, and `weights`, by which the last step summed `rows`."""
        zeros = ops.zeros_like(context["source_mask"], dtype="float32")
        # The first weights have no effect: they belong to `<s>`, which has no source word.
        return {"coverage": zeros, "weights": ops.ones_like(zeros)}

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        source_mask, rows = context["source_mask"], context["rows"]
        batch_size = ops.shape(source_mask)[0]
        state = {name: by_sentence(leaf, batch_size) for name, leaf in state.items()}
        tokens = ops.reshape(token_ids, (batch_size, 1, -1))
        translation = ops.swapaxes(ops.take_along_axis(rows, tokens, axis=2), 1, 2)  # [B, K, S]
        origin = posterior(state["weights"], ops.maximum(translation, TINY))
        after = self.follow(state, origin, source_mask)
        after = {**after, "coverage": state["coverage"] + origin}
        # `<s>` has no source word.
        state = {name: ops.where(step > 0, after[name], state[name]) for name in state}

        prior = self.position_prior(step, state, source_mask)
        attention = _read(prior, state["coverage"], source_mask)
        is_end = ops.equal(ops.arange(self.target_vocab_size), self.eos_id)
        gain = self.gain(prior, context)
        if gain is None:
            gain, totals = 0.0, 1.0
        else:
            ratios = ops.where(is_end, 0.0, ops.exp(gain))
            totals = ops.maximum(ops.matmul(ratios, ops.swapaxes(rows, 1, 2)), TINY)  # [B, 1, S]
        state["weights"] = attention / totals
        words = ops.log(ops.maximum(ops.matmul(state["weights"], rows), TINY)) + gain
        words = ops.log_softmax(ops.where(is_end, HIDDEN_SCORE, words))
        end = self.length.end_probability(step, source_mask)[:, None, None]
        words = words + ops.log(ops.maximum(1 - end, TINY))
        return StepOutput(
            logits=by_hypothesis(ops.where(is_end, ops.log(ops.maximum(end, TINY)), words)),
            state={name: by_hypothesis(leaf) for name, leaf in state.items()},
            attention=by_hypothesis(attention),
        )

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        return {"decoder/0/cross": self.align(source_ids, target_ids)[:, None]}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "eos_id": self.eos_id}


def _read(prior, coverage, source_mask):
    """Returns the distribution of the next target word's source position, before it is chosen.

    `prior [B, K, S]` or `[B, 1, S]`, `coverage [B, K, S]`, `source_mask [B, S]` bool ->
    `[B, K, S]`; rows sum to 1.
    """
    null = is_null(source_mask)[:, None, :]
    read = ops.sum(ops.where(null, 0.0, coverage), axis=-1, keepdims=True)
    positions = ops.cast(ops.arange(ops.shape(source_mask)[1]), "float32")
    left = ops.maximum(1 - coverage, _TRANSLATED) * ops.exp(-ops.abs(positions - read))
    attention = prior * ops.where(null, _NULL, left)
    return attention / ops.sum(attention, axis=-1, keepdims=True)
