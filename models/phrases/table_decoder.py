"""What the searches with a table of phrases or rules and a language model have in common."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from nmt_zoo.models.phrases.forest import Derivation
from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.sentence_options import LANGUAGE, LONGEST, PhraseTable

BEAM_SIZE = 100  # Hypotheses that are followed for each number of translated words.
EVERY = sys.maxsize  # The size of a beam that finds the best derivation of all.


class Phrase(NamedTuple):
    """A phrase pair, or a rule, at its place in a translation; words are numbered from 0."""

    source: list  # of int, its source words; without those in its gaps
    target: list  # of int, its target words
    links: list  # of (source word, target word)
    parent: int = -1  # number of the rule in whose gap it is; -1: none


class PhraseTranslation(NamedTuple):
    """A translation of a sentence, and the phrases that it is made of."""

    ids: list  # of int, with `</s>`
    score: float  # weighted sum of the features
    features: np.ndarray  # `[F]`
    read: Callable[[], list]  # makes `phrases`, which few translations of many are asked for

    @property
    def phrases(self) -> list[Phrase]:
        """Its phrases, those without gaps in the order of the target."""
        return self.read()

    def words(self, source: Sequence, unknown_id: int) -> list:
        """Returns its ids without `</s>`, and for each unknown word the source word linked with it.

        Without a link, it is the first source word of its phrase. `source` are the words of the
        source, of any kind.
        """
        if unknown_id not in self.ids:
            return self.ids[:-1]
        linked = {target: phrase.source[0] for phrase in self.phrases for target in phrase.target}
        linked |= {target: position for phrase in self.phrases for position, target in phrase.links}
        return [
            source[linked[position]] if word == unknown_id and position in linked else word
            for position, word in enumerate(self.ids[:-1])
        ]


@dataclass(eq=False)
class TableDecoder:
    """A search for translations."""

    table: PhraseTable
    language: LanguageStates
    weights: np.ndarray  # [F] float64, of the features
    max_phrase_length: int  # as of `table_model.TableModel`
    eos_id: int
    unknown_id: int

    def search(
        self, sources: Sequence[Sequence[int]], *, n_best: int = 1, beam_size: int = BEAM_SIZE
    ) -> list[list[PhraseTranslation]]:
        """Finds the best translations of each of some sentences.

        Args:
            sources: for each sentence its ids, with or without the final `</s>`.
            n_best: most different translations of a sentence to return, the best first.
            beam_size: hypotheses that are followed, at least 1; or `EVERY`.
        Returns:
            An empty list for a sentence without words.
        """
        words = [self._words_of(source) for source in sources]
        texts = [text for text in words if text.size]
        translations = iter(self._search(texts, n_best, beam_size) if texts else [])
        return [next(translations) if text.size else [] for text in words]

    def _search(self, texts, n_best, beam_size):
        """As `search`, of sentences `[S]` int64 that have words."""
        raise NotImplementedError

    def explain(self, source: Sequence[int], target: Sequence[int]) -> PhraseTranslation | None:
        """Finds the best derivation of a given translation.

        Where the table has no way to it, words are translated as they are needed, at the price of
        unknown words. Returns None if one side is empty and the other is not, or if one has more
        than seven times as many words as the other.
        """
        words, target = self._words_of(source), list(target)
        target = target[: target.index(self.eos_id)] if self.eos_id in target else target
        if words.size and target:
            return self._explain(words, target)
        if words.size or target:
            return None
        return PhraseTranslation([self.eos_id], 0.0, np.zeros(self.weights.size), list)

    def _explain(self, words, target):
        """As `explain`, of a sentence `[S]` int64 and a translation that both have words."""
        raise NotImplementedError

    def _described(self, derivations: Sequence[Derivation], features, phrases):
        """Returns the `PhraseTranslation` of each derivation.

        `features` lack the language model's; `phrases` is a function of a derivation.
        """
        features[:, LANGUAGE] = self._language_scores([d.words for d in derivations])
        return [
            PhraseTranslation([*d.words, self.eos_id], d.score, row, partial(phrases, d))
            for d, row in zip(derivations, features, strict=True)
        ]

    def _words_of(self, source):
        source = [i for i in source if i != self.eos_id]
        return np.asarray(source, np.int64)

    def _language_scores(self, texts):
        """Returns log P(text) for lists of ids without `</s>`."""
        lengths = np.array([len(ids) + 1 for ids in texts], np.int64)
        states = np.full(lengths.size, self.language.start)
        totals = np.zeros(lengths.size)
        words = np.full((lengths.size, int(lengths.max(initial=0))), self.eos_id)
        for row, ids in zip(words, texts, strict=True):
            row[: len(ids)] = ids
        for column in range(words.shape[1]):
            rows = np.flatnonzero(column < lengths)
            log_probs, states[rows] = self.language.follow(states[rows], words[rows, column])
            totals[rows] += log_probs
        return totals


def links_of(bits: int, source: Sequence[int], target: Sequence[int]) -> list:
    """Returns the links (source word, target word) of a phrase pair that are stored as bits.

    `source` and `target` are the places of its symbols in the sentences.
    """
    links = []
    while bits:
        row, column = divmod((bits & -bits).bit_length() - 1, LONGEST)
        links.append((source[row], target[column]))
        bits &= bits - 1
    return links
