"""The phrase-based translation model, with a search of its own."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.base import (
    Tensor,
    TranslationModel,
    require,
    require_at_least,
    require_at_most,
)
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel
from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.phrase_decoder import BEAM_SIZE, PhraseDecoder, links_of
from nmt_zoo.models.phrases.sentence_options import (
    FEATURES,
    FIRST_WEIGHTS,
    GIVEN_SOURCE,
    LONGEST,
    PhraseArrays,
)
from nmt_zoo.models.phrases.stack_search import UNLIMITED


@keras.saving.register_keras_serializable("nmt_zoo")
class PhraseModel(TranslationModel):
    """Translates phrase by phrase: Koehn, Och and Marcu 2003; Koehn et al. 2007.

    A derivation divides the source into phrases, translates each by a pair of the phrase table, and
    puts the translations in some order. Its score is a weighted sum of the features in
    `sentence_options.FEATURES`, and a translation is the target side of the best derivation that
    the search finds: a log-linear model, Och and Ney 2002, without normalisation. So a score is no
    log-probability, and there are no decoding steps: `decoder` takes the place of `decode_step`.

    The tables are filled by training; nothing is trained by gradients. All arithmetic is NumPy in
    float64. Raises `SettingError` at a setting out of its range.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
        max_phrase_length: most words of a phrase on either side, 1 to 7.
        translations: most target phrases of a source phrase in the table.
        order: length of the longest n-grams of the language model.
        distortion_limit: most source words between the ends of two phrases that follow each other
            in the target; -1: no limit.
        num_source_phrases, num_phrase_pairs, num_target_words, num_ngrams: sizes of the tables,
            known once the text is read.
        eos_id, unknown_id: ids of `</s>` and of unknown words.
    Example:
        >>> model = PhraseModel(90, 90)
        >>> model.decoder().search([[5, 6, 3]])[0][0].ids
        [1, 1, 3]
    """

    own_search = True
    predicts = "scores"
    logits_add_up = True
    beam_size = BEAM_SIZE  # Unless the user says another number.
    corpus_sizes = ("num_source_phrases", "num_phrase_pairs", "num_target_words", "num_ngrams")

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        max_phrase_length: int = LONGEST,
        translations: int = 30,
        order: int = 3,
        distortion_limit: int = 6,
        num_source_phrases: int = 0,
        num_phrase_pairs: int = 0,
        num_target_words: int = 0,
        num_ngrams: int = 0,
        eos_id: int = 3,
        unknown_id: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = {
            "max_phrase_length": max_phrase_length,
            "translations": translations,
            "order": order,
            "distortion_limit": distortion_limit,
            "num_source_phrases": num_source_phrases,
            "num_phrase_pairs": num_phrase_pairs,
            "num_target_words": num_target_words,
            "num_ngrams": num_ngrams,
            "eos_id": eos_id,
            "unknown_id": unknown_id,
        }
        require_at_least(1, self.settings, ("max_phrase_length", "translations"))
        require_at_most(LONGEST, self.settings, ("max_phrase_length",))
        require(
            distortion_limit >= UNLIMITED,
            f"distortion_limit must be at least 0, or -1 for no limit, found {distortion_limit}",
        )
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
        last = np.iinfo(np.int64).max
        num_nodes = source_vocab_size + num_source_phrases
        pairs = num_phrase_pairs
        self.feature_weights = self._array("feature_weights", (len(FEATURES),), FIRST_WEIGHTS)
        self.source_keys = self._array("source_keys", (num_source_phrases + 1,), last, "int64")
        self.first_pairs = self._array("first_pairs", (num_nodes + 1,), 0, "int32")
        self.target_starts = self._array("target_starts", (pairs + 1,), 0, "int32")
        self.target_words = self._array("target_words", (num_target_words,), 0, "int32")
        self.pair_scores = self._array("pair_scores", (pairs, 4), 0)
        self.reordering = self._array("reordering", (pairs, 6), 0)
        self.links = self._array("links", (pairs,), 0, "int64")
        self._read = None
        self.built = True

    def _array(self, name, shape, value, dtype="float32"):
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer=lambda shape, dtype: ops.convert_to_tensor(
                np.broadcast_to(np.asarray(value, dtype), shape)
            ),
            trainable=False,
            autocast=False,
        )

    def fill(self, table: Any, ngrams: Any) -> None:
        """Copies a `PhraseTable` and an `NgramTable` of `training.ways`."""
        self.language_model.fill(ngrams)
        keys = np.append(table.source_keys, np.iinfo(np.int64).max)
        self.source_keys.assign(keys)
        self.first_pairs.assign(table.first_pairs)
        self.target_starts.assign(table.target_starts)
        self.target_words.assign(table.target_words)
        self.pair_scores.assign(table.scores)
        self.reordering.assign(table.reordering)
        self.links.assign(table.links)
        self._read = None

    def decoder(self) -> PhraseDecoder:
        """Returns the search with the current weights of the features; the tables are read once."""
        if self._read is None:
            names = ("first_pairs", "target_starts", "target_words", "pair_scores", "reordering")
            tables = (np.asarray(getattr(self, n)) for n in ("source_keys", *names, "links"))
            arrays = PhraseArrays(self.source_vocab_size, *tables)
            self._read = arrays, LanguageStates.of(self.language_model)
        names = ("order", "max_phrase_length", "distortion_limit", "eos_id", "unknown_id")
        return PhraseDecoder(
            *self._read,
            np.asarray(self.feature_weights, np.float64),
            bos_id=self.bos_id,
            **{name: self.settings[name] for name in names},
        )

    # The interface

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Scores given translations, `[B, T]` float32; the sum of a row is the score of its best
        derivation, all of it at the final `</s>`.
        """
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        result = np.zeros(target_ids.shape, np.float32)
        for row, source, target in zip(result, source_ids, target_ids, strict=True):
            found = self._explain(source, target)
            last = int(np.argmax(target == self.eos_id))
            row[last] = IMPOSSIBLE if found is None else found.score
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

    def translations(self, source_ids: Tensor) -> Tensor:
        """Returns t(e | f) as `TranslationModel`, from the phrase pairs of single source words.

        A pair gives its p(target | source) to the words of its target phrase alike. The row of a
        word without such a pair is 1 at the unknown word.
        """
        arrays = self.decoder().arrays
        source_ids = np.asarray(source_ids)
        result = np.zeros((source_ids.size, self.target_vocab_size), np.float32)
        for row, word in zip(result, source_ids.reshape(-1), strict=True):
            pairs = np.arange(*arrays.first_pairs[word : word + 2])
            starts, ends = arrays.target_starts[pairs], arrays.target_starts[pairs + 1]
            lengths = ends - starts
            places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
            places += np.arange(places.size)
            shares = np.repeat(np.exp(arrays.scores[pairs, GIVEN_SOURCE]) / lengths, lengths)
            np.add.at(row, arrays.target_words[places], shares)
            row[self.unknown_id] += not pairs.size
        result /= result.sum(axis=1, keepdims=True)
        return ops.convert_to_tensor(result.reshape(*source_ids.shape, -1))

    def _maps(self, source_ids, target_ids):
        """Returns `[B, 2, T, S]` float32: links and phrases; rows sum to 1, 0 on padding."""
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        result = np.zeros((target_ids.shape[0], 2, target_ids.shape[1], source_ids.shape[1]))
        for maps, source, target in zip(result, source_ids, target_ids, strict=True):
            found = self._explain(source, target)
            for start, end, first, last, _ in found.phrases if found else ():
                maps[1, first:last, start:end] = 1
            for i, j in links_of(found.phrases) if found else ():
                maps[0, j, i] = 1
            unlinked = (target != self.pad_id) & ~maps.any(axis=2)
            maps[..., int((source != self.pad_id).sum()) - 1][unlinked] = 1
        total = result.sum(axis=-1, keepdims=True)
        return ops.convert_to_tensor((result / np.maximum(total, 1)).astype(np.float32))

    def _explain(self, source, target):
        return self.decoder().explain(source[source != self.pad_id].tolist(), target.tolist())
