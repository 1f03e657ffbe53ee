"""How many cores this process may use; computes several things at a time, in order."""

import collections
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_way() -> None:
    """Lets other threads run before the current one; where the system has no such way, nothing."""
    if sys.platform == "linux":  # Elsewhere, priorities are those of whole processes.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)


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
