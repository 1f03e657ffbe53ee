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


class _Texts:
    """The texts of a hypothesis, as far as they are known."""

    def __init__(self) -> None:
        self.made: list[_Made] = []  # The best first, all different.
        self.seen: set[tuple] = set()
        self.heap: list[tuple] = []  # (minus the score, order, edge, ranks of the children)
        self.next: list[tuple] = []  # (edge, ranks) that have no score yet

    @property
    def may_grow(self) -> bool:
        return bool(self.heap or self.next)


class Forest:
    """Hypotheses, and for each of them its edges: ways to make it of others.

    Args:
        heads: `[E]` int, the hypothesis of each edge.
        scores: `[E]`, score of the best derivation of the head by way of the edge.
        children: `[E, C]` int, hypotheses that the head is made of; -1: none. A hypothesis without
            edges is made of nothing.
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
        found: dict[tuple, tuple] = {}
        waiting = [(-score, number, 0) for score, number in self._ends[sentence]]
        heapq.heapify(waiting)
        while waiting and len(found) < most:
            minus, number, rank = heapq.heappop(waiting)
            self._grow(number, rank + 1)
            made = self._of(number).made
            found.setdefault(made[rank].words, (-minus, number, rank))
            if len(found) < most:
                self._grow(number, rank + 2)
            if rank + 1 < len(made):
                less = made[rank].score - made[rank + 1].score
                heapq.heappush(waiting, (minus + less, number, rank + 1))
        return [
            Derivation(score, words, self._edges_of(number, rank))
            for words, (score, number, rank) in found.items()
        ]

    def _of(self, number):
        texts = self._texts.get(number)
        if texts is None:
            texts = self._texts[number] = _Texts()
            first, last = self._first[number : number + 2].tolist()
            if first == last:
                texts.made.append(_Made(0.0, (), -1, ()))
            for edge in range(first, last):
                ranks = (0,) * int((self._children[edge] >= 0).sum())
                texts.heap.append((-self._scores.item(edge), next(self._order), edge, ranks))
        return texts

    def _grow(self, number, count):
        """Finds the texts of a hypothesis, until there are `count` or no more."""
        waiting = [(number, count)]
        while waiting:
            number, count = waiting[-1]
            texts = self._of(number)
            if len(texts.made) >= count or not texts.may_grow:
                waiting.pop()
                continue
            edge, ranks = texts.next[-1] if texts.next else texts.heap[0][2:]
            both = list(zip(self._children[edge].tolist(), ranks, strict=False))
            missing = [
                (child, rank + 1)
                for child, rank in both
                if len(self._of(child).made) <= rank and self._of(child).may_grow
            ]
            if missing:
                waiting.append(missing[0])
                continue
            inner = [(self._of(child).made, rank) for child, rank in both]
            if not texts.next:
                self._make(texts, inner)
                continue
            texts.next.pop()
            if all(rank < len(made) for made, rank in inner):
                lost = sum(made[0].score - made[rank].score for made, rank in inner)
                minus = lost - self._scores.item(edge)
                heapq.heappush(texts.heap, (minus, next(self._order), edge, ranks))

    def _make(self, texts, inner):
        """Takes the best derivation that is known to be next."""
        minus, _, edge, ranks = heapq.heappop(texts.heap)
        spelt = [made[rank].words for made, rank in inner]
        words = self._spell(self._edges.item(edge), spelt)
        if words not in texts.seen:
            texts.seen.add(words)
            texts.made.append(_Made(-minus, words, edge, ranks))
        for place, rank in enumerate(ranks):
            texts.next.append((edge, (*ranks[:place], rank + 1, *ranks[place + 1 :])))
            if rank:  # Those that follow in another child were added before: no pair comes twice.
                break

    def _edges_of(self, number, rank):
        """Lists the edges of a text of a hypothesis."""
        found, waiting = [], [(number, rank)]
        while waiting:
            number, rank = waiting.pop()
            made = self._of(number).made[rank]
            if made.edge >= 0:
                found.append(self._edges.item(made.edge))
                both = zip(self._children[made.edge].tolist(), made.ranks, strict=False)
                waiting += reversed(list(both))
        return found
