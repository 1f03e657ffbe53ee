"""The hidden Markov alignment model with fertilities: how many target words each word becomes.

Brown et al. 1993, section 4.4, for fertilities; Zhao and Gildea 2010, "A Fast Fertility Hidden
Markov Model for Word Alignment Using MCMC", for their place in a hidden Markov model.
"""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.architecture import Architecture, Part
from nmt_zoo.models.base import Tensor, add_array
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.layers.masks import padding_mask
from nmt_zoo.models.layers.source_positions import is_null

MOST = 4  # As in `training.ways.expectation_maximisation.collapsed`.


@keras.saving.register_keras_serializable("nmt_zoo")
class FertilityModel(AlignmentModel):
    """The hidden Markov model, in which every source word has a distribution of its fertility.

    The fertility of a source word is the number of target words that are linked to it. An alignment
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

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        max_jump: int = 20,
        null_probability: float = 0.08,
        smoothing: float = 0.02,
        num_word_pairs: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            source_vocab_size,
            target_vocab_size,
            positions="jumps",
            max_jump=max_jump,
            null_probability=null_probability,
            smoothing=smoothing,
            num_word_pairs=num_word_pairs,
            **kwargs,
        )

    def build(self, input_shape: Any = None) -> None:
        if self.built:
            return
        # Column c: log n(c + 1) - log n(c). At first, all fertilities are equally probable.
        shape = self.source_vocab_size, MOST
        self.log_ratios = add_array(self, "fertility_log_ratios", shape, 0)
        super().build(input_shape)

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

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {n: v for n, v in config.items() if n not in ("positions", "max_positions")}
