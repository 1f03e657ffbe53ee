"""Models that translate by a search of their own: `phrase_based` and `hiero`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID
from nmt_zoo.decoding.search.terms import Hypotheses, SearchOptions, Sentence, padded
from nmt_zoo.models.base import Searchable
from nmt_zoo.models.phrases.phrase_decoder import PhraseTranslation

STACK = 25  # Hypotheses of a stack, for each hypothesis of the beam that is asked for.
# Options that have a meaning for such a search, or none for the model, besides their values.
_TAKEN = ("beam_size", "emit_unknowns")
_REFUSED = (
    "--{}: this model does not translate token by token, and its own search cannot use it; leave "
    "it out"
)


def check_options(options: SearchOptions) -> None:
    """Raises `UserError` if an option was given that a search of the model's own cannot take."""
    for name, value, usual in zip(
        options._fields, options, SearchOptions._field_defaults.values(), strict=True
    ):
        is_penalty = name == "length_penalty" and value == 0  # As the model's own configuration.
        if name not in _TAKEN and value != usual and not is_penalty:
            raise UserError(_REFUSED.format(name))


def in_graph(model: Searchable, function: Callable, signature: list) -> Callable:
    """Returns a function of a model as a graph; as it is, if the model is not made of tensors."""
    if model.own_search:
        return function
    # AutoGraph has nothing to convert, and would hide the model's errors.
    return tf.function(function, input_signature=signature, autograph=False)


class OwnSearcher:
    """Searches batches of sentences with the model's own search; as `searcher.Searcher`."""

    def __init__(self, model: Any, options: SearchOptions) -> None:
        check_options(options)
        self._model, self._options = model, options

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """Returns the `Hypotheses` of each sentence of a batch, arrays without the axis B.

        Their scores are those of the model, and log-probabilities only in name.
        """
        for name in ("prefix", "required"):
            if any(len(getattr(sentence, name)) for sentence in sentences):
                raise UserError(_REFUSED.format(name))
        found = self._model.decoder().search(
            [sentence.source_ids for sentence in sentences],
            n_best=n_best,
            beam_size=STACK * self._options.beam_size,
        )
        return list(map(_hypotheses, found))


def _hypotheses(found: Sequence[PhraseTranslation]) -> Hypotheses:
    if not found:
        ids, scores = np.array([[EOS_ID]], np.int32), np.full(1, -1e9)
    else:
        ids, scores = padded([one.ids for one in found]), np.array([one.score for one in found])
    scores = scores.astype(np.float32)
    return Hypotheses(ids, scores, scores, np.ones(scores.size, bool))


def copied_words(translation: PhraseTranslation, source: Sequence) -> list:
    """Returns the words of a translation: ids, and for each UNK the source word linked with it.

    `source` are the words of the source, of any kind.
    """
    if UNK_ID not in translation.ids:
        return translation.ids[:-1]
    linked = {target: place for phrase in translation.phrases for place, target in phrase.links}
    return [
        source[linked[place]] if word == UNK_ID and place in linked else word
        for place, word in enumerate(translation.ids[:-1])
    ]
