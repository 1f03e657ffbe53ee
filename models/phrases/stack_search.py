"""Stack decoding: the best derivation of a sentence from its phrase options.

Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 2; the order in which
hypotheses are scored follows cube pruning, Huang and Chiang 2007, "Forest Rescoring". H hypotheses
of a stack have translated equally many source words. All extensions of a stack are arrays.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.sentence_options import (
    BEFORE,
    BEHIND,
    DISTORTION,
    LANGUAGE,
    LanguageScores,
    Options,
    language_scores,
)

UNLIMITED = -1  # Of a limit.
_NONE = -1e6  # Guess for a span without options; finite, so that differences are numbers.
_MONOTONE, _SWAP, _DISCONTINUOUS = range(3)


class Limits(NamedTuple):
    """How much a search looks at; `UNLIMITED` finds the best derivation of all."""

    stack_size: int = 100  # hypotheses of a stack that are followed
    extensions: int = 400  # extensions of a stack that the language model scores
    distortion_limit: int = 6  # most source words between the ends of two phrases


class Derivation(NamedTuple):
    """A translation and how it came about."""

    score: float
    options: list  # the numbers of its options, in the order of the target


class Rule:
    """A condition on translations; a subclass says which hypotheses it allows.

    A search keeps one number array `[H, X]` for each rule, the state of its hypotheses.
    """

    def start(self) -> np.ndarray:
        """Returns the state of the empty hypothesis, `[1, X]` int64."""
        raise NotImplementedError

    def extend(
        self, states: np.ndarray, words: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (states `[C, X]` after more words, whether they are allowed `[C]` bool).

        `states` `[C, X]`; `words` `[C, LONGEST]` int64, of which each row has `lengths`.
        """
        raise NotImplementedError

    def may_end(self, states: np.ndarray) -> np.ndarray:
        """Returns whether hypotheses may end, `[H]` bool."""
        return np.ones(states.shape[0], bool)

    def bank(self, states: np.ndarray) -> np.ndarray:
        """Returns which hypotheses compete with each other: equal numbers, `[H]` int64."""
        return np.zeros(states.shape[0], np.int64)


class _Stack(NamedTuple):
    """Hypotheses with equally many translated source words, or extensions of such."""

    parents: np.ndarray  # [H] int64, number of the hypothesis that was extended
    options: np.ndarray  # [H] int64, the option that extended it
    scores: np.ndarray  # [H]
    futures: np.ndarray  # [H], estimate of what the rest of the source will add
    states: np.ndarray  # [H] int64, of the language model
    covered: np.ndarray  # [H, S] bool, source words that are translated
    rules: list  # for each rule its states `[H, X]`


class _Extensions(NamedTuple):
    """Possible extensions, before the language model has scored them."""

    parents: np.ndarray  # [C] int64
    options: np.ndarray  # [C] int64
    scores: np.ndarray  # [C], without the language model's part
    guesses: np.ndarray  # [C], scores with estimates of everything that is missing
    futures: np.ndarray  # [C]
    rules: list


