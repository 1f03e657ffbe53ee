"""The engine of models that search by a decoder of their own: `phrase_based` and `hiero`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.search.types import Hypotheses, SearchOptions, Sentence, padded
from nmt_zoo.models.phrases.table_decoder import PhraseTranslation

STACK = 25  # Hypotheses of a stack, for each hypothesis of the beam that the user wants.
_TAKEN = ("beam_size", "emit_unknowns", "compile")  # Options that change nothing, or are followed.
_REFUSED = (
    "--{}: this model does not translate token by token, and its own search cannot use it; leave "
    "it out"
)


class DecoderEngine:
    """Searches with the decoder that a model gives; a `types.Engine`.

    Raises UserError: the decoder cannot follow an option.
    """

    refusal = _REFUSED.format("prefix and --required")

    def __init__(self, model: Any, options: SearchOptions) -> None:
        for name, usual in SearchOptions._field_defaults.items():
            value = getattr(options, name)
            is_penalty = name == "length_penalty" and value == 0  # As the model's configuration.
            if name not in _TAKEN and value != usual and not is_penalty:
                raise UserError(_REFUSED.format(name))
        self.model, self.options = model, options

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """As `Engine`; scores are those of the model, and log-probabilities only in name."""
        translations = self.model.decoder().search(
            [sentence.source_ids for sentence in sentences],
            n_best=n_best,
            beam_size=STACK * self.options.beam_size,
        )
        return list(map(_hypotheses, translations))


def _hypotheses(translations: Sequence[PhraseTranslation]) -> Hypotheses:
    if not translations:
        ids, scores = np.array([[EOS_ID]], np.int32), np.full(1, -1e9)
    else:
        ids = padded([translation.ids for translation in translations])
        scores = np.array([translation.score for translation in translations])
    scores = scores.astype(np.float32)
    return Hypotheses(ids, scores, scores, np.ones(scores.size, bool))
