"""Requests in JSON become the values that TensorFlow Serving makes of them."""

import json

import numpy as np
import pytest

from nmt_zoo.serving.server import json_tensors
from nmt_zoo.serving.server.json_tensors import FLOAT, STRING


@pytest.mark.parametrize(
    ("dtype", "rows", "expected"),
    [
        (STRING, [["a"], [], ["b", "c"]], [["a", ""], ["", ""], ["b", "c"]]),
        (FLOAT, [[1.0], np.ones([2])], [[1, 0], [1, 1]]),
        (FLOAT, [[0.5], None, [0.25, 1]], [[0.5, 0], None, [0.25, 1]]),
        (FLOAT, [None, 0.5], [None, 0.5]),
        (STRING, [], []),
        # A number has as many digits as a float32.
        (FLOAT, [0.1, -1 / 3, 1e-30, 16777216], [0.1, -0.33333334, 1e-30, 16777216.0]),
    ],
)
def test_values_of_rows_are_padded_to_the_longest(dtype, rows, expected):
    answer = json_tensors.answer([{"x": row} for row in rows], {"x": dtype}, False)
    assert json.loads(answer) == {"outputs": expected}
