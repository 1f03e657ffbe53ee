"""IBM Models 1 and 2 and the hidden Markov alignment model, also with fertilities.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation"; Vogel, Ney and Tillmann
1996, "HMM-Based Word Alignment in Statistical Translation"; Dyer, Chahuneau and Smith 2013, "A
Simple, Fast, and Effective Reparameterization of IBM Model 2"; Zhao and Gildea 2010, "A Fast
Fertility Hidden Markov Model for Word Alignment Using MCMC".
"""

from typing import Any, ClassVar

import keras
from keras import ops

from nmt_zoo.models.architecture import SOURCE_WORDS, Architecture, Part
from nmt_zoo.models.base import (
    Tensor,
    add_array,
    require,
    require_at_least,
    require_choices,
    require_rates,
    settings_of,
)
from nmt_zoo.models.coverage import CoverageModel
from nmt_zoo.models.layers.jumps import Jumps
from nmt_zoo.models.layers.masks import TINY, padding_mask
from nmt_zoo.models.layers.source_positions import (
    Diagonal,
    PositionTable,
    Uniform,
    is_null,
    lengths_of,
)
from nmt_zoo.models.layers.translation_table import TranslationTable

MOST = 4  # As in `training.ways.expectation_maximisation.collapsed`.
# Kind of prior -> its equation, with the settings of the model.
_PRIORS = {
    "uniform": ("P(a_t = j) = 1 / S",),
    "table": ("a(j | t, S), S, T ≤ {max_positions}",),
    "shared": ("softmax A_1,t ... A_S,t", "S, T ≤ {max_positions}"),
    "diagonal": ("by |t/T - j/(S - 1)|", "P(NULL) = {null_probability}"),
    "jumps": ("c(j - a_t-1), |jump| ≤ {max_jump}", "P(NULL) = {null_probability}"),
}


