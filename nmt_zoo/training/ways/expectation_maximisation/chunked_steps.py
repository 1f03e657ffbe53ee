"""Iterations over a text in chunks: expectation maximisation, and collapsed variational inference.

An iteration reads each chunk once and adds up what the chunks count. Counts of each chunk are
float64 sums; those of the whole text are float32.
"""

from collections.abc import Callable

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation import collapsed, iteration
from nmt_zoo.training.ways.expectation_maximisation.agreement import expect_directions
from nmt_zoo.training.ways.expectation_maximisation.chain import Stage
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText, Direction, Part
from nmt_zoo.training.ways.expectation_maximisation.collapsed import Collapsed
from nmt_zoo.training.ways.expectation_maximisation.iteration import Estimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    PositionEstimate,
    UniformEstimate,
)


class Sums:
    """What the chunks of one direction add up to.

    `counts` is `[P]` float32, expected counts of all word pairs without a prior; `statistics` is
    for `positions.maximise`.
    """

    def __init__(self, direction: Direction, positions: PositionEstimate):
        self.counts = np.zeros(direction.rows.num_pairs, np.float32)
        self.positions = positions
        self.statistics, self.log_likelihood = [], 0.0

    def add(self, part: Part, counts: np.ndarray, statistics: list, log_likelihood: float) -> None:
        self.counts[part.numbers] += counts
        self.statistics = self.positions.merged([*self.statistics, *statistics])
        self.log_likelihood += log_likelihood


def summed(text: ChunkedText, positions: list, work: Callable) -> list[Sums]:
    """Adds up what `work`, called as by `ChunkedText.each`, returns for each chunk.

    `work` returns a tuple for `Sums.add` in each direction. `positions` lists the position model of
    each direction.
    """
    sums = [Sums(*both) for both in zip(text.directions, positions, strict=True)]
    for results in text.each(work):
        for total, result in zip(sums, results, strict=True):
            total.add(*result)
    return sums


class ChunkedTraining:
    """Training on a text in chunks, in one direction or in two that are to agree.

    `alpha` is as `iteration.maximise_translation`. The attribute `positions` lists the position
    model of each direction for the next step.
    """

    def __init__(self, text: ChunkedText, alpha: float):
        self._text, self._alpha = text, alpha
        self._fertile = False
        self.positions = [UniformEstimate()] * len(text.directions)

    def begin(self, stage: Stage) -> None:
        """Continues with the model of a stage."""
        self._fertile = stage.fertile
        if stage.positions is not None:
            self.positions = [stage.positions] * len(self._text.directions)

    def step(self) -> list[float]:
        """Makes one iteration; returns the log-likelihood of each direction before it."""
        raise NotImplementedError

    def posteriors(self, number: int, parts: list[Part]) -> list[np.ndarray]:
        """Returns the posteriors `[cells]` of each direction of a chunk, which has this number."""
        raise NotImplementedError

    def _maximise_positions(self, sums):
        self.positions = [total.positions.maximise(total.statistics) for total in sums]
        return [total.log_likelihood for total in sums]


class ExpectationMaximisationText(ChunkedTraining):
    """Expectation maximisation; at first, all target words are equally probable.

    `smoothing` is as `iteration.spread_missing`. The attribute `tables` lists `[P]` float32,
    t(target word | source word), of each direction.
    """

    def __init__(self, text: ChunkedText, alpha: float, smoothing: float):
        super().__init__(text, alpha)
        self._smoothing = smoothing
        self.tables = [
            np.full(d.rows.num_pairs, 1 / max(d.vocab_sizes[1] - 1, 1), np.float32)
            for d in text.directions
        ]

    def _estimates(self, parts):
        tables = [t[p.numbers].astype(np.float64) for p, t in zip(parts, self.tables, strict=True)]
        return list(map(Estimate, tables, self.positions))

    def step(self) -> list[float]:
        def work(_, parts):
            cells = [part.cells for part in parts]
            found = expect_directions(cells, self._estimates(parts), threads=1)
            return [
                (part, each.counts, model.merged(each.statistics), each.log_likelihood)
                for part, each, model in zip(parts, found, self.positions, strict=True)
            ]

        sums = summed(self._text, self.positions, work)
        for direction, total in zip(self._text.directions, sums, strict=True):
            self._maximise(direction, total.counts)
        self.tables = [total.counts for total in sums]
        return self._maximise_positions(sums)

    def _maximise(self, direction, table):

        def change(pairs, _, rows):
            new = iteration.maximise_translation(rows, table[pairs].astype(np.float64), self._alpha)
            table[pairs] = iteration.spread_missing(
                rows, new, direction.vocab_sizes[1], self._smoothing
            )

        direction.for_rows(change)

    def posteriors(self, number: int, parts: list[Part]) -> list[np.ndarray]:
        results = []
        for part, estimate in zip(parts, self._estimates(parts), strict=True):
            translation = iteration.translation_of(part.cells, estimate)
            given = part.cells, estimate.positions, translation
            results.append(iteration.posteriors_of(*given, threads=1, dtype=np.float64)[0])
        return results


