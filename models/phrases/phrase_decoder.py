"""Translates sentences with a phrase table and a language model, by NumPy alone."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from nmt_zoo.models.phrases.arrays import joined, take
from nmt_zoo.models.phrases.sentence_options import (
    BEFORE,
    BEHIND,
    DISTORTION,
    FEATURES,
    LONGEST,
    NOTHING,
    made_up_for,
    options_of,
)
from nmt_zoo.models.phrases.stack_search import StackSearch, padded_text
from nmt_zoo.models.phrases.table_decoder import BEAM_SIZE, Phrase, TableDecoder, links_of


@dataclass(eq=False)
class PhraseDecoder(TableDecoder):
    """The search of `table_model.PhraseModel`."""

    distortion_limit: int  # as of `PhraseModel`

    def _search(self, texts, n_best, beam_size):
        options = [self._options(text) for text in texts]
        return self._translations(texts, options, n_best, beam_size)

    def _explain(self, words, target):
        options, text = self._options(words), padded_text(target)
        matching = np.zeros(options.starts.size, bool)
        for first in range(len(target)):
            window = text[first : first + LONGEST]
            matching |= ((options.words == NOTHING) | (options.words == window)).all(axis=1)
        options = take(options, matching)
        free = joined(options, *made_up_for(target, words.size))
        for choice, size in ((options, BEAM_SIZE), (free, BEAM_SIZE), (free, 10 * BEAM_SIZE)):
            if choice.lengths.size:
                (translations,) = self._translations([words], [choice], 1, size, text=target)
                if translations:
                    return translations[0]
        return None

    def _options(self, words):
        return options_of(self.table, words, self.max_phrase_length, self.unknown_id)

    def _translations(self, texts, options, n_best, beam_size, text=None):
        search = StackSearch(
            options,
            [words.size for words in texts],
            language=self.language,
            weights=self.weights,
            eos_id=self.eos_id,
            beam_size=beam_size,
            distortion_limit=self.distortion_limit,
            text=text,
        )
        return [
            self._described(
                derivations, self._features(own, derivations, words.size), partial(_phrases, own)
            )
            for own, words, derivations in zip(options, texts, search.run(n_best), strict=True)
        ]

    def _features(self, options, derivations, num_source):
        """Returns the features of derivations, `[n, len(FEATURES)]`, but the language model's."""
        sizes = np.array([len(derivation.edges) for derivation in derivations], np.int64)
        result = np.zeros((sizes.size, len(FEATURES)))
        if not sizes.size:
            return result
        rows = np.array([row for derivation in derivations for row in derivation.edges], np.int64)
        which, ends = np.repeat(np.arange(sizes.size), sizes), np.cumsum(sizes)
        np.add.at(result, which, options.features[rows])
        starts, stops = options.starts[rows], options.ends[rows]
        is_first, is_last = np.zeros((2, rows.size), bool)
        is_first[ends - sizes] = is_last[ends - 1] = True
        last_stops = np.where(is_first, 0, np.roll(stops, 1))
        last_starts = np.where(is_first, -1, np.roll(starts, 1))
        np.add.at(result[:, DISTORTION], which, -np.abs(starts - last_stops))
        before = np.where(starts == last_stops, 0, np.where(stops == last_starts, 1, 2))
        at_end = np.where(stops == num_source, 0, 2)
        behind = np.where(is_last, at_end, np.roll(before, -1))
        for kinds, table, columns in (
            (before, options.orientations[rows, :3], BEFORE),
            (behind, options.orientations[rows, 3:], BEHIND),
        ):
            values = table[np.arange(rows.size), kinds]
            np.add.at(result[:, columns], (which, kinds), values)
        return result


def _phrases(options, derivation):
    phrases, first = [], 0
    for row in derivation.edges:
        last = first + int(options.lengths[row])
        source = list(range(int(options.starts[row]), int(options.ends[row])))
        target = list(range(first, last))
        phrases.append(Phrase(source, target, links_of(int(options.links[row]), source, target)))
        first = last
    return phrases
