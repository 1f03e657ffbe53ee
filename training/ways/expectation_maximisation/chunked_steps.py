"""Iterations over a text in chunks: expectation maximisation, and collapsed variational inference.

An iteration reads each chunk once and adds up what the chunks count. Counts of each chunk are
float64 sums; those of the whole text are float32.
"""

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.agreement import expect_agreeing
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    MOST,
    Collapsed,
    Known,
    agree,
    count,
    expected_fertilities,
    first_collapsed,
    log_ratios,
    new_posteriors,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    Estimate,
    expect,
    maximise_translation,
    spread_missing,
)
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import Uniform


class Sums:
    """What the chunks of one direction add up to.

    Args:
        direction: `chunks.Direction`.
        positions: position model of the iteration.

    Attributes:
        counts: `[P]` float32, expected counts of all word pairs, without a prior.
        positions: as given.
        statistics: list, for `positions.maximise`.
        log_likelihood: float.
    """

    def __init__(self, direction, positions):
        self.counts = np.zeros(direction.rows.num_pairs, np.float32)
        self.positions = positions
        self.statistics, self.log_likelihood = [], 0.0

    def add(self, part, counts, statistics, log_likelihood):
        """Adds what one `chunks.Part` has."""
        self.counts[part.numbers] += counts
        self.statistics = self.positions.merged([*self.statistics, *statistics])
        self.log_likelihood += log_likelihood


def summed(text, positions, work):
    """Adds up what `work` returns for each chunk, a tuple for `Sums.add` in each direction.

    Args:
        text: `chunks.ChunkedText`.
        positions: list of the position model of each direction.
        work: as `ChunkedText.each`.

    Returns:
        List of the `Sums` of each direction.
    """
    sums = [Sums(*both) for both in zip(text.directions, positions, strict=True)]
    for results in text.each(work):
        for total, result in zip(sums, results, strict=True):
            total.add(*result)
    return sums


def first_estimates(text):
    """Makes the `Estimate` of each direction in which all target words are equally probable."""
    return [
        Estimate(np.full(d.rows.num_pairs, 1 / max(d.vocab_sizes[1] - 1, 1), np.float32))
        for d in text.directions
    ]


def part_estimate(part, estimate):
    """Returns the `Estimate` of a `chunks.Part` from that of the whole text."""
    translation = estimate.translation[part.numbers].astype(np.float64)
    return estimate._replace(translation=translation)


def em_step(text, estimates, *, alpha, smoothing):
    """Makes one step of expectation maximisation; two directions are trained to agree.

    Args:
        text: `chunks.ChunkedText`.
        estimates: list of the `Estimate` of each direction.
        alpha: as `training.ways.expectation_maximisation.iteration.em_step`.
        smoothing: as `training.ways.expectation_maximisation.iteration.spread_missing`.

    Returns:
        (list of new `Estimate`s, list of the log-likelihoods under the given ones).
    """

    positions = [estimate.positions for estimate in estimates]

    def work(_, parts):
        cells = [part.cells for part in parts]
        own = [part_estimate(*both) for both in zip(parts, estimates, strict=True)]
        if len(parts) > 1:
            found = expect_agreeing(cells, own, threads=1)
        else:
            found = [expect(*cells, *own, threads=1)]
        return [
            (part, each.counts, model.merged(each.statistics), each.log_likelihood)
            for part, each, model in zip(parts, found, positions, strict=True)
        ]

    sums = summed(text, positions, work)
    found = []
    for direction, total in zip(text.directions, sums, strict=True):

        def maximise(pairs, _, rows, table=total.counts, vocab_size=direction.vocab_sizes[1]):
            new = maximise_translation(rows, table[pairs].astype(np.float64), alpha)
            table[pairs] = spread_missing(rows, new, vocab_size, smoothing)

        direction.for_rows(maximise)
        found.append(Estimate(total.counts, total.positions.maximise(total.statistics)))
    return found, [total.log_likelihood for total in sums]


