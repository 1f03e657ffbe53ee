"""Translates sentences with rules that have gaps, by NumPy alone."""

from functools import partial

import numpy as np

from nmt_zoo.models.phrases.chart_search import ChartSearch
from nmt_zoo.models.phrases.contexts import LanguageContext, TargetContext
from nmt_zoo.models.phrases.rule_matches import FEATURES, GAPS, GLUE, matches_of, with_options
from nmt_zoo.models.phrases.sentence_options import LONGEST, made_up_for
from nmt_zoo.models.phrases.table_decoder import BEAM_SIZE, Phrase, TableDecoder, links_of


class RuleDecoder(TableDecoder):
    """The search of `table_model.RuleModel`."""

    def _search(self, texts, n_best, beam_size):
        table = matches_of(self.table, texts, self.max_phrase_length, self.unknown_id)
        context = LanguageContext(self.language, self.eos_id)
        return self._translations(*table, texts, context, n_best, beam_size)

    def _explain(self, words, target):
        context = TargetContext(target)
        table = matches_of(self.table, [words], self.max_phrase_length, self.unknown_id)
        free = ((0, option) for option in made_up_for(target, words.size))
        for rules, matches in (table, with_options(*table, free)):
            (translations,) = self._translations(rules, matches, [words], context, 1, BEAM_SIZE)
            if translations:
                score = float(translations[0].features @ self.weights)
                return translations[0]._replace(score=score)
        return None

    def _translations(self, rules, matches, texts, context, n_best, beam_size):
        search = ChartSearch(
            rules,
            matches,
            [text.size for text in texts],
            context=context,
            weights=self.weights,
            beam_size=beam_size,
        )
        results, phrases = [], partial(_phrases, rules, matches)
        for derivations in search.run(n_best):
            features = np.zeros((len(derivations), len(FEATURES)))
            for row, derivation in zip(features, derivations, strict=True):
                for application in derivation.edges:
                    if application.match < 0:
                        row[GLUE] -= 1
                    else:
                        row += rules.features[application.rule]
            results.append(self._described(derivations, features, phrases))
        return results


def _target(rules, applied):
    """Lists (number of the rule in `applied`, place in the rule) of each word of a derivation."""
    inner: list = [[] for _ in applied]
    for number, application in enumerate(applied[1:], start=1):
        inner[application.parent].append(number)
    words, waiting = [], [(0, -1)]  # Items without a place are rules.
    while waiting:
        number, position = waiting.pop()
        if position >= 0:
            words.append((number, position))
            continue
        rule = applied[number].rule
        symbols = GAPS if rule == rules.links.size else rules.symbols[rule].tolist()
        gaps = dict(zip(GAPS, inner[number], strict=False))
        items = [
            (gaps[symbol], -1) if symbol in gaps else (number, position)
            for position, symbol in enumerate(symbols)
            if symbol >= 0 or symbol in gaps
        ]
        waiting += reversed(items)
    return words


def _phrases(rules, matches, derivation):
    """Lists the `Phrase`s of a derivation, without the glue."""
    applied = derivation.edges
    targets: list = [[-1] * LONGEST for _ in applied]
    for position, (number, symbol) in enumerate(_target(rules, applied)):
        targets[number][symbol] = position
    phrases, numbers = [], {-1: -1}
    for number, application in enumerate(applied):
        if application.match < 0:
            numbers[number] = -1
            continue
        source, target = _source(matches, application.match), targets[number]
        numbers[number] = len(phrases)
        links = links_of(int(rules.links[application.rule]), source, target)
        words = ([position for position in side if position >= 0] for side in (source, target))
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
