"""Computes several things at a time, in order."""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def map_in_order(
    function: Callable[[Any], Any], items: Iterable, num_threads: int
) -> Iterator[Any]:
    """Yields `function(item)` of each item, in order, computing several at a time in threads.

    At most two results for each thread wait to be taken.
    """
    if num_threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(num_threads) as threads:
        items, waiting = iter(items), collections.deque()
        try:
            while True:
                for item in itertools.islice(items, 2 * num_threads - len(waiting)):
                    waiting.append(threads.submit(function, item))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
