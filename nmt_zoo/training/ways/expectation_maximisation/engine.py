"""Iterations over a text in chunks: expectation maximisation, and collapsed variational inference.

An iteration reads each chunk once and adds up what the chunks count.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.training.ways.expectation_maximisation import collapsed
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    agreeing_posteriors,
    count_links,
    maximise_translation,
    posteriors_of,
    table_values,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    PositionEstimate,
    UniformEstimate,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import SentencePairs


class Stage(NamedTuple):
    """A model of a chain."""

    name: str  # as it is printed
    positions: PositionEstimate | None  # to begin with; None: from the stage before
    fertile: bool = False  # whether source words have fertilities


# Model 1 comes first because it has a single optimum, so that starting from its table makes a
# richer model less sensitive to initialisation.
MODEL_1 = Stage("Model 1", UniformEstimate())
MODEL_2 = Stage("Model 2", DiagonalEstimate())
HMM = Stage("HMM", JumpsEstimate.first())
HMM_BEFORE_FERTILITIES = Stage("HMM", JumpsEstimate.first(null_probability=0.08))
FERTILITIES = Stage("HMM with fertilities", None, fertile=True)


class Engine:
    """Training on a text in one direction, or in two that are to agree.

    `alpha` is the Dirichlet prior of `iteration.maximise_translation`; `dtype` is that of arrays
    with a number for each word pair of the text. Sums over a chunk are float64.

    Attributes:
        iteration: iterations made so far.
        positions: the position model of each direction for the next iteration.
        tables: `[P]` of each direction, what the iterations have made of the word pairs.
        link_kinds: names of the arrays with a number for each cell that the engine keeps.
    """

    link_kinds: tuple[str, ...] = ()
    _posteriors_dtype: type = np.float64

    def __init__(self, text: ChunkedText, alpha: float, *, dtype: type = np.float32):
        self.text, self.alpha, self.dtype = text, alpha, dtype
        self.iteration, self._fertile = 0, False
        self.positions = [UniformEstimate()] * len(text.directions)
        self.set_tables(self._first_tables())

    def begin(self, stage: Stage) -> None:
        """Continues with the model of a stage."""
        self._fertile = stage.fertile
        if stage.positions is not None:
            self.positions = [stage.positions] * len(self.text.directions)

    def step(self) -> list[float]:
        """Makes one iteration; returns the log-likelihood of each direction before it.

        Without a prior, the log-likelihood of a single direction never falls from one iteration of
        expectation maximisation to the next; an iteration of two directions may lower both. The
        position models learn from the posteriors of their own direction.
        """

        def work(number, parts):
            posteriors, statistics, log_likelihoods = self._expected(number, parts)
            counted = agreeing_posteriors(parts, posteriors)
            self._keep(number, posteriors, counted)
            counts = map(count_links, parts, counted)
            merged = (m.merged(s) for m, s in zip(self.positions, statistics, strict=True))
            numbers = (part.numbers for part in parts)
            return list(zip(numbers, counts, merged, log_likelihoods, strict=True))

        self._before()
        tables, positions = self._zeros(), range(len(self.positions))
        statistics, log_likelihoods = [[] for _ in positions], [0.0 for _ in positions]
        for results in self.text.each(work):
            for side, (numbers, counts, merged, log_likelihood) in enumerate(results):
                tables[side][numbers] += counts
                statistics[side] = self.positions[side].merged([*statistics[side], *merged])
                log_likelihoods[side] += log_likelihood
        self.iteration += 1
        self.positions = [m.maximise(s) for m, s in zip(self.positions, statistics, strict=True)]
        self.set_tables(list(map(self._maximised, self.text.directions, tables)))
        return log_likelihoods

    def _expected(self, number, parts):
        """Returns (posteriors, statistics, log-likelihoods) of the directions of a chunk."""
        expected = (
            posteriors_of(
                part, model, self._translation(number, side, part), self._posteriors_dtype
            )
            for side, (part, model) in enumerate(zip(parts, self.positions, strict=True))
        )
        return zip(*expected, strict=True)

    def set_tables(self, tables: list[np.ndarray]) -> None:
        """Sets the tables, and what follows from them."""
        self.tables = tables

    def posteriors(self, number: int, parts: Sequence[SentencePairs]) -> list[np.ndarray]:
        """Returns the posteriors `[cells]` of each direction of a chunk, which has this number."""
        raise NotImplementedError

    def translation(self, side: int) -> np.ndarray:
        """Returns t(target word | source word) of every word pair of a direction, `[P]`."""
        raise NotImplementedError

    def _first_tables(self):
        raise NotImplementedError

    def _before(self):
        """Finds what an iteration needs of the whole text."""

    def _translation(self, number, side, part):
        """Returns the function of a block for t of a direction of a chunk, its `SentencePairs`."""
        raise NotImplementedError

    def _maximised(self, direction, counts):
        """Returns the new table of a `Direction` by expected counts `[P]`, which it may change."""
        return counts

    def _keep(self, number, posteriors, counted):
        """Stores the posteriors `[cells]` of each direction of a chunk, and what is counted."""

    def _zeros(self):
        return [np.zeros(d.rows.num_pairs, self.dtype) for d in self.text.directions]


class EMEngine(Engine):
    """Expectation maximisation; at first, all target words are equally probable.

    Under a prior, an iteration divides the probability that rows lack evenly among all target
    words, as `models.layers.translation_table` does. As they are, half of a rare word's probability
    would be missing, and other source words or NULL would explain its translations. `smoothing`, in
    [0, 1), is divided even if nothing is missing, among `vocab_sizes` target words of each
    direction (None: those of the text). `tables` are t(target word | source word).
    """

    def __init__(
        self,
        text: ChunkedText,
        alpha: float,
        smoothing: float,
        *,
        vocab_sizes: Sequence[int] | None = None,
        dtype: type = np.float32,
    ):
        self._kept = 1 - smoothing
        self._vocab_sizes = vocab_sizes or [d.vocab_sizes[1] for d in text.directions]
        super().__init__(text, alpha, dtype=dtype)

    def _first_tables(self):
        return [
            np.full(d.rows.num_pairs, 1 / max(d.num_targets, 1), self.dtype)
            for d in self.text.directions
        ]

    def set_tables(self, tables: list[np.ndarray]) -> None:
        super().set_tables(tables)
        self._spread = []  # Of each direction, what every target word gets: [source ids].
        if self.alpha and self.iteration:
            sides = zip(self.text.directions, tables, self._vocab_sizes, strict=True)
            for direction, table, size in sides:
                sums = direction.row_sums(lambda pairs, _, t=table: t[pairs].astype(np.float64))
                self._spread.append((1 - self._kept * sums) / size)

    def _translation(self, number, side, part):
        table = self.tables[side][part.numbers].astype(np.float64)
        if self._spread:
            table = self._kept * table + part.spread(self._spread[side][part.source_words])
        return table_values(part, table)

    def _maximised(self, direction, counts):
        def maximise(pairs, rows):
            values = counts[pairs].astype(np.float64)
            counts[pairs] = maximise_translation(rows, values, self.alpha)
            return values

        direction.row_sums(maximise)
        return counts

    def posteriors(self, number: int, parts: Sequence[SentencePairs]) -> list[np.ndarray]:
        posteriors, _, _ = self._expected(number, parts)
        return list(posteriors)

    def translation(self, side: int) -> np.ndarray:
        return self.tables[side]


class LeaveOneOutEngine(Engine):
    """Collapsed variational inference; at first, target words link to all source positions alike.

    The file of the text gets the posteriors. `alpha` is above 0. `tables` are the expected counts
    of the word pairs, without the prior.
    """

    link_kinds = ("posteriors", "counted")
    _posteriors_dtype = np.float32

    def _first_tables(self):
        self._places = {}  # Number of a chunk -> for each direction, places of `link_kinds`.

        def work(number, parts):
            posteriors = list(map(collapsed.first_posteriors, parts))
            self._places[number] = [list(map(self.text.file.add, (p, p))) for p in posteriors]
            return list(map(count_links, parts, posteriors)), [part.numbers for part in parts]

        tables = self._zeros()
        for results in self.text.each(work):
            for table, counts, numbers in zip(tables, *results, strict=True):
                table[numbers] += counts
        return tables

    def links(self, side: int, kind: str) -> np.ndarray:
        """Returns the posteriors of a direction, or what is counted of them, `[cells]` float32."""
        return np.concatenate(list(map(self.text.file.read, self._places_of(side, kind))))

    def set_links(self, side: int, kind: str, values: np.ndarray) -> None:
        """Stores what `links` returns."""
        first = 0
        for place in self._places_of(side, kind):
            self.text.file.write(place, values[first : first + place.size])
            first += place.size

    def _places_of(self, side, kind):
        index = self.link_kinds.index(kind)
        return [self._places[number][side][index] for number in range(self.text.num_chunks)]

    def _keep(self, number, posteriors, counted):
        for places, *arrays in zip(self._places[number], posteriors, counted, strict=True):
            for place, values in zip(places, arrays, strict=True):
                self.text.file.write(place, values)

    def posteriors(self, number: int, parts: Sequence[SentencePairs]) -> list[np.ndarray]:
        return [self.text.file.read(place) for place, _ in self._places[number]]

    def set_tables(self, tables: list[np.ndarray]) -> None:
        super().set_tables(tables)
        self._totals = [  # Sums of the counts with the prior, [source ids].
            direction.row_sums(lambda pairs, _, side=side: self._with_prior(side, pairs))
            for side, direction in enumerate(self.text.directions)
        ]

    def _with_prior(self, side, pairs):
        return self.tables[side][pairs] + np.float64(self.alpha)

    def _before(self):
        self._ratios = self.log_ratios() if self._fertile else None

    def _translation(self, number, side, part):
        posteriors, counted = map(self.text.file.read, self._places[number][side])
        return collapsed.others_translation(
            part,
            self._with_prior(side, part.numbers),
            self._totals[side][part.source_words],
            self._ratios[side][:, part.source_words] if self._ratios else None,
            counted,
            posteriors,
        )

    def translation(self, side: int) -> np.ndarray:
        direction = self.text.directions[side]
        totals = direction.rows.spread(self._totals[side][direction.source_words])
        return self._with_prior(side, slice(None)) / totals

    def log_ratios(self) -> list[np.ndarray]:
        """Returns the `collapsed.log_ratios` of each direction, `[MOST + 1, source ids + 1]`."""

        def work(number, parts):
            posteriors = self.posteriors(number, parts)
            expected = list(map(collapsed.expected_fertilities, parts, posteriors))
            return expected, [part.source_words for part in parts]

        directions = self.text.directions
        sums = [np.zeros([collapsed.MOST + 1, d.vocab_sizes[0]]) for d in directions]
        for results in self.text.each(work):
            for total, expected, words in zip(sums, *results, strict=True):
                total[:, words] += expected
        return list(map(collapsed.log_ratios, sums))
