"""Stack decoding: the best derivation of a sentence from its phrase options.

Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 2; the order in which
hypotheses are scored follows cube pruning, Huang and Chiang 2007, "Forest Rescoring". H hypotheses
of a stack have translated equally many source words. All extensions of a stack are arrays.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.models.phrases.arrays import best_of_each, joined, ranges, recombined, take
from nmt_zoo.models.phrases.forest import Derivation, Forest
from nmt_zoo.models.phrases.language_states import ROOT, LanguageStates
from nmt_zoo.models.phrases.sentence_options import (
    BEFORE,
    BEHIND,
    DISTORTION,
    LANGUAGE,
    LONGEST,
    NOTHING,
    Options,
)

_EXTENSIONS = 4  # Scored by the language model, for each hypothesis of a stack.
_NONE = -1e6  # Guess for a span without options; finite, so that differences are numbers.
_MONOTONE, _SWAP, _DISCONTINUOUS = range(3)


class _Stack(NamedTuple):
    """Hypotheses with equally many translated source words, or extensions of such."""

    sentences: np.ndarray  # [H] int64, rising
    parents: np.ndarray  # [H] int64, number of the hypothesis that was extended
    options: np.ndarray  # [H] int64, the option that extended it
    scores: np.ndarray  # [H]
    futures: np.ndarray  # [H], estimate of what the rest of the source will add
    states: np.ndarray  # [H] int64, of the language model
    covered: np.ndarray  # [H, S] bool, source words that are translated, and places after the end
    spelt: np.ndarray  # [H] int64, words of the given text that are translated; else 0


class _Extensions(NamedTuple):
    """Possible extensions, before the language model has scored them."""

    sentences: np.ndarray  # [C] int64
    parents: np.ndarray  # [C] int64
    options: np.ndarray  # [C] int64
    scores: np.ndarray  # [C], without the language model's part
    guesses: np.ndarray  # [C], scores with estimates of everything that is missing
    futures: np.ndarray  # [C]
    spelt: np.ndarray  # [C] int64


class _Spans(NamedTuple):
    """Spans of the source that have options: B sentences with R spans each, padded."""

    starts: np.ndarray  # [B, R] int64
    ends: np.ndarray  # [B, R] int64; of padding, larger than any place
    first: np.ndarray  # [B, R] int64, the best option
    counts: np.ndarray  # [B, R] int64, number of options


class StackSearch:
    """The search for some sentences at once.

    Args:
        options: for each of B sentences, what may be translated how.
        lengths: for each sentence the number of its source words, at least 1.
        language: the language model.
        weights: `[len(FEATURES)]` float64.
        eos_id: id that ends sentences.
        beam_size: most hypotheses of a stack that are followed.
        distortion_limit: most source words between the ends of two phrases; below 0: no limit.
        text: ids of the one translation to search for, without `</s>`; None: any.
    """

    def __init__(
        self,
        options: Sequence[Options],
        lengths: Sequence[int],
        *,
        language: LanguageStates,
        weights: np.ndarray,
        eos_id: int,
        beam_size: int,
        distortion_limit: int,
        text: Sequence[int] | None = None,
    ) -> None:
        self.lengths, self.size = np.asarray(lengths, np.int64), max(lengths)
        self.language, self.weights, self.eos_id = language, weights, eos_id
        self.beam_size = beam_size
        self.distortion_limit = self.size if distortion_limit < 0 else distortion_limit
        self.text = None if text is None else padded_text(text)
        counts = [of_sentence.lengths.size for of_sentence in options]
        self.first_options = np.append(0, np.cumsum(counts))
        merged = joined(*options)
        sentences = np.repeat(np.arange(len(options)), counts)
        estimates, rest, states = self._words_alone(merged)
        static = merged.features @ weights
        guesses = static + weights[LANGUAGE] * estimates
        # By sentence and span, the best first.
        self.numbers = np.lexsort((-guesses, merged.ends, merged.starts, sentences))
        self.options = take(merged, self.numbers)
        self.rest, self.states = rest[self.numbers], states[self.numbers]
        self.static, self.guesses = static[self.numbers], guesses[self.numbers]
        self.before = self.options.orientations[:, :3] * weights[BEFORE]
        self.behind = self.options.orientations[:, 3:] * weights[BEHIND]
        self.spans = self._spans_with_options(sentences)
        self.best = self._best_of_spans()
        self.edges: list[tuple] = []

    def _words_alone(self, options):
        """Scores the words of options by the language model, without what comes before.

        Returns the log-probability of all words; that of the words from number `order - 1` on,
        which is exact; and the state after the words, if there are `order - 1` or more: `[O]` each.
        """
        size = options.lengths.size
        estimates, rest = np.zeros(size), np.zeros(size)
        states = np.full(size, ROOT)
        for column in range(int(options.lengths.max(initial=0))):
            rows = np.flatnonzero(options.lengths > column)
            words = options.words[rows, column]
            log_probs, states[rows] = self.language.follow(states[rows], words)
            estimates[rows] += log_probs
            if column >= self.language.order - 1:
                rest[rows] += log_probs
        return estimates, rest, states

    def _spans_with_options(self, sentences):
        starts, ends = self.options.starts, self.options.ends
        keys = (sentences * (self.size + 1) + starts) * (self.size + 1) + ends
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.diff(first, append=keys.size)
        rows = sentences[first]
        columns = np.arange(first.size) - np.searchsorted(rows, rows)
        shape = self.lengths.size, int(columns.max()) + 1
        spans = _Spans(*(np.full(shape, value) for value in (0, self.size + 1, 0, 0)))
        for table, values in zip(spans, (starts[first], ends[first], first, counts), strict=True):
            table[rows, columns] = values
        return spans

    def _best_of_spans(self):
        """Returns `[B, S + 1, S + 1]`: the best guess for each span of the source."""
        size, count = self.size, self.lengths.size
        best = np.full((count, size + 1, size + 1), _NONE)
        alone = np.full((count, size + 2, size + 2), _NONE)
        rows = np.arange(count)[:, None]
        alone[rows, self.spans.starts, self.spans.ends] = np.where(
            self.spans.counts > 0, self.guesses[self.spans.first], _NONE
        )
        positions = np.arange(size + 1)
        best[:, positions, positions] = 0.0
        longest = int((self.options.ends - self.options.starts).max())
        for length in range(1, size + 1):
            starts = np.arange(size + 1 - length)
            ways = [
                alone[:, starts, starts + first] + best[:, starts + first, starts + length]
                for first in range(1, min(length, longest) + 1)
            ]
            best[:, starts, starts + length] = np.max(ways, axis=0)
        return best

    def run(self, n_best: int) -> list[list[Derivation]]:
        """Searches; returns for each sentence up to `n_best` derivations, the best first.

        Their texts differ. Their edges are numbers of options, in the order of the target.
        """
        self.hypotheses, self.offsets = [self._empty()], [0]
        self.keeps_edges = n_best > 1
        waiting: list[list[_Extensions]] = [[] for _ in range(self.size + 1)]
        total = self.lengths.size
        for covered in range(self.size + 1):
            if covered:
                self.offsets.append(total)
                self.hypotheses.append(self._choose(waiting[covered]))
                waiting[covered] = []
                total += self.hypotheses[-1].scores.size
            self._extend(covered, waiting)
        return self._derivations(n_best)

    def _empty(self):
        count = self.lengths.size
        nothing = np.full(count, -1)
        return _Stack(
            np.arange(count),
            nothing,
            nothing,
            np.zeros(count),
            self.best[np.arange(count), 0, self.lengths],
            np.full(count, self.language.start),
            np.arange(self.size) >= self.lengths[:, None],
            np.zeros(count, np.int64),
        )

    # Extension

    def _extend(self, number, waiting):
        """Adds the extensions of stack `number` to those that wait for their stacks."""
        stack, offset = self.hypotheses[number], self.offsets[number]
        if not (stack.sentences.size and (self.lengths[stack.sentences] > number).any()):
            return
        rows, spans, kinds, jumps, futures = self._spans_of(stack)
        first, counts = self.spans.first[spans], self.spans.counts[spans]
        which, options = np.repeat(np.arange(rows.size), counts), ranges(first, counts)
        last = stack.options[rows]
        fixed = stack.scores[rows] - self.weights[DISTORTION] * jumps
        fixed += np.where(last < 0, 0.0, self.behind[last, kinds])
        before = self.before[options, kinds[which]]
        scores = fixed[which] + before + self.static[options]
        guesses = (fixed + futures)[which] + before + self.guesses[options]
        parents = rows[which]
        spelt = stack.spelt[parents]
        numbers = parents + offset
        extensions = _Extensions(
            stack.sentences[parents], numbers, options, scores, guesses, futures[which], spelt
        )
        if self.text is not None:
            extensions = self._spelling(extensions)
        lengths = (self.options.ends - self.options.starts)[extensions.options]
        for length in range(1, int(lengths.max(initial=0)) + 1):
            chosen = np.flatnonzero(lengths == length)
            if chosen.size:
                waiting[number + length].append(self._most(take(extensions, chosen)))

    def _spans_of(self, stack):
        """Returns the spans that may extend hypotheses, and what they change.

        For each of K pairs of hypothesis and span: row of the hypothesis `[K]`, (sentence, column)
        of the span, orientation, words jumped over, estimate of the rest of the source.
        """
        covered, size = stack.covered, self.size
        positions = np.arange(size)
        left = np.maximum.accumulate(np.where(covered, positions + 1, 0), axis=1)
        right = np.minimum.accumulate(np.where(covered, positions, size)[:, ::-1], axis=1)[:, ::-1]
        starts, ends = self.spans.starts[stack.sentences], self.spans.ends[stack.sentences]
        last_ends = np.where(stack.options < 0, 0, self.options.ends[stack.options])
        fits = np.take_along_axis(right, starts, axis=1) >= ends
        jumps = np.abs(starts - last_ends[:, None])
        first_gap = np.argmin(covered, axis=1)[:, None]
        fits &= jumps <= self.distortion_limit
        fits &= (starts == first_gap) | (ends - first_gap <= self.distortion_limit)
        rows, columns = np.nonzero(fits)
        starts, ends, sentences = starts[fits], ends[fits], stack.sentences[rows]
        gap_start, gap_end = left[rows, starts], right[rows, starts]
        futures = (
            stack.futures[rows]
            - self.best[sentences, gap_start, gap_end]
            + self.best[sentences, gap_start, starts]
            + self.best[sentences, ends, gap_end]
        )
        last_starts = np.where(stack.options < 0, -1, self.options.starts[stack.options])
        kinds = np.full(rows.size, _DISCONTINUOUS)
        kinds[ends == last_starts[rows]] = _SWAP
        kinds[starts == last_ends[rows]] = _MONOTONE
        return rows, (sentences, columns), kinds, jumps[fits], futures

    def _spelling(self, extensions):
        """Drops the extensions that do not spell the given text; counts the words of the others."""
        words = self.options.words[extensions.options]
        expected = self.text[extensions.spelt[:, None] + np.arange(LONGEST)]
        spelt = extensions.spelt + self.options.lengths[extensions.options]
        fits = ((words == NOTHING) | (words == expected)).all(axis=1)
        return take(extensions._replace(spelt=spelt), fits)

    def _most(self, extensions):
        """Returns the extensions of each sentence with the best guesses."""
        most = _EXTENSIONS * self.beam_size
        return take(extensions, best_of_each(extensions.sentences, extensions.guesses, most))

    # Choice

    def _choose(self, waiting):
        """Scores the best extensions, recombines equal ones, and returns the stack of the best."""
        if not waiting:
            return take(self._empty(), np.zeros(0, np.int64))
        stack = self._scored(self._most(joined(*waiting)))
        totals = stack.scores + stack.futures
        columns = self._equal_columns(stack)
        best, heads = recombined(stack.sentences, columns, totals, self.beam_size)
        rows = np.flatnonzero(heads >= 0) if self.keeps_edges else np.sort(best)
        heads = heads[rows] + self.offsets[-1]
        self.edges.append((heads, stack.scores[rows], stack.parents[rows], stack.options[rows]))
        return take(stack, best)

    def _scored(self, extensions):
        """Adds the language model's part to extensions; returns them as a `_Stack`."""
        numbers = np.searchsorted(self.offsets, extensions.parents, side="right") - 1
        states = np.zeros(extensions.parents.size, np.int64)
        covered = np.zeros((extensions.parents.size, self.size), bool)
        for number in np.unique(numbers):
            chosen = numbers == number
            rows = extensions.parents[chosen] - self.offsets[number]
            states[chosen] = self.hypotheses[number].states[rows]
            covered[chosen] = self.hypotheses[number].covered[rows]
        options, log_probs = extensions.options, self.rest[extensions.options]
        lengths = self.options.lengths[options]
        for column in range(self.language.order - 1):
            chosen = np.flatnonzero(lengths > column)
            words = self.options.words[options[chosen], column]
            of_words, states[chosen] = self.language.follow(states[chosen], words)
            log_probs[chosen] += of_words
        is_long = lengths >= self.language.order - 1
        states[is_long] = self.states[options[is_long]]
        positions = np.arange(self.size)
        starts, ends = self.options.starts[options, None], self.options.ends[options, None]
        covered |= (positions >= starts) & (positions < ends)
        scores = extensions.scores + self.weights[LANGUAGE] * log_probs
        both = extensions.sentences, extensions.parents
        return _Stack(*both, options, scores, extensions.futures, states, covered, extensions.spelt)

    def _equal_columns(self, stack):
        """Lists columns `[H]` that are equal if the same may follow with the same scores."""
        return [
            *np.packbits(stack.covered, axis=1).T,
            self.options.ends[stack.options] * (self.size + 1) + self.options.starts[stack.options],
            stack.states,
            *np.ascontiguousarray(self.behind[stack.options]).view(np.int64).T,
            stack.spelt,
        ]

    # The end

    def _ends(self):
        """Returns for each sentence (total score, number) of its complete hypotheses."""
        ends = [[] for _ in self.lengths]
        for length in np.unique(self.lengths):
            whole = self.hypotheses[length]
            rows = np.flatnonzero(self.lengths[whole.sentences] == length)
            stack = take(whole, rows)
            after, _ = self.language.follow(stack.states, np.full(rows.size, self.eos_id))
            at_end = self.options.ends[stack.options] == length
            kinds = np.where(at_end, _MONOTONE, _DISCONTINUOUS)
            totals = stack.scores + self.weights[LANGUAGE] * after
            totals += self.behind[stack.options, kinds]
            may_end = np.ones(rows.size, bool)
            if self.text is not None:
                may_end = stack.spelt == self.text.size - LONGEST
            for row in np.flatnonzero(may_end):
                number = int(rows[row]) + self.offsets[length]
                ends[stack.sentences[row]].append((float(totals[row]), number))
        return ends

    def _derivations(self, n_best):
        none = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        heads, scores, parents, options = map(np.concatenate, zip(none, *self.edges, strict=True))
        spoken: dict[int, list] = {}  # Option -> its words.

        def spell(edge, inner):
            option = options.item(edge)
            if option not in spoken:
                length = self.options.lengths[option]
                spoken[option] = self.options.words[option, :length].tolist()
            return (*inner[0], *spoken[option])

        forest = Forest(heads, scores, parents[:, None], self._ends(), spell)
        results = []
        for sentence, start in enumerate(self.first_options[:-1]):
            derivations = forest.best(sentence, n_best)
            applied = (self.numbers[options[d.edges[::-1]]] - start for d in derivations)
            pairs = zip(derivations, applied, strict=True)
            results.append([d._replace(edges=rows.tolist()) for d, rows in pairs])
        return results


def padded_text(words: Sequence[int]) -> np.ndarray:
    """Returns ids `[T + LONGEST]` int64, so that each of T words has `LONGEST` words from it on.

    The words after the end equal no word and no `NOTHING`.
    """
    return np.append(np.asarray(words, np.int64), np.full(LONGEST, NOTHING - 1))
