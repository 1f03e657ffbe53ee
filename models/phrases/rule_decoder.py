"""Translates sentences with rules that have gaps, by NumPy alone."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from nmt_zoo.models.phrases.chart_search import UNLIMITED, ChartLimits, ChartSearch
from nmt_zoo.models.phrases.contexts import LanguageContext, TargetContext
from nmt_zoo.models.phrases.rule_matches import FEATURES, GAPS, GLUE, matches_of, with_options
from nmt_zoo.models.phrases.sentence_options import LANGUAGE, LONGEST, made_up_for
from nmt_zoo.models.phrases.table_decoder import (
    BEAM_SIZE,
    Phrase,
    PhraseTranslation,
    TableDecoder,
    links_of,
)

_SPAN_SHARE = 0.3  # Hypotheses of a span, for each one of the beam.
_COMBINATIONS = 2  # Scored by the language model, for each one of the beam.
_CORNER = 24


class RuleDecoder(TableDecoder):
    """The search of `rule_model.RuleModel`."""

    def search(
        self, sources: Sequence[Sequence[int]], *, n_best: int = 1, beam_size: int = BEAM_SIZE
    ) -> list[list[PhraseTranslation]]:
        """As `TableDecoder.search`."""
        words = [self._words_of(source) for source in sources]
        results: list = [[] for _ in words]
        rows = [row for row, sentence in enumerate(words) if sentence.size]
        if not rows:
            return results
        texts = [words[row] for row in rows]
        rules, matches = matches_of(self.arrays, texts, self.max_phrase_length, self.unknown_id)
        context = LanguageContext(self.language, self.order, self.bos_id, self.eos_id)
        by_sentence = self._derivations(rules, matches, texts, context, beam_size, n_best)
        for row, derivations in zip(rows, by_sentence, strict=True):
            results[row] = self._described(derivations, rules, matches)
        return results

    def _explain(self, words, target, beam_size):
        context = TargetContext(target)
        from_table = matches_of(self.arrays, [words], self.max_phrase_length, self.unknown_id)
        made = ((0, option) for option in made_up_for(target, words.size))
        for rules, matches in (from_table, with_options(*from_table, made)):
            (derivations,) = self._derivations(rules, matches, [words], context, beam_size, 1)
            if derivations:
                (translation,) = self._described(derivations, rules, matches)
                score = float(translation.features @ self.weights)
                return translation._replace(score=score)
        return None

    def _derivations(self, rules, matches, texts, context, beam_size, n_best):
        """Returns for each sentence its best derivations, as `ChartSearch.run`."""
        is_limited = beam_size != UNLIMITED
        limits = ChartLimits(
            max(int(_SPAN_SHARE * beam_size), 1) if is_limited else UNLIMITED,
            _COMBINATIONS * beam_size if is_limited else UNLIMITED,
            _CORNER if is_limited else UNLIMITED,
        )
        search = ChartSearch(
            rules,
            matches,
            [text.size for text in texts],
            context=context,
            weights=self.weights,
            limits=limits,
        )
        return search.run(n_best)

    def _described(self, derivations, rules, matches):
        """Returns the `PhraseTranslation` of each (derivation, its rules)."""
        features = np.zeros((len(derivations), len(FEATURES)))
        for row, (_, applied) in zip(features, derivations, strict=True):
            for one in applied:
                if one.match < 0:
                    row[GLUE] -= 1
                else:
                    row += rules.features[one.rule]
        if derivations:
            features[:, LANGUAGE] = self._language_scores([one.words for one, _ in derivations])
        return [
            PhraseTranslation(
                [*one.words, self.eos_id],
                one.score,
                row,
                partial(_phrases, rules, matches, applied),
            )
            for (one, applied), row in zip(derivations, features, strict=True)
        ]


def _target(rules, applied):
    """Lists (number of the rule in `applied`, place in the rule) of each word of a derivation."""
    inner: list = [[] for _ in applied]
    for number, application in enumerate(applied[1:], start=1):
        inner[application.parent].append(number)
    words, waiting = [], [(0, -1)]  # Items without a place are rules.
    while waiting:
        number, place = waiting.pop()
        if place >= 0:
            words.append((number, place))
            continue
        rule = applied[number].rule
        symbols = GAPS if rule == rules.links.size else rules.symbols[rule].tolist()
        gaps = dict(zip(GAPS, inner[number], strict=False))
        items = [
            (gaps[symbol], -1) if symbol in gaps else (number, place)
            for place, symbol in enumerate(symbols)
            if symbol >= 0 or symbol in gaps
        ]
        waiting += reversed(items)
    return words


def _phrases(rules, matches, applied):
    """Lists the `Phrase`s of a derivation, without the glue."""
    targets: list = [[-1] * LONGEST for _ in applied]
    for place, (number, symbol) in enumerate(_target(rules, applied)):
        targets[number][symbol] = place
    phrases, numbers = [], {-1: -1}
    for number, application in enumerate(applied):
        if application.match < 0:
            numbers[number] = -1
            continue
        source, target = _source(matches, application.match), targets[number]
        numbers[number] = len(phrases)
        links = links_of(int(rules.links[application.rule]), source, target)
        words = ([place for place in side if place >= 0] for side in (source, target))
        phrases.append(Phrase(*words, links, numbers[application.parent]))
    return phrases


def _source(matches, match):
    """Lists the places of the symbols of a source side; a gap has the place -1."""
    gaps = matches.gaps[match].tolist()
    behind = dict(zip(gaps[::2], gaps[1::2], strict=True))
    position, end, positions = int(matches.starts[match]), int(matches.ends[match]), []
    while position < end:
        positions.append(-1 if position in behind else position)
        position = behind.get(position, position + 1)
    return positions
