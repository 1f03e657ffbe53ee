"""The phrase-based translation model."""

from typing import Any

import keras

from nmt_zoo.models.base import require
from nmt_zoo.models.phrases.phrase_decoder import PhraseDecoder
from nmt_zoo.models.phrases.sentence_options import FEATURES, FIRST_WEIGHTS, LONGEST
from nmt_zoo.models.phrases.table_model import TableModel


@keras.saving.register_keras_serializable("nmt_zoo")
class PhraseModel(TableModel):
    """Translates phrase by phrase: Koehn, Och and Marcu 2003; Koehn et al. 2007.

    A derivation divides the source into phrases, translates each by a pair of the phrase table, and
    puts the translations in some order. Its features are `sentence_options.FEATURES`.

    Args:
        source_vocab_size, target_vocab_size, max_phrase_length, translations, order: as of
            `TableModel`.
        distortion_limit: most source words between the ends of two phrases that follow each other
            in the target; -1: no limit.
    Example:
        >>> model = PhraseModel(90, 90)
        >>> model.decoder().search([[5, 6, 3]])[0][0].ids
        [1, 1, 3]
    """

    corpus_facts = "phrases"
    features, first_weights = FEATURES, FIRST_WEIGHTS
    num_orientations = 6
    search_title = "Stack search"
    decoder_class, search_settings = PhraseDecoder, ("distortion_limit",)

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        max_phrase_length: int = LONGEST,
        translations: int = 30,
        order: int = 3,
        distortion_limit: int = 6,
        **kwargs: Any,
    ) -> None:
        sizes = source_vocab_size, target_vocab_size
        settings = {
            "max_phrase_length": max_phrase_length,
            "translations": translations,
            "order": order,
        }
        super().__init__(*sizes, **settings, **kwargs)
        self.settings["distortion_limit"] = distortion_limit
        require(
            distortion_limit >= -1,
            f"distortion_limit must be at least 0, or -1 for no limit, found {distortion_limit}",
        )