class CollapsedText:
    """Collapsed variational inference for a text, in one direction or in two that are to agree.

    At first, each target word links to all source positions alike.

    Args:
        text: `chunks.ChunkedText`, whose file gets the posteriors.
        alpha: as `training.ways.expectation_maximisation.collapsed.collapsed_step`.

    Attributes:
        positions: list of the position model of each direction, for the next step.
        counts: list of the `[P]` float32 counts of each direction, without the prior.
    """

    def __init__(self, text, alpha):
        self._text, self._alpha = text, alpha
        self._places = {}  # Number of a chunk -> (posteriors, counted) of each direction.
        self.positions = [Uniform()] * len(text.directions)

        def work(number, parts):
            states = [first_collapsed(part.cells) for part in parts]
            self._places[number] = [tuple(map(text.file.add, state[:2])) for state in states]
            return _results(parts, states, [()] * len(parts))

        self.counts = [total.counts for total in summed(text, self.positions, work)]

    def states(self, number):
        """Reads the `Collapsed` of each direction of a chunk."""
        both = zip(self._places[number], self.positions, strict=True)
        return [Collapsed(*map(self._text.file.read, places), model) for places, model in both]

    def _write(self, number, states):
        for places, state in zip(self._places[number], states, strict=True):
            for place, values in zip(places, state[:2], strict=True):
                self._text.file.write(place, values)

    def step(self, *, fertile=False):
        """Makes one iteration as `collapsed.collapsed_step` and, with two directions, `agree`.

        Returns:
            List of the log-likelihood of each direction, as `Collapsed.log_likelihood`.
        """
        ratios = self._log_ratios() if fertile else [None] * len(self.counts)
        totals = list(map(self._totals, self._text.directions, self.counts))

        def work(number, parts):
            states, statistics = [], []
            for side, (part, state) in enumerate(zip(parts, self.states(number), strict=True)):
                words = part.source_words
                known = Known(
                    self.counts[side][part.numbers] + np.float64(self._alpha),
                    totals[side][words],
                    ratios[side][:, words] if fertile else None,
                )
                both = new_posteriors(part.cells, state, known, threads=1)
                for values, found in zip((states, statistics), both, strict=True):
                    values.append(found)
            if len(parts) > 1:
                states = agree([part.cells for part in parts], states, threads=1)
            self._write(number, states)
            return _results(parts, states, statistics)

        sums = summed(self._text, self.positions, work)
        self.counts = [total.counts for total in sums]
        self.positions = [total.positions.maximise(total.statistics) for total in sums]
        return [total.log_likelihood for total in sums]

    def _totals(self, direction, counts):
        """Returns the sums of the counts with the prior, `[source ids]` float64."""
        totals = np.zeros(direction.vocab_sizes[0])

        def change(pairs, rows, own):
            sums = own.source_sums(counts[pairs] + np.float64(self._alpha))
            totals[direction.source_words[rows]] = sums

        direction.for_rows(change)
        return totals

    def _log_ratios(self):
        """Returns the `collapsed.log_ratios` of each direction, `[MOST + 1, source ids + 1]`."""

        def work(number, parts):
            both = zip(parts, self.states(number), strict=True)
            return [
                (part.source_words, expected_fertilities(part.cells, state.posteriors, 1))
                for part, state in both
            ]

        sums = [np.zeros([MOST + 1, d.vocab_sizes[0]]) for d in self._text.directions]
        for results in self._text.each(work):
            for total, (words, found) in zip(sums, results, strict=True):
                total[:, words] += found
        return [log_ratios(total) for total in sums]


def _results(parts, states, statistics):
    """Returns what `Sums.add` takes of each `chunks.Part` and its new `Collapsed`."""
    results = []
    for part, state, found in zip(parts, states, statistics, strict=True):
        counts = count(part.cells, state.counted, part.cells.blocks)
        results.append((part, counts, state.positions.merged(found), state.log_likelihood))
    return results