class StackSearch:
    """The search for one sentence.

    Args:
        options: what may be translated how, in S source words.
        num_source: S, at least 1.
        language: the language model.
        order: length of its longest n-grams.
        weights: `[len(FEATURES)]` float64.
        bos_id: id that starts sentences.
        eos_id: id that ends them.
        limits: see `Limits`.
        rules: conditions that translations meet.
    """

    def __init__(
        self,
        options: Options,
        num_source: int,
        *,
        language: LanguageStates,
        order: int,
        weights: np.ndarray,
        bos_id: int,
        eos_id: int,
        limits: Limits,
        rules: Sequence[Rule] = (),
    ) -> None:
        self.num_source, self.language, self.order = num_source, language, order
        self.weights, self.bos_id, self.eos_id = weights, bos_id, eos_id
        self.limits, self.rules = limits, rules
        spoken = language_scores(language, order, options)
        static = options.features @ weights
        guesses = static + weights[LANGUAGE] * spoken.estimates
        # Sorted by span, the best first.
        order_of = np.lexsort((-guesses, options.ends, options.starts))
        self.numbers = order_of
        self.options = options.take(order_of)
        self.spoken = LanguageScores(*(array[order_of] for array in spoken))
        self.static, self.guesses = static[order_of], guesses[order_of]
        keys = self.options.starts * (num_source + 1) + self.options.ends
        self.first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))[: keys.size]
        self.counts = np.diff(self.first, append=keys.size)
        self.span_starts = self.options.starts[self.first]
        self.span_ends = self.options.ends[self.first]
        weighted = self.options.orientations
        self.before = weighted[:, :3] * weights[BEFORE]
        self.behind = weighted[:, 3:] * weights[BEHIND]
        self.best = self._best_of_spans()
        draw = np.random.default_rng(1)
        self.marks = draw.integers(-(2**62), 2**62, num_source)
        self.arcs: dict[int, list] = {}

    def _best_of_spans(self):
        """Returns `[S + 1, S + 1]`: the best guess for each span of the source."""
        size = self.num_source
        best = np.full((size + 1, size + 1), _NONE)
        alone = best.copy()
        alone[self.span_starts, self.span_ends] = self.guesses[self.first]
        np.fill_diagonal(best, 0.0)
        longest = int((self.span_ends - self.span_starts).max(initial=0))
        for length in range(1, size + 1):
            starts = np.arange(size + 1 - length)
            ways = [
                alone[starts, starts + first] + best[starts + first, starts + length]
                for first in range(1, min(length, longest) + 1)
            ]
            best[starts, starts + length] = np.max(ways, axis=0)
        return best

    def run(self, *, keeps_arcs: bool = False) -> Iterator[Derivation]:
        """Searches; yields different derivations, the best first, or none.

        They are those of the hypotheses that were followed to the end; with `keeps_arcs`, also
        those of hypotheses that were recombined with better ones.
        """
        self.hypotheses, self.offsets = [self._empty()], [0]
        self.keeps_arcs = keeps_arcs
        waiting: list[list[_Extensions]] = [[] for _ in range(self.num_source + 1)]
        total = 1
        for covered in range(self.num_source + 1):
            if covered:
                self.offsets.append(total)
                self.hypotheses.append(self._choose(waiting[covered]))
                waiting[covered] = []
                total += self.hypotheses[-1].scores.size
            if covered < self.num_source:
                self._extend(covered, waiting)
        return itertools.starmap(self._derivation, self._paths(self._ends()))

    def _empty(self):
        nothing = np.full(1, -1)
        return _Stack(
            nothing,
            nothing,
            np.zeros(1),
            self.best[0, self.num_source :][:1],
            np.array([self.language.start(self.bos_id)]),
            np.zeros((1, self.num_source), bool),
            [rule.start() for rule in self.rules],
        )

    # Extension

    def _extend(self, number, waiting):
        """Adds the extensions of stack `number` to those that wait for their stacks."""
        stack, offset = self.hypotheses[number], self.offsets[number]
        if not stack.scores.size:
            return
        rows, spans, kinds, jumps, futures = self._spans(stack)
        counts = self.counts[spans]
        ends = np.cumsum(counts)
        which = np.repeat(np.arange(rows.size), counts)
        options = np.arange(which.size) + np.repeat(self.first[spans] - (ends - counts), counts)
        parents, kinds = rows[which], kinds[which]
        before = stack.options[parents]
        behind = np.where(before < 0, 0.0, self.behind[before, kinds])
        scores = (
            stack.scores[parents]
            + self.static[options]
            + self.before[options, kinds]
            + behind
            + (self.weights[DISTORTION] * -jumps)[which]
        )
        guesses = (
            scores + (self.guesses - self.static)[options] + futures[which]
        )
        found = _Extensions(parents + offset, options, scores, guesses, futures[which], [])
        found = self._allowed(found, stack, parents)
        lengths = (self.span_ends - self.span_starts)[spans][which]
        if self.rules:
            lengths = (self.options.ends - self.options.starts)[found.options]
        for length in range(1, int(lengths.max(initial=0)) + 1):
            here = np.flatnonzero(lengths == length)
            if here.size:
                waiting[number + length].append(_take(found, self._most(found, here)))

    def _spans(self, stack):
        """Returns the spans that may extend hypotheses, and what they change.

        For each of K pairs of hypothesis and span, `[K]` each: row of the hypothesis, number of the
        span, orientation, words jumped over, estimate of the rest of the source.
        """
        covered, size = stack.covered, self.num_source
        places = np.arange(size)
        left = np.maximum.accumulate(np.where(covered, places + 1, 0), axis=1)
        right = np.minimum.accumulate(np.where(covered, places, size)[:, ::-1], axis=1)[:, ::-1]
        first_gap = np.argmin(covered, axis=1)[:, None]
        starts, ends = self.span_starts, self.span_ends
        last_ends = np.where(stack.options < 0, 0, self.options.ends[stack.options])[:, None]
        fits = right[:, starts] >= ends
        jumps = np.abs(starts - last_ends)
        if self.limits.distortion_limit != UNLIMITED:
            most = self.limits.distortion_limit
            fits &= jumps <= most
            fits &= (starts == first_gap) | (ends - first_gap <= most)
        rows, spans = np.nonzero(fits)
        starts, ends = starts[spans], ends[spans]
        gap_start, gap_end = left[rows, starts], right[rows, starts]
        futures = (
            stack.futures[rows]
            - self.best[gap_start, gap_end]
            + self.best[gap_start, starts]
            + self.best[ends, gap_end]
        )
        last_starts = np.where(stack.options < 0, -1, self.options.starts[stack.options])
        kinds = np.full(rows.size, _DISCONTINUOUS)
        kinds[ends == last_starts[rows]] = _SWAP
        kinds[starts == last_ends[rows, 0]] = _MONOTONE
        return rows, spans, kinds, jumps[rows, spans], futures

    def _allowed(self, found, stack, parents):
        """Drops the extensions that a rule does not allow; adds the states of rules."""
        for number, rule in enumerate(self.rules):
            words, lengths = self.options.words[found.options], self.options.lengths[found.options]
            states, allowed = rule.extend(stack.rules[number][parents], words, lengths)
            found = _take(found._replace(rules=[*found.rules, states]), allowed)
            parents = parents[allowed]
        return found

    def _most(self, found, rows):
        """Returns the rows with the best guesses, of each bank the `extensions` best."""
        most = self.limits.extensions
        if most == UNLIMITED or rows.size <= most:
            return rows
        if not self.rules:
            return rows[np.argpartition(-found.guesses[rows], most)[:most]]
        banks = self._banks([states[rows] for states in found.rules], rows.size)
        return rows[_best_of_each(banks, found.guesses[rows], most)]

    def _banks(self, states, size):
        """Combines the banks of all rules into one number."""
        banks = np.zeros(size, np.int64)
        for rule, some in zip(self.rules, states, strict=True):
            banks = banks * 1000 + rule.bank(some)
        return banks

    # Choice

    def _choose(self, waiting):
        """Scores the best extensions, recombines equal ones, and returns the stack of the best."""
        if not waiting:
            return self._nobody()
        found = _Extensions(
            *map(np.concatenate, zip(*(one[:-1] for one in waiting), strict=True)),
            [np.concatenate(some) for some in zip(*(one.rules for one in waiting), strict=True)],
        )
        found = _take(found, self._most(found, np.arange(found.scores.size)))
        stack = self._scored(found)
        keys = self._keys(stack)
        totals = stack.scores + stack.futures
        order = np.lexsort((-totals, keys))
        is_first = np.append(True, keys[order][1:] != keys[order][:-1])[: order.size]
        winners = order[is_first]
        if self.limits.stack_size != UNLIMITED:
            banks = self._banks([some[winners] for some in stack.rules], winners.size)
            best = _best_of_each(banks, totals[winners], self.limits.stack_size)
        else:
            best = np.argsort(-totals[winners], kind="stable")
        if self.keeps_arcs:
            self._keep_arcs(stack, order, is_first, best)
        return _take(stack, winners[best])

    def _nobody(self):
        empty = self._empty()
        return _take(empty, np.zeros(0, np.int64))

    def _scored(self, found):
        """Adds the language model's part to extensions; returns them as a `_Stack`."""
        numbers = np.searchsorted(self.offsets, found.parents, side="right") - 1
        states = np.zeros(found.parents.size, np.int64)
        covered = np.zeros((found.parents.size, self.num_source), bool)
        for number in np.unique(numbers):
            here = numbers == number
            rows = found.parents[here] - self.offsets[number]
            states[here] = self.hypotheses[number].states[rows]
            covered[here] = self.hypotheses[number].covered[rows]
        options, log_probs = found.options, self.spoken.rest[found.options].copy()
        lengths = self.options.lengths[options]
        for place in range(self.order - 1):
            here = np.flatnonzero(lengths > place)
            words = self.options.words[options[here], place]
            some, states[here] = self.language.follow(states[here], words)
            log_probs[here] += some
        is_long = lengths >= self.order - 1
        states[is_long] = self.spoken.states[options[is_long]]
        places = np.arange(self.num_source)
        covered |= (places >= self.options.starts[options, None]) & (
            places < self.options.ends[options, None]
        )
        scores = found.scores + self.weights[LANGUAGE] * log_probs
        return _Stack(
            found.parents, options, scores, found.futures, states, covered, found.rules
        )

    def _keys(self, stack):
        """Returns numbers `[H]` that are equal if the same may follow with the same scores."""
        parts = [
            (stack.covered * self.marks).sum(axis=1),
            self.options.ends[stack.options] * (self.num_source + 1)
            + self.options.starts[stack.options],
            stack.states,
            *np.ascontiguousarray(self.behind[stack.options]).view(np.int64).T,
            *(column for states in stack.rules for column in states.T),
        ]
        keys = np.zeros(stack.scores.size, np.uint64)
        for part in parts:  # Mixes the bits, as the generator splitmix64 does.
            keys = (keys ^ part.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            keys ^= keys >> np.uint64(32)
        return keys

    # The end

    def _ends(self):
        """Returns (total score, number) of the hypotheses that have translated everything."""
        stack, offset = self.hypotheses[-1], self.offsets[-1]
        if not stack.scores.size:
            return []
        log_probs, _ = self.language.follow(stack.states, np.full(stack.states.size, self.eos_id))
        at_end = self.options.ends[stack.options] == self.num_source
        kinds = np.where(at_end, _MONOTONE, _DISCONTINUOUS)
        totals = (
            stack.scores
            + self.weights[LANGUAGE] * log_probs
            + self.behind[stack.options, kinds]
        )
        for rule, states in zip(self.rules, stack.rules, strict=True):
            totals[~rule.may_end(states)] = -np.inf
        order = np.argsort(-totals, kind="stable")
        order = order[totals[order] > -np.inf]
        return [(float(totals[row]), int(row) + offset) for row in order]

    def _at(self, number):
        """Returns (parent, option, score) of the hypothesis with a number."""
        stack_number = np.searchsorted(self.offsets, number, side="right") - 1
        # Empty stacks begin where the next one does.
        stack, row = self.hypotheses[stack_number], number - self.offsets[stack_number]
        return int(stack.parents[row]), int(stack.options[row]), float(stack.scores[row])

    def _keep_arcs(self, stack, order, is_first, best):
        """Keeps the extensions that were recombined with hypotheses of the stack being chosen."""
        group = np.cumsum(is_first) - 1  # Of each place in `order`.
        place = np.full(int(group[-1]) + 1, -1)
        place[best] = np.arange(best.size)
        rows = np.flatnonzero(~is_first & (place[group] >= 0))
        for row in rows:
            number = int(place[group[row]]) + self.offsets[-1]
            one = order[row]
            arc = float(stack.scores[one]), int(stack.parents[one]), int(stack.options[one])
            self.arcs.setdefault(number, []).append(arc)

    def _paths(self, ends):
        """Yields (score, options) of derivations, the best first."""
        counter = itertools.count()  # Orders equal scores.
        # Items: minus the score, order, hypothesis to go back from, options behind it, from the
        # last to the first. Beyond a hypothesis, its best arcs are followed.
        waiting = [(-total, next(counter), number, ()) for total, number in ends]
        heapq.heapify(waiting)
        while waiting:
            minus, _, number, behind = heapq.heappop(waiting)
            while number:
                parent, option, score = self._at(number)
                for other, its_parent, its_option in self.arcs.get(number, ()):
                    item = (minus + score - other, next(counter), its_parent, (*behind, its_option))
                    heapq.heappush(waiting, item)
                number, behind = parent, (*behind, option)
            yield -minus, behind[::-1]

    def _derivation(self, score, options):
        return Derivation(score, [int(self.numbers[option]) for option in options])


def _take(record: Any, rows: Any) -> Any:
    """Returns rows of a `_Stack` or of `_Extensions`."""
    *arrays, rules = record
    return type(record)(*(array[rows] for array in arrays), [states[rows] for states in rules])


def _best_of_each(banks, scores, most):
    """Returns the rows with the `most` best scores of each bank, the best first."""
    if not banks.any():
        if scores.size > 4 * most:
            some = np.argpartition(-scores, most)[:most]
            return some[np.argsort(-scores[some], kind="stable")]
        return np.argsort(-scores, kind="stable")[:most]
    order = np.lexsort((-scores, banks))
    sorted_banks = banks[order]
    places = np.arange(order.size) - np.searchsorted(sorted_banks, sorted_banks)
    return order[places < most]


