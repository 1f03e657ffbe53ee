"""The best derivations of hypotheses that came about in several ways.

As the lazy algorithm of Huang and Chiang 2005, "Better k-best Parsing", derivations are only made
one after another as they are asked for, the best first.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator

import numpy as np


class Forest:
    """Hypotheses, and for each of them its edges: ways to make it of up to two others.

    Args:
        heads: `[E]` int, the hypothesis of each edge.
        scores: `[E]`, score of the best derivation of the head by way of the edge.
        children: `[E, C]` int, hypotheses that the head is made of; -1: none. A hypothesis without
            edges is made of nothing.
    """

    def __init__(self, heads: np.ndarray, scores: np.ndarray, children: np.ndarray) -> None:
        order = np.lexsort((-scores, heads))
        most = max(int(heads.max(initial=0)), int(children.max(initial=0)))
        self._first = np.searchsorted(heads[order], np.arange(most + 2)).tolist()
        self._edges, self._scores = order.tolist(), scores[order].tolist()
        self._children = children[order].tolist()

    def derivations(self, ends: Iterable[tuple[float, int]]) -> Iterator[tuple[float, list]]:
        """Yields (score, edges) of the derivations of any of some hypotheses, the best first.

        `ends` are (score of the best derivation, hypothesis). An edge comes after those of its
        children, of which the last comes first.
        """
        counter = itertools.count()  # Orders equal scores.
        # Items: minus the score, order, hypotheses that are still to be made, edges so far.
        # Beyond them, the best edge of each hypothesis is taken.
        waiting: list = [(-total, next(counter), (number, None), None) for total, number in ends]
        heapq.heapify(waiting)
        while waiting:
            minus, _, left, chosen = heapq.heappop(waiting)
            while left is not None:
                number, left = left
                first, last = self._first[number], self._first[number + 1]
                if first == last:
                    continue
                lost = minus + self._scores[first]
                for edge in range(first + 1, last):
                    more = self._with_children(edge, left), (self._edges[edge], chosen)
                    heapq.heappush(waiting, (lost - self._scores[edge], next(counter), *more))
                left, chosen = self._with_children(first, left), (self._edges[first], chosen)
            edges = []
            while chosen is not None:
                edge, chosen = chosen
                edges.append(edge)
            yield -minus, edges

    def _with_children(self, edge, left):
        for child in reversed(self._children[edge]):
            if child >= 0:
                left = child, left
        return left
