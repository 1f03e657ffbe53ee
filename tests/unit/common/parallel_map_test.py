"""The map in threads: the order of the items, how far it reads ahead, and errors."""

import time

import pytest

from nmt_zoo.common.parallel_map import parallel_map


@pytest.mark.parametrize("num_threads, ahead", [(1, 0), (2, 0), (3, 5)])
def test_results_come_in_order_and_few_items_are_read_ahead(num_threads, ahead):
    read = []

    def items():
        for i in range(20):
            read.append(i)
            yield i

    def slow_if_even(i):
        time.sleep(0.002 * (i % 2 == 0))
        return -i

    for i, found in enumerate(parallel_map(slow_if_even, items(), num_threads, ahead)):
        assert found == -i
        assert len(read) <= i + num_threads + ahead


def test_an_error_comes_at_its_item():
    results = parallel_map(lambda i: 1 // i, [1, 1, 0, 1], 2)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
