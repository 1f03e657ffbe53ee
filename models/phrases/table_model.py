"""The models with a table of phrases or rules; each has a search of its own."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.architecture import SOURCE_WORDS, TARGET_WORDS, Architecture, Part
from nmt_zoo.models.base import (
    Tensor,
    TranslationModel,
    add_array,
    require,
    require_at_least,
    settings_of,
)
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel
from nmt_zoo.models.phrases import rule_matches, sentence_options
from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.phrase_decoder import PhraseDecoder
from nmt_zoo.models.phrases.rule_decoder import RuleDecoder
from nmt_zoo.models.phrases.sentence_options import LONGEST, NO_KEY, PhraseTable
from nmt_zoo.models.phrases.table_decoder import BEAM_SIZE, TableDecoder

# What the model stores of a `PhraseTable`.
_ARRAYS = ("source_keys", "first_pairs", "target_starts", "target_words", "pair_scores")
_ARRAYS += ("reordering", "links")


class TableModel(TranslationModel):
    """A model whose translations are made of the entries of a table.

    The score of a derivation is a weighted sum of features, and a translation is the target side of
    the best derivation that the search finds: a log-linear model, Och and Ney 2002, without
    normalisation. So a score is no log-probability, and there are no decoding steps: `decoder`
    takes the place of `decode_step`.

    The tables are filled by training; nothing is trained by gradients. All arithmetic is NumPy in
    float64. Raises `SettingError` at a setting out of its range.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
        max_phrase_length: most words of a phrase on either side, from 1 to `longest_phrase`.
        translations: most target sides of a source side in the table.
        order: length of the longest n-grams of the language model.
        num_source_phrases, num_phrase_pairs, num_target_words, num_ngrams: sizes of the tables,
            known once the text is read.
        eos_id, unknown_id: ids of `</s>` and of unknown words.
    """

    features: tuple[str, ...]  # Names of the features; the last one counts unknown words.
    first_weights: tuple[float, ...]  # Before they are tuned.
    longest_phrase = LONGEST
    decoder_class: type[TableDecoder] = TableDecoder
    search_settings: tuple[str, ...] = ()  # What `decoder_class` wants to know besides.
    table_title, search_title = "Phrase table", "Search"  # In pictures.
    num_gaps = 0  # Symbols of a source side that stand for gaps.
    num_orientations = 0
    predicts = "scores"
    logits_add_up = True
    beam_size = BEAM_SIZE  # Unless the user says another number.
    trained_by = ("tuning",)
    head_names = ("links", "phrases")
    corpus_sizes = ("num_source_phrases", "num_phrase_pairs", "num_target_words", "num_ngrams")

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        max_phrase_length: int = LONGEST,
        translations: int = 30,
        order: int = 3,
        num_source_phrases: int = 0,
        num_phrase_pairs: int = 0,
        num_target_words: int = 0,
        num_ngrams: int = 0,
        eos_id: int = 3,
        unknown_id: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = settings_of(locals())
        require_at_least(1, self.settings, ("max_phrase_length",), self.longest_phrase)
        require_at_least(1, self.settings, ("translations",))
        require_at_least(0, self.settings, self.corpus_sizes)
        self.eos_id, self.unknown_id = eos_id, unknown_id
        self.language_model = NgramLanguageModel(
            target_vocab_size,
            target_vocab_size,
            order=order,
            num_ngrams=num_ngrams,
            pad_id=self.pad_id,
            bos_id=self.bos_id,
            name="language_model",
        )
        num_nodes = source_vocab_size + self.num_gaps + num_source_phrases
        pairs = num_phrase_pairs
        self.feature_weights = add_array(
            self, "feature_weights", (len(self.features),), self.first_weights
        )
        self.source_keys = add_array(
            self, "source_keys", (num_source_phrases + 1,), NO_KEY, "int64"
        )
        self.first_pairs = add_array(self, "first_pairs", (num_nodes + 1,), 0, "int32")
        self.target_starts = add_array(self, "target_starts", (pairs + 1,), 0, "int32")
        self.target_words = add_array(self, "target_words", (num_target_words,), 0, "int32")
        self.pair_scores = add_array(self, "pair_scores", (pairs, 4), 0)
        self.reordering = add_array(self, "reordering", (pairs, self.num_orientations), 0)
        self.links = add_array(self, "links", (pairs,), 0, "int64")
        self._read = None
        self.built = True

    def fill(self, table: PhraseTable, ngrams: Any) -> None:
        """Copies a `PhraseTable`, and an `NgramTable` of `training.ways.counting`."""
        self.language_model.fill(ngrams)
        for name in _ARRAYS:
            getattr(self, name).assign(getattr(table, name))
        self._read = None

    def decoder(self) -> TableDecoder:
        """Returns the search with the current weights of the features; the tables are read once."""
        if self._read is None:
            arrays = (np.asarray(getattr(self, name)) for name in _ARRAYS)
            sizes = self.source_vocab_size + self.num_gaps, self.target_vocab_size
            model, order = self.language_model, self.settings["order"]
            ngrams = model.unigrams, model.ngram_keys[:-1], model.probabilities[:-1], model.backoffs
            language = LanguageStates(sizes[1], order, *map(np.asarray, ngrams), self.bos_id)
            self._read = PhraseTable(*sizes, *arrays), language
        names = ("max_phrase_length", "eos_id", "unknown_id", *self.search_settings)
        settings = {name: self.settings[name] for name in names}
        return self.decoder_class(
            *self._read, np.asarray(self.feature_weights, np.float64), **settings
        )

    def architecture(self) -> Architecture:
        longest, options = self.settings["max_phrase_length"], self.settings["translations"]
        arrays = tuple(getattr(self, name) for name in _ARRAYS)
        lines = (
            f"of up to {longest} words, the best {options} of each",
            "p(e|f), p(f|e), lexical weights",
        )
        table = Part(self.table_title, "table", lines, arrays)
        lines = (f"Σ λ h over {len(self.features)} features h, λ tuned by ranking",)
        weights = (self.feature_weights,)
        search = Part(self.search_title, "output", lines, weights, reads_source=True)
        target = TARGET_WORDS, self.language_model.table_part(), search
        return Architecture((SOURCE_WORDS, table), target)

    # The interface

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Scores given translations, `[B, T]` float32; the sum of a row is the score of its best
        derivation, all of it at the final `</s>`.
        """
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        result = np.zeros(target_ids.shape, np.float32)
        for row, source, target in zip(result, source_ids, target_ids, strict=True):
            derivation = self._explain(source, target)
            last = int(np.argmax(target == self.eos_id))
            row[last] = IMPOSSIBLE if derivation is None else derivation.score
        return ops.convert_to_tensor(result)

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the links inside the phrases of the best derivation of given translations.

        As `TranslationModel.align`. A word without links belongs to `</s>`; links of a word share
        its weight.
        """
        return self._maps(source_ids, target_ids)[:, 0]

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns the links as head 1, and the phrases as head 2 of `decoder/0/cross`.

        As `TranslationModel.attention_maps`; every target word attends to all source words of its
        phrase alike.
        """
        return {"decoder/0/cross": self._maps(source_ids, target_ids)}

    def _maps(self, source_ids, target_ids):
        """Returns `[B, 2, T, S]` float32: links and phrases; rows sum to 1, 0 on padding."""
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        result = np.zeros((target_ids.shape[0], 2, target_ids.shape[1], source_ids.shape[1]))
        for maps, source, target in zip(result, source_ids, target_ids, strict=True):
            derivation = self._explain(source, target)
            for phrase in derivation.phrases if derivation else ():
                maps[1][np.ix_(phrase.target, phrase.source)] = 1
                for i, j in phrase.links:
                    maps[0, j, i] = 1
                for j in phrase.target:  # An unknown word is a word of its phrase.
                    if target[j] == self.unknown_id and not maps[0, j].any():
                        maps[0, j, phrase.source[0]] = 1
            unlinked = (target != self.pad_id) & ~maps.any(axis=2)
            maps[..., int((source != self.pad_id).sum()) - 1][unlinked] = 1
        total = result.sum(axis=-1, keepdims=True)
        return ops.convert_to_tensor((result / np.maximum(total, 1)).astype(np.float32))

    def _explain(self, source, target):
        return self.decoder().explain(source[source != self.pad_id].tolist(), target.tolist())


