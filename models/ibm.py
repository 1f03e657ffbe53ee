"""IBM Models 1 and 2 and the hidden Markov alignment model.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation"; Vogel, Ney and Tillmann
1996, "HMM-Based Word Alignment in Statistical Translation"; Dyer, Chahuneau and Smith 2013, "A
Simple, Fast, and Effective Reparameterization of IBM Model 2".
"""

import os
import keras
import numpy as np
from keras import ops

from models.base import (
    StepOutput,
    TranslationModel,
    require,
    require_at_least,
    require_choices,
    require_rates,
    shift_right,
)
from models.layers.jumps import Jumps, arrive, first_place, move, posterior
from models.layers.masks import padding_mask
from models.layers.source_positions import (
    Diagonal,
    PositionTable,
    Uniform,
    is_null,
    lengths_of,
)
from models.layers.translation_table import TranslationTable

LEFT=float(os.environ.get('LEFT','0.01'))
_TINY = 1e-30  # Not 0: a word that nothing explains must leave numbers behind.


@keras.saving.register_keras_serializable("nmt_zoo")
class AlignmentModel(TranslationModel):
    """Every target word comes from one source word, by a table of word translations.

        P(e | f) = sum over alignments a of prod_i P(a_i | ...) t(e_i | f_{a_i})

    The source's final `</s>` is the empty word, NULL. `positions` is the prior of alignments:

    * "uniform": P(a_i = j) = 1 / n, IBM Model 1;
    * "table": a(j | i, n), a free table, IBM Model 2;
    * "diagonal": Model 2 with one parameter, the distance from the diagonal; Dyer et al. 2013;
    * "jumps": P(a_i = j | a_{i-1}), by j - a_{i-1}: the hidden Markov model of Vogel et al. 1996.

    `score` is log P(e_i | e_1 ... e_{i-1}, f), exactly, and of the first three free of the history;
    `align` is the posterior P(a_i = j | e, f). Both look at nothing but the word pairs of their
    sentences. With "diagonal" they depend on the target's length, as its equation does.

    A decoding step is not that conditional, whose best word would be the same again and again. Its
    attention is the prior times what is left of each source word, `1 - coverage`, coverage being
    the sum of the posteriors of the target words so far; and `</s>` is no word of the table there,
    but comes with the probability that a sentence of n source tokens has a translation of just this
    length. So steps do not repeat `call`, and the log-probability that a search finds is not that
    of `score`.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids, V.
        positions: "uniform", "table", "diagonal" or "jumps".
        max_positions: "table": sentences and positions beyond so many have a uniform prior.
        max_jump: "jumps": farther ones have the weight of this one.
        null_probability: "diagonal" and "jumps": the prior of NULL, in (0, 1).
        smoothing: share of every source word's translations that is any target word, in [0, 1).
        num_word_pairs: P, how many pairs of a source and a target word the table holds;
            `table.set_word_pairs` says which. 0: all of them.
        pad_id: id of padding.
        bos_id: id that starts target sentences.
        eos_id: id that ends target sentences.

    Raises:
        SettingError: a setting out of its range, naming it.

    Example:
        >>> model = AlignmentModel(100, 90, positions="jumps")
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model.align(ids, ids).shape
        TensorShape([1, 3, 3])
    """

    def __init__(
        self,
        source_vocab_size,
        target_vocab_size,
        *,
        positions="uniform",
        max_positions=100,
        max_jump=20,
        null_probability=0.08,
        smoothing=0.01,
        num_word_pairs=0,
        pad_id=0,
        bos_id=2,
        eos_id=3,
        **kwargs,
    ):
        super().__init__(
            source_vocab_size, target_vocab_size, pad_id=pad_id, bos_id=bos_id, **kwargs
        )
        self.eos_id = eos_id
        self.settings = {
            "positions": positions,
            "max_positions": max_positions,
            "max_jump": max_jump,
            "null_probability": null_probability,
            "smoothing": smoothing,
        }
        self.num_word_pairs = num_word_pairs
        require_choices(self.settings, {"positions": ("uniform", "table", "diagonal", "jumps")})
        require_at_least(1, self.settings, ("max_positions", "max_jump"))
        require_rates(self.settings, ("null_probability", "smoothing"))
        require(null_probability > 0, f"null_probability must be above 0, found {null_probability}")
        self.table = TranslationTable(
            source_vocab_size,
            target_vocab_size,
            num_word_pairs=num_word_pairs,
            smoothing=smoothing,
            name="table",
        )
        self.positions = {
            "uniform": lambda: Uniform(name="positions"),
            "table": lambda: PositionTable(max_positions, name="positions"),
            "diagonal": lambda: Diagonal(null_probability, name="positions"),
            "jumps": lambda: Jumps(null_probability, max_jump, name="positions"),
        }[positions]()
        self.build()

    def build(self, input_shape=None):
        if self.built:
            return
        self.table.build(None)
        self.positions.build(None)
        # The length of a translation is distributed about intercept + slope n.
        self.length_model = self.add_weight(
            name="length_model",  # Intercept, slope, variance a source token.
            shape=(3,),
            dtype="float32",
            autocast=False,
            initializer=lambda shape, dtype=None: ops.array([0.0, 1.0, 0.5], "float32"),
            trainable=False,
        )
        self.built = True

    # Likelihood and alignment

    def _prior(self, source_ids, target_ids, target_lengths):
        """P(a_i | the target tokens before i): `[B, T, S]`, or `[B, 1, S]` where i is the same."""
        source_mask = padding_mask(source_ids, self.pad_id)
        if isinstance(self.positions, Jumps):
            return self.positions.filtered(source_mask, self._translation(source_ids, target_ids))
        target_positions = ops.arange(ops.shape(target_ids)[1])
        return self.positions.prior(target_positions, source_mask, target_lengths)

    def _translation(self, source_ids, target_ids):
        """`[B, T, S]`: t(e_i | f_j); of padding, too."""
        return ops.maximum(self.table.look_up(source_ids, target_ids), _TINY)

    def _target_lengths(self, target_ids):
        """`[B]` float32, tokens with `</s>`, of which a shifted target lacks one."""
        words = ops.logical_and(target_ids != self.pad_id, target_ids != self.eos_id)
        words = ops.logical_and(words, target_ids != self.bos_id)
        return ops.cast(lengths_of(words) + 1, "float32")

    def call(self, inputs, training=None):
        source_ids, target_in_ids = inputs["source_ids"], inputs["target_in_ids"]
        # What is predicted, but for the last token, which predicts nothing any more.
        target_ids = ops.concatenate([target_in_ids[:, 1:], target_in_ids[:, -1:]], axis=1)
        prior = self._prior(source_ids, target_ids, self._target_lengths(target_in_ids))
        probabilities = ops.matmul(prior, self.table.rows(source_ids))
        logits = ops.log(ops.maximum(probabilities, _TINY))
        return ops.broadcast_to(logits, (*ops.shape(target_in_ids), self.target_vocab_size))

    def score(self, source_ids, target_ids):
        prior = self._prior(source_ids, target_ids, self._target_lengths(target_ids))
        return ops.log(ops.sum(prior * self._translation(source_ids, target_ids), axis=-1))

    def align(self, source_ids, target_ids):
        """The posterior P(a_i = j | e, f)."""
        source_mask = padding_mask(source_ids, self.pad_id)
        translation = self._translation(source_ids, target_ids)
        if isinstance(self.positions, Jumps):
            target_mask = padding_mask(target_ids, self.pad_id)
            return self.positions.smoothed(source_mask, translation, target_mask)
        prior = self._prior(source_ids, target_ids, self._target_lengths(target_ids))
        return posterior(prior, translation)

    # Decoding

    def encode(self, source_ids, training=False):
        """Context: `source_mask [B, S]` and `rows [B, S, V]`, translations without `</s>`."""
        is_end = ops.equal(ops.arange(self.target_vocab_size), self.eos_id)
        return {
            "source_mask": padding_mask(source_ids, self.pad_id),
            "rows": ops.where(is_end, 0.0, self.table.rows(source_ids)),
        }

    def initial_state(self, context, max_target_length):
        """State: `coverage` and the last `prior`, `[B, S]`, and with "jumps" its `place`."""
        zeros = ops.zeros_like(context["source_mask"], dtype="float32")
        state = {"coverage": zeros, "prior": zeros}
        if isinstance(self.positions, Jumps):
            state["place"] = first_place(context["source_mask"])
        return state

    def decode_step(self, token_ids, step, state, context):
        """As `TranslationModel`, but for what the class says of it; attention: the prior."""
        source_mask, rows = context["source_mask"], context["rows"]
        batch_size, source_length = ops.shape(source_mask)

        def by_sentence(x):  # [N, X] -> [B, K, X]
            return ops.reshape(x, (batch_size, -1, ops.shape(x)[-1]))

        state = keras.tree.map_structure(by_sentence, state)
        tokens = ops.reshape(token_ids, (batch_size, 1, -1))
        translation = ops.swapaxes(ops.take_along_axis(rows, tokens, axis=2), 1, 2)  # [B, K, S]
        source = posterior(state["prior"] + _TINY, ops.maximum(translation, _TINY))
        source = ops.where(step > 0, source, 0.0)  # `<s>` is from nowhere.
        coverage = state["coverage"] + source
        new_state = {"coverage": coverage}

        expected = self._expected_length(source_mask)
        null = is_null(source_mask)[:, None, :]
        if isinstance(self.positions, Jumps):
            words, null_prior = self.positions.transitions(source_mask)
            place = ops.where(step > 0, move(state["place"], source, null), state["place"])
            prior = arrive(place, words) + null_prior[:, None, :]
            new_state["place"] = place
        else:
            prior = self.positions.prior(ops.reshape(step, (1,)), source_mask, expected)
        left = ops.where(null, 1.0, ops.maximum(1 - coverage, LEFT))
        prior = prior * left
        prior = prior / ops.sum(prior, axis=-1, keepdims=True)
        new_state["prior"] = prior

        words = ops.matmul(prior, rows)
        words = words / ops.sum(words, axis=-1, keepdims=True)
        end = self._end_probability(step, source_mask)[:, None, None]
        is_end = ops.equal(ops.arange(self.target_vocab_size), self.eos_id)
        probabilities = ops.where(is_end, end, (1 - end) * words)

        def by_hypothesis(x):  # [B, K, X] -> [N, X]
            return ops.reshape(x, (-1, ops.shape(x)[-1]))

        return StepOutput(
            logits=by_hypothesis(ops.log(ops.maximum(probabilities, _TINY))),
            state=keras.tree.map_structure(by_hypothesis, new_state),
            attention=by_hypothesis(prior),
        )

    def _expected_length(self, source_mask):
        """`[B]` float32: of a translation, in tokens with `</s>`, at least 1."""
        intercept, slope = self.length_model[0], self.length_model[1]
        return ops.maximum(intercept + slope * ops.cast(lengths_of(source_mask), "float32"), 1.0)

    def _end_probability(self, step, source_mask):
        """`[B]` float32: P(a translation has `step` words | at least so many).

        The distribution is logistic, whose tail is a softplus.
        """
        variance = self.length_model[2] * ops.cast(lengths_of(source_mask), "float32")
        scale = ops.sqrt(3 * variance) / np.pi
        excess = ops.cast(step, "float32") + 1 - self._expected_length(source_mask)
        tails = [ops.softplus((excess + side) / scale) for side in (-0.5, 0.5)]
        return -ops.expm1(tails[0] - tails[1])

    def attention_maps(self, source_ids, target_ids):
        """`decoder/0/cross`, which is `align`."""
        return {"decoder/0/cross": self.align(source_ids, target_ids)[:, None]}

    def get_config(self):
        return {
            **super().get_config(),
            **self.settings,
            "num_word_pairs": self.num_word_pairs,
            "eos_id": self.eos_id,
        }
