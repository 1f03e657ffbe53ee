"""Tests of the search for the best average of checkpoints."""

import itertools

import pytest

from nmt_zoo.training.loop.ending import most_tries, try_averages


def tried(steps, score, most=None):
    """Returns the averages that are tried, and the best; `score`: the lower the better."""
    found = []

    def is_better(chosen):
        if most is not None and len(found) == most:
            return None
        found.append(chosen)
        return all(score(chosen) < score(other) for other in found[:-1])

    try_averages(steps, is_better)
    return found, min(found, key=score, default=None)


def test_a_checkpoint_that_harms_the_average_leaves_and_one_that_helps_joins():
    worth = {1: 0.0, 2: -1.0, 3: 5.0, 4: -1.0, 5: -1.0}
    _, best = tried(worth, lambda chosen: sum(worth[step] for step in chosen))
    assert best == (2, 4, 5)
    worth = {1: -1.0, 2: -1.0, 3: 5.0, 4: -1.0}  # That of all is better than that of the last half.
    _, best = tried(worth, lambda chosen: sum(worth[step] for step in chosen))
    assert best == (1, 2, 4)


@pytest.mark.parametrize("count", range(7))
def test_every_average_is_tried_once_and_no_more_than_promised(count):
    for order in itertools.islice(itertools.permutations(range(count)), 24):
        found, _ = tried(range(count), lambda chosen, order=order: sum(order[s] for s in chosen))
        assert len(set(found)) == len(found) <= max(most_tries(count), 0) if count else not found
        assert all(len(chosen) > 1 and list(chosen) == sorted(chosen) for chosen in found)


def test_the_average_of_all_comes_first_then_of_the_last_halves_until_told_to_end():
    assert tried(range(8), len)[0][:3] == [tuple(range(8)), (4, 5, 6, 7), (6, 7)]
    assert tried(range(5), len, most=2)[0] == [(0, 1, 2, 3, 4), (3, 4)]