class CollapsedText(ChunkedTraining):
    """Collapsed variational inference; at first, target words link to all source positions alike.

    The file of the text gets the posteriors. `alpha` is above 0. The attribute `counts` lists the
    `[P]` float32 counts of each direction, without the prior.
    """

    def __init__(self, text: ChunkedText, alpha: float):
        super().__init__(text, alpha)
        self._places = {}  # Number of a chunk -> (posteriors, counted) of each direction.

        def work(number, parts):
            states = [collapsed.first_collapsed(part.cells) for part in parts]
            self._places[number] = [tuple(map(text.file.add, state[:2])) for state in states]
            return _results(parts, states, [()] * len(parts))

        self.counts = [total.counts for total in summed(text, self.positions, work)]

    def _read(self, number):
        both = zip(self._places[number], self.positions, strict=True)
        return [Collapsed(*map(self._text.file.read, places), model) for places, model in both]

    def _write(self, number, states):
        for places, state in zip(self._places[number], states, strict=True):
            for place, values in zip(places, state[:2], strict=True):
                self._text.file.write(place, values)

    def posteriors(self, number: int, parts: list[Part]) -> list[np.ndarray]:
        return [state.posteriors for state in self._read(number)]

    def step(self) -> list[float]:
        sides = range(len(self.counts))
        ratios = self._log_ratios() if self._fertile else [None for _ in sides]
        totals = list(map(self._totals, self._text.directions, self.counts))

        def known(side, part):
            return collapsed.Known(
                self.counts[side][part.numbers] + np.float64(self._alpha),
                totals[side][part.source_words],
                ratios[side][:, part.source_words] if self._fertile else None,
            )

        def work(number, parts):
            cells = [part.cells for part in parts]
            found = [
                collapsed.new_posteriors(part.cells, state, known(side, part), threads=1)
                for side, part, state in zip(sides, parts, self._read(number), strict=True)
            ]
            states = collapsed.agree(cells, [state for state, _ in found], threads=1)
            self._write(number, states)
            return _results(parts, states, [statistics for _, statistics in found])

        sums = summed(self._text, self.positions, work)
        self.counts = [total.counts for total in sums]
        return self._maximise_positions(sums)

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
            both = zip(parts, self.posteriors(number, parts), strict=True)
            return [
                (part.source_words, collapsed.expected_fertilities(part.cells, posteriors, 1))
                for part, posteriors in both
            ]

        sums = [np.zeros([collapsed.MOST + 1, d.vocab_sizes[0]]) for d in self._text.directions]
        for results in self._text.each(work):
            for total, (words, found) in zip(sums, results, strict=True):
                total[:, words] += found
        return [collapsed.log_ratios(total) for total in sums]


def _results(parts, states, statistics):
    """Returns what `Sums.add` takes of each `chunks.Part` and its new `Collapsed`."""
    results = []
    for part, state, found in zip(parts, states, statistics, strict=True):
        counts = collapsed.count_links(part.cells, state.counted, threads=1)
        results.append((part, counts, state.positions.merged(found), state.log_likelihood))
    return results
