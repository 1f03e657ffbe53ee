"""A map that computes several items at a time and keeps their order."""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], num_threads: int, ahead: int = 0
) -> Iterator[Result]:
    """Yields `function(item)` of each item, in order, computing several at a time in threads.

    Args:
        function: called in `num_threads` threads, or in this one if that is less than 2.
        items: read as far as items are computed.
        num_threads: items that are computed at a time.
        ahead: items that are read in addition, so that no thread waits for the caller.
    """
    if num_threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(num_threads) as threads:
        left, waiting = iter(items), collections.deque()
        try:
            while True:
                for item in itertools.islice(left, num_threads + ahead - len(waiting)):
                    waiting.append(threads.submit(function, item))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
