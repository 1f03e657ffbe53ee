"""Chart parsing: the best derivation of a sentence from rules with gaps.

Chiang 2007, "Hierarchical Phrase-Based Translation", section 5: the algorithm of Cocke, Younger and
Kasami, with a language model; combinations of a span are scored in the order of cube pruning. The
spans of equal length of all sentences are arrays of C combinations and H hypotheses.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.models.phrases.arrays import best_of_each, joined, recombined, take
from nmt_zoo.models.phrases.contexts import LanguageContext, TargetContext
from nmt_zoo.models.phrases.forest import Derivation, Forest
from nmt_zoo.models.phrases.rule_matches import FEATURES, GAPS, GLUE, Matches, Rules
from nmt_zoo.models.phrases.sentence_options import LANGUAGE, LONGEST, NOTHING
from nmt_zoo.models.phrases.table_decoder import EVERY

_SPAN_SHARE = 0.3  # Hypotheses of a span that are followed, for each one of the beam.
_COMBINATIONS = 2  # Of a span, scored by the language model, for each one of the beam.
_CORNER = 24  # Most product of the ranks, from 1, of a rule and what fills its gaps.
_START = 1  # The hypothesis of the start of every sentence; 0 is that of no words.


class Applied(NamedTuple):
    """A rule at a place of a derivation."""

    rule: int  # row of `Rules`; the glue rule is the last one
    match: int  # row of `Matches`; -1: glue
    parent: int  # number of the rule whose gap it fills; -1: none


class _Chart(NamedTuple):
    """Hypotheses."""

    cells: np.ndarray  # [H] int64
    statics: np.ndarray  # [H], weighted features, but that of the language model
    totals: np.ndarray  # [H]
    context: Any  # record of arrays `[H, ...]` of the context

    def rows(self, rows):
        arrays = (array[rows] for array in self[:3])
        return _Chart(*arrays, take(self.context, rows))


class ChartSearch:
    """The search for some sentences at once.

    Args:
        rules, matches: what may translate the spans of B sentences.
        lengths: for each sentence the number of its source words, at least 1.
        context: scores the words of hypotheses, or says which are allowed.
        weights: `[len(FEATURES)]` float64.
        beam_size: sets how many hypotheses are followed, see the constants above; or `EVERY`.
    """

    def __init__(
        self,
        rules: Rules,
        matches: Matches,
        lengths: Sequence[int],
        *,
        context: LanguageContext | TargetContext,
        weights: np.ndarray,
        beam_size: int,
    ) -> None:
        self.lengths, self.size = np.asarray(lengths, np.int64), max(lengths)
        self.context, self.weights, self.beam_size = context, weights, beam_size
        statics = rules.features @ weights
        guesses = statics + weights[LANGUAGE] * self._guessed(rules)
        order = np.lexsort((-guesses, rules.sources))  # Of each source side the best first.
        glue = np.zeros(len(FEATURES))
        glue[GLUE] = -1
        # The glue rule is the last one: its first gap is the sentence so far.
        self.symbols = np.full((order.size + 1, LONGEST), NOTHING)
        self.symbols[:-1], self.symbols[-1, 0] = rules.symbols[order], GAPS[1]
        self.statics = np.append(statics[order], glue @ weights)
        self.guesses = np.append(guesses[order], glue @ weights)
        self.numbers = np.append(order, order.size)
        self.matches = matches
        # Cells are the spans of each sentence, then for each of them those from its start.
        num_spans = self.lengths.size * (self.size + 1) ** 2
        num_cells = num_spans + self.lengths.size * (self.size + 1)
        self.first, self.counts = np.zeros((2, num_cells + 1), np.int64)
        self.no_cell, self.num_spans = num_cells, num_spans
        self.counts[-1] = 1  # The hypothesis of no words, which fills a gap that there is not.
        started = num_spans + np.arange(self.lengths.size) * (self.size + 1)
        self.first[started], self.counts[started] = _START, 1
        starts = joined(context.start(1), context.start_of_sentence())
        self.chart = _Chart(np.full(2, -1), np.zeros(2), np.zeros(2), starts)
        self.edges: list[tuple] = []

    def _guessed(self, rules):
        """Estimates the log-probabilities of the words of rules, whatever is in their gaps."""
        result = np.zeros(rules.links.size)
        spoken = self.context.start(result.size)
        for column in rules.symbols.T:
            rows = np.flatnonzero(column >= 0)
            self.context.add_words(spoken, rows, column[rows])
            gaps = np.isin(column, GAPS)
            result[gaps] += self.context.scores(spoken)[gaps]
            for array, new in zip(spoken, self.context.start(int(gaps.sum())), strict=True):
                array[gaps] = new
        return result + self.context.scores(spoken)

    def run(self, n_best: int) -> list[list[Derivation]]:
        """Searches; returns for each sentence up to `n_best` derivations, the best first.

        Their texts differ. Their edges are `Applied`; a rule comes before those in its gaps.
        """
        self.keeps_edges = n_best > 1
        self._fill_spans()
        self._fill_beginnings()
        return self._derivations(n_best)

    def _fill_spans(self):
        """Fills the cells of spans by the rules that match, the short ones first."""
        lengths = self.matches.ends - self.matches.starts
        for length in range(1, int(lengths.max(initial=0)) + 1):
            rows = np.flatnonzero(lengths == length)
            matches = take(self.matches, rows)
            left, right = (
                np.where(
                    matches.gaps[:, n] < 0,
                    self.no_cell,
                    self._cell(matches.sentences, matches.gaps[:, n], matches.gaps[:, n + 1]),
                )
                for n in (0, 2)
            )
            cells = self._cell(matches.sentences, matches.starts, matches.ends)
            self._fill(cells, rows, matches.first, matches.counts, left, right)

    def _fill_beginnings(self):
        """Fills the cells of beginnings of sentences by the glue rule, the short ones first."""
        width = self.size + 1
        for end in range(1, width):
            sentences = np.repeat(np.flatnonzero(self.lengths >= end), end)
            starts = np.tile(np.arange(end), sentences.size // end)
            before = self.num_spans + sentences * width + starts
            behind = self._cell(sentences, starts, np.full(starts.size, end))
            none, first, counts = np.full((3, starts.size), [[-1], [self.numbers.size - 1], [1]])
            cells = self.num_spans + sentences * width + end
            self._fill(cells, none, first, counts, before, behind, is_glue=True)

    def _cell(self, sentences, starts, ends):
        return (sentences * (self.size + 1) + starts) * (self.size + 1) + ends

    # Combinations

    def _fill(self, cells, matches, first, counts, left, right, *, is_glue=False):
        """Finds the hypotheses of cells, from rules `first` and so on, and what fills their gaps.

        All arrays have one number for each match: `left` and `right` are the cells of its gaps.
        """
        rows = np.flatnonzero((self.counts[left] > 0) & (self.counts[right] > 0))
        firsts = np.stack([first, self.first[left], self.first[right]], axis=1)[rows]
        counts = np.stack([counts, self.counts[left], self.counts[right]], axis=1)[rows]
        # Of the other matches of a cell, the best combination is not among the best.
        best = self._best(cells[rows], firsts)
        if not best.size:
            return
        which, ranks = self._corners(counts[best])
        rows, parts = rows[best][which], firsts[best][which] + ranks
        best = self._best(cells[rows], parts)
        rows, parts = rows[best], parts[best]
        self._choose(self._scored(cells[rows], parts, is_glue), matches[rows], parts)

    def _best(self, cells, parts):
        """Returns the best rows of each cell by estimates of combinations `[C, 3]`."""
        totals = self.chart.totals
        guesses = self.guesses[parts[:, 0]] + totals[parts[:, 1]] + totals[parts[:, 2]]
        return best_of_each(cells, guesses, _COMBINATIONS * self.beam_size)

    def _corners(self, counts):
        """Returns (match of each combination, ranks of its rule and of what fills the gaps).

        The ranks are `[C, 3]`, from 0.
        """
        combinations = []
        num_gaps = (counts[:, 1:] > 1).sum(axis=1)
        for number in range(3):
            rows = np.flatnonzero(num_gaps == number)
            if not rows.size:
                continue
            grid = np.indices(counts[rows].max(axis=0)).reshape(3, -1).T
            if self.beam_size < EVERY:
                grid = grid[np.prod(grid + 1, axis=1) <= _CORNER]
            which, rank = np.nonzero((grid < counts[rows, None]).all(axis=2))
            combinations.append((rows[which], grid[rank]))
        return tuple(map(np.concatenate, zip(*combinations, strict=True)))

    def _scored(self, cells, parts, is_glue):
        """Returns combinations as hypotheses: rows of a rule and of two hypotheses, `[C, 3]`."""
        rules, left, right = parts.T
        inner = [self.chart.rows(rows) for rows in (left, right)]
        spoken = inner[0].context if is_glue else self.context.start(rules.size)
        for column in self.symbols[rules].T:
            if (column == NOTHING).all():
                break
            places = np.flatnonzero(column >= 0)
            self.context.add_words(spoken, places, column[places])
            for symbol, hypotheses in zip(GAPS, inner, strict=True):
                places = np.flatnonzero(column == symbol)
                if places.size:
                    self.context.add(spoken, places, take(hypotheses.context, places))
        statics = self.statics[rules] + inner[0].statics + inner[1].statics
        totals = statics + self.weights[LANGUAGE] * self.context.scores(spoken)
        return _Chart(cells, statics, totals, spoken)

    def _choose(self, hypotheses, matches, parts):
        """Recombines equal hypotheses, and adds the best of each cell to the chart."""
        fits = np.flatnonzero(self.context.fits(hypotheses.context))
        hypotheses, matches, parts = hypotheses.rows(fits), matches[fits], parts[fits]
        cells, totals = hypotheses.cells, hypotheses.totals
        most = max(int(_SPAN_SHARE * self.beam_size), 1)
        keys = self.context.keys(hypotheses.context)
        best, heads = recombined(cells, keys, totals, most)
        rows = np.flatnonzero(heads >= 0) if self.keeps_edges else np.sort(best)
        heads = heads[rows] + self.chart.totals.size
        self.edges.append((heads, totals[rows], matches[rows], parts[rows]))
        new = hypotheses.rows(best)
        cells, firsts, counts = np.unique(new.cells, return_index=True, return_counts=True)
        self.first[cells], self.counts[cells] = firsts + self.chart.totals.size, counts
        arrays = map(np.concatenate, zip(self.chart[:3], new[:3], strict=True))
        self.chart = _Chart(*arrays, joined(self.chart.context, new.context))

    # The end

    def _derivations(self, n_best):
        none = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 3), np.int64)
        heads, scores, matches, parts = map(np.concatenate, zip(none, *self.edges, strict=True))
        rules, children = parts[:, 0], parts[:, 1:]

        sides: dict[int, list] = {}  # Rule -> its target side.

        def spell(edge, inner):
            if matches.item(edge) < 0:
                return inner[0] + inner[1]
            rule = rules.item(edge)
            if rule not in sides:
                row = self.symbols[rule]
                sides[rule] = row[row != NOTHING].tolist()
            words: list = []
            for symbol in sides[rule]:
                if symbol >= 0:
                    words.append(symbol)
                else:
                    words += inner[GAPS.index(symbol)]
            return tuple(words)

        forest = Forest(heads, scores, children, self._ends(), spell)
        results = []
        for sentence in range(self.lengths.size):
            derivations = forest.best(sentence, n_best)
            edges = [np.array(derivation.edges) for derivation in derivations]
            applied = (_applied(self.numbers[rules[e]], matches[e], children[e]) for e in edges)
            pairs = zip(derivations, applied, strict=True)
            results.append([derivation._replace(edges=list_) for derivation, list_ in pairs])
        return results

    def _ends(self):
        """Returns for each sentence (score, number) of its complete hypotheses."""
        cells = self.num_spans + np.arange(self.lengths.size) * (self.size + 1) + self.lengths
        ends = []
        for first, count in zip(self.first[cells], self.counts[cells], strict=True):
            rows = np.arange(first, first + count)
            after = self.context.ends(take(self.chart.context, rows))
            can_end = np.isfinite(after)
            totals = self.chart.totals[rows[can_end]] + self.weights[LANGUAGE] * after[can_end]
            ends.append(list(zip(totals.tolist(), rows[can_end].tolist(), strict=True)))
        return ends


def _applied(rules, matches, children):
    """Lists the rules of a derivation, whose edges have these rules, matches and children."""
    applied: list[Applied] = []
    parents = [-1]
    counts = (children > _START).sum(axis=1).tolist()
    for rule, match, count in zip(rules.tolist(), matches.tolist(), counts, strict=True):
        parent = parents.pop()
        parents += [len(applied)] * count
        applied.append(Applied(rule, match, parent))
    return applied
