"""Decoding for models of word alignment: a planned length, and a memory of what was translated."""

import keras
from keras import ops

from models.base import StepOutput, TranslationModel
from models.layers.attention import HIDDEN_SCORE
from models.layers.jumps import posterior
from models.layers.source_positions import is_null
from models.layers.translation_length import TranslationLength

_TINY = 1e-30  # Not 0: a word that nothing explains must leave numbers behind.
# Found on validation text:
_TRANSLATED = 0.03  # Factor on the prior of a source word that has been translated.
_NULL = 0.1  # Factor on NULL's prior: NULL may explain words but should rarely generate any.


class CoverageModel(TranslationModel):
    """A model whose predictions hardly depend on the target words before them.

    By such probabilities alone the best word may be the same again and again, and nothing plans the
    end. A decoding step therefore differs from `call`. It chooses a source word and then its
    translation, and its state tracks how much of each source word has been translated so far: its
    *coverage*, the sum of its posteriors for the target words so far. The attention of a step is
    the prior times `1 - coverage` times `exp(-|j - r|)`, r being the sum of all coverage: source
    words are read once and, where the prior has no other opinion, in their order. The probability
    of `</s>` is not the model's own, but the probability that a source of n tokens has a
    translation of just this length (`length`). So the log-probability that a search finds is not
    that of `score`.

    Where a model is no mixture of what its source words are translated to, as attention, in which
    they add up, source word j is translated to e with the probability `rows_j(e) P(e) / M(e)`,
    normalised for each j: P is the prediction of the model and `M = sum_j prior_j rows_j` that of
    the mixture.

    A subclass has `position_prior`, and in the context `source_mask [B, S]` and `rows [B, S, V]`
    float32, what each source word alone is translated to. One that is no mixture has `gain`.

    Args:
        eos_id: id that ends target sentences.
        Others as `TranslationModel`.
    """

    tracks_coverage = True

    def __init__(self, source_vocab_size, target_vocab_size, *, eos_id=3, **kwargs):
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.eos_id = eos_id
        self.length = TranslationLength(name="length")

    def build(self, input_shape=None):
        self.length.build(None)
        self.built = True

    def position_prior(self, step, state, source_mask):
        """The prior of source positions before coverage counts.

        Args:
            step: scalar int32, the target position.
            state: leaves `[B, K, ...]`.
            source_mask: `[B, S]` bool.

        Returns:
            `[B, K, S]` float32, or `[B, 1, S]` where it is the same for all hypotheses.
        """
        raise NotImplementedError

    def gain(self, prior, context):
        """The log-probabilities of the model less those of the mixture of `rows`.

        Args:
            prior: from `position_prior`, the same for all hypotheses.
            context: from `encode`.

        Returns:
            `[B, 1, V]` float32; None: the model is that mixture.
        """
        return None

    def follow(self, state, origin, source_mask):
        """Updates what a subclass has in its state besides `coverage` and `weights`.

        Args:
            state: leaves `[B, K, ...]`.
            origin: `[B, K, S]`, the posterior of the last token.
            source_mask: `[B, S]` bool.
        """
        return state

    def initial_state(self, context, max_target_length):
        """State, `[B, S]`: `coverage`, and `weights` with which the last step added up `rows`."""
        zeros = ops.zeros_like(context["source_mask"], dtype="float32")
        # Any weights will do: of the token that they are for, `<s>`, nothing is asked.
        return {"coverage": zeros, "weights": ops.ones_like(zeros)}

    def decode_step(self, token_ids, step, state, context):
        """As `TranslationModel`, but for what `CoverageModel` says of it."""
        source_mask = context["source_mask"]
        batch_size = ops.shape(source_mask)[0]

        def by_sentence(x):  # [N, X] -> [B, K, X]
            return ops.reshape(x, (batch_size, -1, ops.shape(x)[-1]))

        def by_hypothesis(x):  # [B, K, X] -> [N, X]
            return ops.reshape(x, (-1, ops.shape(x)[-1]))

        rows = context["rows"]
        state = keras.tree.map_structure(by_sentence, state)
        tokens = ops.reshape(token_ids, (batch_size, 1, -1))
        translation = ops.swapaxes(ops.take_along_axis(rows, tokens, axis=2), 1, 2)  # [B, K, S]
        origin = posterior(state["weights"], ops.maximum(translation, _TINY))
        moved = self.follow(state, origin, source_mask)
        moved = {**moved, "coverage": state["coverage"] + origin}
        # `<s>` is from nowhere.
        state = {name: ops.where(step > 0, moved[name], state[name]) for name in state}

        prior = self.position_prior(step, state, source_mask)
        attention = _read(prior, state["coverage"], source_mask)
        is_end = ops.equal(ops.arange(self.target_vocab_size), self.eos_id)
        gain = self.gain(prior, context)
        if gain is None:
            gain, totals = 0.0, 1.0
        else:
            ratios = ops.where(is_end, 0.0, ops.exp(gain))
            totals = ops.maximum(ops.matmul(ratios, ops.swapaxes(rows, 1, 2)), _TINY)  # [B, 1, S]
        state["weights"] = attention / totals
        words = ops.log(ops.maximum(ops.matmul(state["weights"], rows), _TINY)) + gain
        words = ops.log_softmax(ops.where(is_end, HIDDEN_SCORE, words))
        end = self.length.end_probability(step, source_mask)[:, None, None]
        words = words + ops.log(ops.maximum(1 - end, _TINY))
        return StepOutput(
            logits=by_hypothesis(ops.where(is_end, ops.log(ops.maximum(end, _TINY)), words)),
            state=keras.tree.map_structure(by_hypothesis, state),
            attention=by_hypothesis(attention),
        )

    def get_config(self):
        return {**super().get_config(), "eos_id": self.eos_id}


def _read(prior, coverage, source_mask):
    """Where the next target word comes from, as far as one knows without it.

    Args:
        prior: `[B, K, S]` or `[B, 1, S]`.
        coverage: `[B, K, S]`.
        source_mask: `[B, S]` bool.

    Returns:
        `[B, K, S]`; rows sum to 1.
    """
    null = is_null(source_mask)[:, None, :]
    read = ops.sum(ops.where(null, 0.0, coverage), axis=-1, keepdims=True)
    positions = ops.cast(ops.arange(ops.shape(source_mask)[1]), "float32")
    left = ops.maximum(1 - coverage, _TRANSLATED) * ops.exp(-ops.abs(positions - read))
    attention = prior * ops.where(null, _NULL, left)
    return attention / ops.sum(attention, axis=-1, keepdims=True)