@keras.saving.register_keras_serializable("nmt_zoo")
class PhraseModel(TableModel):
    """Translates phrase by phrase: Koehn, Och and Marcu 2003; Koehn et al. 2007.

    A derivation divides the source into phrases, translates each by a pair of the phrase table, and
    puts the translations in some order. Its features are `sentence_options.FEATURES`.

    Args:
        vocab_sizes, settings: as of `TableModel`.
        distortion_limit: most source words between the ends of two phrases that follow each other
            in the target; -1: no limit.
    Example:
        >>> model = PhraseModel(90, 90)
        >>> model.decoder().search([[5, 6, 3]])[0][0].ids
        [1, 1, 3]
    """

    corpus_facts = "phrases"
    features, first_weights = sentence_options.FEATURES, sentence_options.FIRST_WEIGHTS
    num_orientations = 6
    search_title = "Stack search"
    decoder_class, search_settings = PhraseDecoder, ("distortion_limit",)

    def __init__(self, *vocab_sizes: int, distortion_limit: int = 6, **settings: Any) -> None:
        super().__init__(*vocab_sizes, **settings)
        self.settings["distortion_limit"] = distortion_limit
        require(
            distortion_limit >= -1,
            f"distortion_limit must be at least 0, or -1 for no limit, found {distortion_limit}",
        )


@keras.saving.register_keras_serializable("nmt_zoo")
class RuleModel(TableModel):
    """Translates by rules, which are phrase pairs with up to two gaps: Chiang 2007.

    A derivation is a tree: a rule translates a span of the source, and other rules fill its gaps;
    the translations of spans that follow each other are put side by side by the glue rule. Its
    features are `rule_matches.FEATURES`.

    Args:
        vocab_sizes, settings: as of `TableModel`.
        max_phrase_length: most words, on either side, of the phrase pairs that rules are made of;
            and most source words that a rule with what fills its gaps translates.
    Example:
        >>> model = RuleModel(90, 90)
        >>> model.decoder().search([[5, 6, 3]])[0][0].ids
        [1, 1, 3]
    """

    corpus_facts = "rules"
    features, first_weights = rule_matches.FEATURES, rule_matches.FIRST_WEIGHTS
    longest_phrase = 20
    num_gaps = 1
    table_title, search_title = "Rule table", "Chart search (CYK)"
    decoder_class = RuleDecoder

    def __init__(self, *vocab_sizes: int, max_phrase_length: int = 10, **settings: Any) -> None:
        super().__init__(*vocab_sizes, max_phrase_length=max_phrase_length, **settings)