@keras.saving.register_keras_serializable("nmt_zoo")
class AlignmentModel(CoverageModel):
    """Every target word is the translation of one source word, by a table of word translations.

        P(e | f) = sum over alignments a of prod_i P(a_i | ...) t(e_i | f_{a_i})

    The source's final `</s>` is the empty word, NULL. `positions` is the prior of alignments:

    * "uniform": P(a_i = j) = 1 / n, IBM Model 1;
    * "table": a(j | i, n), a free table, IBM Model 2;
    * "shared": Model 2 with one table for all n: the softmax of A_{1,i} ... A_{n,i};
    * "diagonal": Model 2 with one parameter, the distance from the diagonal; Dyer et al. 2013;
    * "jumps": P(a_i = j | a_{i-1}), by j - a_{i-1}: the hidden Markov model of Vogel et al. 1996.

    `score` is exactly log P(e_i | e_1 ... e_{i-1}, f), which with all priors but the last does not
    depend on e_1 ... e_{i-1}. `align` is the posterior P(a_i = j | e, f). Both look up only the
    word pairs of their sentences. With "diagonal", both depend on the length of the target, because
    the prior does.

    A decoding step does not use this conditional as it is, but as `CoverageModel` describes.
    Raises `SettingError` at a setting out of its range.

    Args:
        positions: "uniform", "table", "shared", "diagonal" or "jumps".
        max_positions: "table" and "shared": largest n and number of target positions in the table;
            beyond them, the prior is uniform; source positions of "shared" have the last logit.
        max_jump: "jumps": the farthest jump with a separate weight; farther jumps have this weight.
        null_probability: "diagonal" and "jumps": the prior of NULL, in (0, 1).
        smoothing: share of every source word's translations that is divided evenly among all target
            words, in [0, 1).
        num_word_pairs: P, number of pairs of a source and a target word in the translation table;
            `table.set_word_pairs` sets them. 0: all pairs.
    Example:
        >>> model = AlignmentModel(100, 90, positions="jumps")
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model.align(ids, ids).shape
        TensorShape([1, 3, 3])
    """

    trained_by = ("em", "gradient")
    corpus_facts = "word pairs"
    corpus_sizes = ("num_word_pairs",)
    read_with: ClassVar = {
        "max_positions": ("positions", ("table", "shared")),
        "max_jump": ("positions", ("jumps",)),
        "null_probability": ("positions", ("diagonal", "jumps")),
    }
    predicts = "scores"
    head_names = ("posterior",)
    has_fertilities = False  # whether `log_ratios` of fertilities are trained, too

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        positions: str = "uniform",
        max_positions: int = 100,
        max_jump: int = 20,
        null_probability: float = 0.08,
        smoothing: float = 0.02,
        num_word_pairs: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = settings_of(locals())
        require_choices(self.settings, {"positions": tuple(_PRIORS)})
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
            "shared": lambda: PositionTable(max_positions, shared=True, name="positions"),
            "diagonal": lambda: Diagonal(null_probability, name="positions"),
            "jumps": lambda: Jumps(null_probability, max_jump, name="positions"),
        }[positions]()
        if self.has_fertilities:
            # Column c: log n(c + 1) - log n(c). At first, all fertilities are equally probable.
            shape = source_vocab_size, MOST
            self.log_ratios = add_array(self, "fertility_log_ratios", shape, 0)
        self.build()

    def precompute(self) -> None:
        self.table.precompute()

    def architecture(self) -> Architecture:
        lines = "t(e | f): a row for each word, softmax over e"
        table = Part("Translation table t", "table", (lines,), (self.table,))
        prior = [text.format(**self.settings) for text in _PRIORS[self.settings["positions"]]]
        total = "Σ_j P(a_t = j) t(e_t | f_j)", "EM: posterior P(a_t = j | e, f)"
        target = (
            Part("Position of target word", "input", ("t, of T; no word before it",)),
            Part(
                "Prior of source positions",
                "attention",
                (*prior, "</s> is NULL"),
                (self.positions,),
            ),
            Part("Sum over alignments", "attention", total, reads_source=True),
            self._search_part(),
        )
        return Architecture((SOURCE_WORDS, table), target)

    # Likelihood and alignment

    def _prior(self, source_ids, target_ids, target_lengths):
        """P(a_i | the target tokens before i): `[B, T, S]`, or `[B, 1, S]` if equal for all i."""
        source_mask = padding_mask(source_ids, self.pad_id)
        translation = self._translation(source_ids, target_ids)
        return self.positions.priors(source_mask, translation, target_lengths)

    def _translation(self, source_ids, target_ids):
        """Returns t(e_i | f_j), `[B, T, S]`, also for padding."""
        return ops.maximum(self.table.look_up(source_ids, target_ids), TINY)

    def _target_lengths(self, target_ids):
        """Counts tokens with `</s>`, in targets that are shifted or not: `[B]` float32."""
        words = ops.logical_and(target_ids != self.pad_id, target_ids != self.eos_id)
        words = ops.logical_and(words, target_ids != self.bos_id)
        return ops.cast(lengths_of(words) + 1, "float32")

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        source_ids, target_in_ids = inputs["source_ids"], inputs["target_in_ids"]
        # The target tokens. The last one is unknown here, but no prediction depends on it.
        target_ids = ops.concatenate([target_in_ids[:, 1:], target_in_ids[:, -1:]], axis=1)
        prior = self._prior(source_ids, target_ids, self._target_lengths(target_in_ids))
        probabilities = ops.matmul(prior, self.table.rows(source_ids))
        logits = ops.log(ops.maximum(probabilities, TINY))
        return ops.broadcast_to(logits, (*ops.shape(target_in_ids), self.target_vocab_size))

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        prior = self._prior(source_ids, target_ids, self._target_lengths(target_ids))
        return ops.log(ops.sum(prior * self._translation(source_ids, target_ids), axis=-1))

    def translations(self, source_ids: Tensor) -> Tensor | None:
        return self.table.rows(source_ids)

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        translation = self._translation(source_ids, target_ids)
        return self._posteriors(source_ids, target_ids, translation)

    def _posteriors(self, source_ids, target_ids, translation):
        return self.positions.posteriors(
            padding_mask(source_ids, self.pad_id),
            translation,
            padding_mask(target_ids, self.pad_id),
            self._target_lengths(target_ids),
        )

    # Decoding

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        return {
            "source_mask": padding_mask(source_ids, self.pad_id),
            "rows": self.table.rows(source_ids),
        }

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: as `CoverageModel`, and with "jumps" `previous` (see `models.layers.jumps`)."""
        positions = self.positions.initial_state(context["source_mask"])
        return {**super().initial_state(context), **positions}

    def position_prior(self, step: Tensor, state: dict[str, Any], source_mask: Tensor) -> Tensor:
        lengths = self.length.mean(source_mask)
        return self.positions.step_prior(step, state, source_mask, lengths)

    def follow(self, state: dict[str, Any], origin: Tensor, source_mask: Tensor) -> dict[str, Any]:
        return self.positions.follow(state, origin, source_mask)


@keras.saving.register_keras_serializable("nmt_zoo")
class FertilityModel(AlignmentModel):
    """The hidden Markov model, in which every source word has a distribution of its fertility.

    The fertility of a source word is the number of target words that are linked to it: Brown et al.
    1993, section 4.4; its place in a hidden Markov model: Zhao and Gildea 2010. An alignment
    is as probable as in the hidden Markov model times the probabilities n of the fertilities:

        P(a | e, f)  ~  prod_i P(a_i | a_{i-1}) t(e_i | f_{a_i})  prod_j n(links of f_j | f_j)

    NULL has no fertility. `align` approximates the posterior of a link in two steps: it finds the
    links by the hidden Markov model; then it finds them again, with t(e_i | f_j) multiplied by n(c
    + 1 | f_j) / n(c | f_j), where c is the expected number of links of source word j to other
    target words. Between whole numbers c, the logarithm of the factor is interpolated. From c = 3
    on, it is n(4 or more) / n(3).

    `call`, `score` and decoding steps do not count links: they are those of the hidden Markov model
    (`AlignmentModel`, "jumps"). Raises `SettingError` at a setting out of its range.
    Example:
        >>> model = FertilityModel(100, 90)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model.align(ids, ids).shape
        TensorShape([1, 3, 3])
    """

    trained_by = ("em",)
    has_fertilities = True

    def __init__(self, *vocab_sizes: int, positions: str = "jumps", **settings: Any) -> None:
        super().__init__(*vocab_sizes, positions=positions, **settings)
        require(positions == "jumps", f"positions must be jumps, found {positions!r}")

    def architecture(self) -> Architecture:
        source, target = super().architecture()
        lines = f"n(φ | f), φ = 0 ... {MOST} or more", "in align: factors of t"
        fertilities = Part("Fertilities n", "table", lines, (self.log_ratios,))
        return Architecture((*source, fertilities), target)

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        translation = self._translation(source_ids, target_ids)
        links = self._posteriors(source_ids, target_ids, translation)
        links = ops.where(padding_mask(target_ids, self.pad_id)[:, :, None], links, 0.0)
        factors = self._factors(source_ids, ops.sum(links, axis=1, keepdims=True) - links)
        null = is_null(padding_mask(source_ids, self.pad_id))[:, None, :]
        factors = ops.where(null, 1.0, factors)
        return self._posteriors(source_ids, target_ids, translation * factors)

    def _factors(self, source_ids, others):
        """Computes n(c + 1 | f_j) / n(c | f_j) for c `others`, which is `[B, T, S]`."""
        ratios = ops.take(self.log_ratios, source_ids, axis=0)[:, None]  # [B, 1, S, MOST]
        logs = ratios[..., 0]
        for c in range(1, MOST):
            slope = ratios[..., c] - ratios[..., c - 1]
            logs = logs + ops.clip(others - (c - 1), 0.0, 1.0) * slope
        return ops.exp(logs)
