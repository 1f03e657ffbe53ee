"""The phrase-based translation model, with a search of its own."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.base import Searchable, Tensor, require, require_at_least, require_at_most
from nmt_zoo.models.layers.masks import padding_mask
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel
from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.sentence_options import (
    BEFORE,
    BEHIND,
    DISTORTION,
    FEATURES,
    FIRST_WEIGHTS,
    LANGUAGE,
    LONGEST,
    NOTHING,
    Options,
    PhraseArrays,
    made_up,
    made_up_for,
    options_of,
)
from nmt_zoo.models.phrases.stack_search import UNLIMITED, Derivation, Limits, Rule, StackSearch
from nmt_zoo.models.phrases.translation_rules import Begins, Contains

_EXTENSIONS = 4  # Scored by the language model, for each hypothesis of a stack.
_MOST_TRIED = 20  # Derivations looked at for each different translation.


class PhraseTranslation(NamedTuple):
    """A translation of a sentence, and the phrases that it is made of."""

    ids: list  # of int, with `</s>`
    score: float  # weighted sum of the features
    # In the order of the target: (first source word, the one after its last, first target word,
    # the one after its last, links inside as bits: 7 i + j)
    phrases: list
    features: np.ndarray  # `[len(FEATURES)]`


@keras.saving.register_keras_serializable("nmt_zoo")
class PhraseModel(Searchable):
    """Translates phrase by phrase: Koehn, Och and Marcu 2003; Koehn et al. 2007.

    A derivation divides the source into phrases, translates each by a pair of the phrase table, and
    puts the translations in some order. Its score is a weighted sum of the features in
    `sentence_options.FEATURES`, and a translation is the target side of the best derivation that
    the search finds: a log-linear model, Och and Ney 2002, without normalisation. So a score is no
    log-probability, and there are no decoding steps: `search` takes the place of `decode_step`.

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
        >>> model.search([5, 6, 3])[0].ids
        [1, 1, 3]
    """

    own_search = True
    predicts = "scores"
    has_alignment = True
    logits_add_up = True
    beam_size = 100  # Hypotheses of a stack, unless the user says another number.
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

    def freeze(self) -> None:
        """Reads the tables into memory; weights must not change afterwards, but feature weights."""
        names = ("first_pairs", "target_starts", "target_words", "pair_scores", "reordering")
        names = ("source_keys", *names, "links")
        arrays = PhraseArrays(
            self.source_vocab_size, *(np.asarray(getattr(self, name)) for name in names)
        )
        self._read = arrays, LanguageStates.of(self.language_model)

    # Search

    def search(
        self,
        source_ids: Sequence[int],
        *,
        n_best: int = 1,
        beam_size: int = beam_size,
        prefix: Sequence[int] = (),
        required: Sequence[Sequence[int]] = (),
        rules: Sequence[Rule] = (),
    ) -> list[PhraseTranslation]:
        """Finds the best translations of a sentence.

        Args:
            source_ids: ids with the final `</s>`.
            n_best: most different translations to return, the best first.
            beam_size: hypotheses that are followed for each number of translated words;
                `stack_search.UNLIMITED`: all.
            prefix: ids with which the translation begins.
            required: phrases, as ids, that the translation contains.
            rules: further conditions.
        Returns:
            An empty list if no translation meets the conditions.
        """
        source = self._words_of(source_ids)
        options = self._options(source)
        made = [*rules]
        if required:
            made.append(Contains(required))
            options = options.joined(
                *(
                    made_up(place, place + 1, phrase[first : first + LONGEST], len(phrase))
                    for place in range(source.size)
                    for phrase in required
                    for first in range(0, len(phrase), LONGEST)
                )
            )
        if not prefix:
            return self._translations(source, options, made, n_best, beam_size)
        made.append(Begins(prefix))
        found = self._translations(source, options, made, n_best, beam_size)
        if not found:  # The phrase table alone does not lead to the prefix.
            options = options.joined(*made_up_for(prefix, source.size))
            found = self._translations(source, options, made, n_best, beam_size)
        return found

    def explain(
        self, source_ids: Sequence[int], target_ids: Sequence[int], beam_size: int = beam_size
    ) -> PhraseTranslation | None:
        """Finds the best derivation of a given translation; both sides end in `</s>`.

        Where the phrase table does not lead to the translation, words are translated as they are
        needed, at the price of unknown words. Returns None if one side is empty and the other is
        not, or one has more than seven times as many words as the other.
        """
        source, target = self._words_of(source_ids), list(target_ids)
        target = target[: target.index(self.eos_id)] if self.eos_id in target else target
        if not (source.size and target):
            if source.size or target:
                return None
            return PhraseTranslation([self.eos_id], 0.0, [], np.zeros(len(FEATURES)))
        text = _padded_text(target)
        options = self._options(source)
        matching = np.zeros(options.starts.size, bool)
        for first in range(len(target)):
            window = text[first : first + LONGEST]
            matching |= ((options.words == NOTHING) | (options.words == window)).all(axis=1)
        options, rules = options.take(matching), [Begins(target, ends=True)]
        found = self._translations(source, options, rules, 1, beam_size)
        for wider in (1, 10) if not found else ():
            options = options.joined(*(made_up_for(target, source.size) if wider == 1 else ()))
            found = found or self._translations(source, options, rules, 1, wider * beam_size)
        return found[0] if found else None

    def _words_of(self, source_ids):
        ids = [i for i in source_ids if i not in (self.pad_id, self.eos_id)]
        return np.asarray(ids, np.int64)

    def _options(self, source):
        if self._read is None:
            self.freeze()
        return options_of(
            self._read[0], source, self.settings["max_phrase_length"], self.unknown_id
        )

    def _translations(self, source, options, rules, n_best, beam_size):
        """Returns up to `n_best` different translations of `[S]` source words."""
        if not source.size:
            return []
        unlimited = beam_size == UNLIMITED
        search = StackSearch(
            options,
            source.size,
            language=self._read[1],
            order=self.settings["order"],
            weights=np.asarray(self.feature_weights, np.float64),
            bos_id=self.bos_id,
            eos_id=self.eos_id,
            limits=Limits(
                beam_size,
                UNLIMITED if unlimited else _EXTENSIONS * beam_size,
                self.settings["distortion_limit"],
            ),
            rules=rules,
        )
        found = {}
        derivations = search.run(keeps_arcs=n_best > 1)
        for derivation in itertools.islice(derivations, _MOST_TRIED * n_best):
            ids = _ids(options, derivation)
            found.setdefault(tuple(ids), derivation)
            if len(found) == n_best:
                break
        return self._described(found, options, source.size)

    def _described(self, found, options, num_source):
        """Returns the `PhraseTranslation` of each text -> `Derivation`."""
        spoken = self._language_scores(list(found))
        return [
            PhraseTranslation(
                [*ids, self.eos_id],
                derivation.score,
                list(_phrases(options, derivation)),
                self._features(options, derivation, num_source, log_prob),
            )
            for (ids, derivation), log_prob in zip(found.items(), spoken, strict=True)
        ]

    def _language_scores(self, texts):
        """Returns log P(text) for lists of ids without `</s>`."""
        _, language = self._read
        lengths = np.array([len(ids) + 1 for ids in texts], np.int64)
        states = np.full(lengths.size, language.start(self.bos_id))
        totals = np.zeros(lengths.size)
        words = np.full((lengths.size, int(lengths.max(initial=0))), self.eos_id)
        for row, ids in zip(words, texts, strict=True):
            row[: len(ids)] = ids
        for place in range(words.shape[1]):
            here = np.flatnonzero(place < lengths)
            log_probs, states[here] = language.follow(states[here], words[here, place])
            totals[here] += log_probs
        return totals

    def _features(self, options, derivation, num_source, language):
        rows = np.array(derivation.options)
        result = options.features[rows].sum(axis=0)
        result[LANGUAGE] = language
        starts, ends = options.starts[rows], options.ends[rows]
        last_ends, last_starts = np.append(0, ends), np.append(-1, starts)
        next_starts, next_ends = np.append(starts, num_source), np.append(ends, -2)
        result[DISTORTION] = -np.abs(starts - last_ends[:-1]).sum()
        kinds = np.where(
            next_starts == last_ends, 0, np.where(next_ends == last_starts, 1, 2)
        )
        table = options.orientations[rows]
        result[BEFORE] += np.bincount(
            kinds[:-1], table[np.arange(rows.size), kinds[:-1]], minlength=3
        )
        result[BEHIND] += np.bincount(
            kinds[1:], table[np.arange(rows.size), 3 + kinds[1:]], minlength=3
        )
        return result

    # The interface

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Scores given translations, `[B, T]` float32; the sum of a row is the score of its best
        derivation, all of it at the final `</s>`.
        """
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        result = np.zeros(target_ids.shape, np.float32)
        for row, source, target in zip(result, source_ids, target_ids, strict=True):
            found = self.explain(source.tolist(), target.tolist())
            last = int(np.argmax(target == self.eos_id))
            row[last] = IMPOSSIBLE if found is None else found.score
        return ops.convert_to_tensor(result)

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the links inside the phrases of the best derivation of given translations.

        As `TranslationModel.align`. A word without links belongs to `</s>`; links of a word share
        its weight.
        """
        source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
        mask = np.asarray(padding_mask(source_ids, self.pad_id))
        result = np.zeros((*target_ids.shape, source_ids.shape[1]), np.float32)
        for row, (source, target) in enumerate(zip(source_ids, target_ids, strict=True)):
            found = self.explain(source.tolist(), target.tolist())
            for i, j in links_of(found.phrases) if found else ():
                result[row, j, i] = 1
            end = int(mask[row].sum()) - 1
            real = target != self.pad_id
            result[row, real & ~result[row].any(axis=1), end] = 1
        total = result.sum(axis=-1, keepdims=True)
        return ops.convert_to_tensor(result / np.maximum(total, 1))

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns no map: there is no attention."""
        return {}


def links_of(phrases: Sequence[tuple]) -> Iterator[tuple[int, int]]:
    """Yields the links (source word, target word) of `PhraseTranslation.phrases`."""
    for start, end, first, last, bits in phrases:
        for i in range(end - start):
            for j in range(last - first):
                if bits >> (7 * i + j) & 1:
                    yield start + i, first + j


def _padded_text(target):
    return np.append(np.asarray(target, np.int64), np.full(LONGEST, NOTHING - 1))


def _ids(options: Options, derivation: Derivation):
    """Returns the target words of a derivation."""
    rows = derivation.options
    words, lengths = options.words[rows], options.lengths[rows]
    return words[np.arange(LONGEST) < lengths[:, None]].tolist()


def _phrases(options, derivation):
    """Yields the phrases of a derivation, as in `PhraseTranslation`."""
    first = 0
    for row in derivation.options:
        last = first + int(options.lengths[row])
        span = int(options.starts[row]), int(options.ends[row])
        yield *span, first, last, int(options.links[row])
        first = last
