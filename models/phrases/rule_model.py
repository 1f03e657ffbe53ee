"""The hierarchical translation model."""

from typing import Any

import keras

from nmt_zoo.models.phrases.rule_decoder import RuleDecoder
from nmt_zoo.models.phrases.rule_matches import FEATURES, FIRST_WEIGHTS
from nmt_zoo.models.phrases.table_model import TableModel


@keras.saving.register_keras_serializable("nmt_zoo")
class RuleModel(TableModel):
    """Translates by rules, which are phrase pairs with up to two gaps: Chiang 2007.

    A derivation is a tree: a rule translates a span of the source, and other rules fill its gaps;
    the translations of spans that follow each other are put side by side by the glue rule. Its
    features are `rule_matches.FEATURES`.

    Args:
        source_vocab_size, target_vocab_size, translations, order: as of `TableModel`.
        max_phrase_length: most words, on either side, of the phrase pairs that rules are made of;
            and most source words that a rule with what fills its gaps translates.
    Example:
        >>> model = RuleModel(90, 90)
        >>> model.decoder().search([[5, 6, 3]])[0][0].ids
        [1, 1, 3]
    """

    corpus_facts = "rules"
    features, first_weights = FEATURES, FIRST_WEIGHTS
    longest_phrase = 20
    num_gaps = 1
    table_title, search_title = "Rule table", "Chart search (CYK)"
    decoder_class = RuleDecoder

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        max_phrase_length: int = 10,
        translations: int = 30,
        order: int = 3,
        **kwargs: Any,
    ) -> None:
        sizes = source_vocab_size, target_vocab_size
        settings = {
            "max_phrase_length": max_phrase_length,
            "translations": translations,
            "order": order,
        }
        super().__init__(*sizes, **settings, **kwargs)
