"""Averages of the last checkpoints, and the search for the best of them."""

import math
from collections.abc import Callable, Sequence


def most_tries(count: int) -> int:
    """Returns how many averages of `count` checkpoints `try_averages` tries at most."""
    return int(math.log2(count)) + count if count > 2 else count - 1


def try_averages(steps: Sequence[int], is_better: Callable[[tuple[int, ...]], bool | None]) -> None:
    """Tries averages of checkpoints (`steps` ascend), the most promising ones first.

    First the average of all checkpoints, and of the last half, quarter and so on of them. Then a
    greedy soup, in the manner of Wortsman et al. 2022, that starts from the best of these: each
    checkpoint in turn joins it, or leaves it, if that makes the average better.

    `is_better` takes the steps of an average; returns whether it is better than all that were tried
    before it, or None to end the search.
    """
    steps, best, tried = tuple(steps), (), set()

    def ends_with(chosen):
        nonlocal best
        tried.add(chosen)
        better = is_better(chosen)
        if better:
            best = chosen
        return better is None

    size = len(steps)
    while size > 1:
        if ends_with(steps[-size:]):
            return
        size //= 2
    for step in steps:
        changed = tuple(other for other in steps if (other in best) != (other == step))
        if len(changed) > 1 and changed not in tried and ends_with(changed):
            return
