"""The map in threads: the order of the items, how far it reads ahead, and errors."""

import time

import pytest

from nmt_zoo.common.parallel import map_in_order


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_results_and_errors_come_in_order_and_few_items_are_read_ahead(num_threads):
    read = []

    def items():
        for i in range(20):
            read.append(i)
            yield i

    def slow_if_even(i):
        time.sleep(0.002 * (i % 2 == 0))
        return -i

    for i, found in enumerate(map_in_order(slow_if_even, items(), num_threads)):
        assert found == -i
        assert len(read) <= i + 2 * num_threads
    results = map_in_order(lambda i: 1 // i, [1, 1, 0, 1], num_threads)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
