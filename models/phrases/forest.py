"""The best translations of hypotheses that came about in several ways.

The lazy algorithm of Huang and Chiang 2005, "Better k-best Parsing", section 4.4, for translations
that differ: a hypothesis keeps the best derivation of each text alone.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Derivation(NamedTuple):
    """A translation and how it came about."""

    score: float
    words: tuple  # of int, the target words
    edges: list  # numbers of the edges; one comes before those of its children, the left one first


class _Made(NamedTuple):
    """A text of a hypothesis."""

    score: float
    words: tuple
    edge: int  # row of the sorted edges; -1: the hypothesis is made of nothing
    ranks: tuple  # for each child, which of its texts
    parts: tuple  # of `_Texts`, the children


class _Texts:
    """The texts of a hypothesis, as far as they are known."""

    __slots__ = "heap", "made", "next", "seen"

    def __init__(self) -> None:
        self.made: list[_Made] = []  # The best first, all different.
        self.seen: set[tuple] = set()
        self.heap: list[tuple] = []  # (minus the score, order, edge, ranks of the children)
        self.next: list[tuple] = []  # (edge, ranks, children, the one whose rank was raised)


class Forest:
    """Hypotheses, and for each of them its edges: ways to make it of others.

    Args:
        heads: `[E]` int, the hypothesis of each edge.
        scores: `[E]`, score of the best derivation of the head by way of the edge.
        children: `[E, C]` int, hypotheses that the head is made of. A hypothesis without edges is
            made of nothing.
        ends: for each sentence, (score of the best derivation, hypothesis) of its complete
            hypotheses.
        spell: function of an edge and the words of its children that returns those of the head.
    """

    def __init__(
        self,
        heads: np.ndarray,
        scores: np.ndarray,
        children: np.ndarray,
        ends: Sequence[Sequence[tuple[float, int]]],
        spell: Callable[[int, list[tuple]], tuple],
    ) -> None:
        order = np.lexsort((-scores, heads))
        most = max(int(heads.max(initial=0)), int(children.max(initial=0)))
        self._first = np.searchsorted(heads[order], np.arange(most + 2))
        self._edges, self._scores = order, scores[order]
        self._children = children[order]
        self._ends, self._spell = ends, spell
        self._texts: dict[int, _Texts] = {}
        self._order = itertools.count()  # Of equal scores.

    def best(self, sentence: int, most: int) -> list[Derivation]:
        """Returns the best derivations of a sentence whose texts differ."""
        best: dict[tuple, tuple] = {}
        waiting = [(-score, number, 0) for score, number in self._ends[sentence]]
        heapq.heapify(waiting)
        while waiting and len(best) < most:
            minus, number, rank = heapq.heappop(waiting)
            texts = self._of(number)
            self._grow(texts, rank + 1)
            best.setdefault(texts.made[rank].words, (-minus, texts.made[rank]))
            if len(best) < most:
                self._grow(texts, rank + 2)
                if rank + 1 < len(texts.made):
                    less = texts.made[rank].score - texts.made[rank + 1].score
                    heapq.heappush(waiting, (minus + less, number, rank + 1))
        return [
            Derivation(score, words, self._edges_of(made)) for words, (score, made) in best.items()
        ]

    def _of(self, number):
        texts = self._texts.get(number)
        if texts is None:
            texts = self._texts[number] = _Texts()
            first, last = self._first[number : number + 2].tolist()
            if first == last:
                texts.made.append(_Made(0.0, (), -1, (), ()))
            ranks = (0,) * self._children.shape[1]
            for edge, score in zip(
                range(first, last), self._scores[first:last].tolist(), strict=True
            ):
                texts.heap.append((-score, next(self._order), edge, ranks, None))
        return texts

    def _grow(self, texts, count):
        """Finds the texts of a hypothesis, until there are `count` or no more."""
        waiting = [(texts, count)]
        while waiting:
            texts, count = waiting[-1]
            if len(texts.made) >= count or not (texts.heap or texts.next):
                waiting.pop()
                continue
            missing = self._add_next(texts) if texts.next else self._make(texts)
            if missing is not None:
                waiting.append(missing)

    def _add_next(self, texts):
        """Scores a derivation; returns (child, number of texts) if it needs one more of a child."""
        edge, ranks, parts, index = texts.next[-1]
        rank, part = ranks[index], parts[index]
        if len(part.made) <= rank and (part.heap or part.next):
            return part, rank + 1
        texts.next.pop()
        if len(part.made) > rank:
            minus = -self._scores.item(edge)
            for child, lower in zip(parts, ranks, strict=True):
                minus += child.made[0].score - child.made[lower].score
            heapq.heappush(texts.heap, (minus, next(self._order), edge, ranks, parts))
        return None

    def _make(self, texts):
        """Takes the best derivation; returns as `_add_next`."""
        minus, _, edge, ranks, parts = texts.heap[0]
        if parts is None:
            parts = tuple(map(self._of, self._children[edge].tolist()))
            for part in parts:
                if not part.made:
                    return part, 1
        heapq.heappop(texts.heap)
        spelt = [part.made[rank].words for part, rank in zip(parts, ranks, strict=True)]
        words = self._spell(self._edges.item(edge), spelt)
        if words not in texts.seen:
            texts.seen.add(words)
            texts.made.append(_Made(-minus, words, edge, ranks, parts))
        for index, rank in enumerate(ranks):
            part = parts[index]
            if part.heap or part.next or len(part.made) > rank + 1:
                raised = (*ranks[:index], rank + 1, *ranks[index + 1 :])
                texts.next.append((edge, raised, parts, index))
            if rank:  # Those that follow in another child were added before: no pair comes twice.
                break
        return None

    def _edges_of(self, made):
        edges, waiting = [], [made]
        while waiting:
            made = waiting.pop()
            if made.edge >= 0:
                edges.append(self._edges.item(made.edge))
                inner = [part.made[rank] for part, rank in zip(made.parts, made.ranks, strict=True)]
                waiting += reversed(inner)
        return edges
