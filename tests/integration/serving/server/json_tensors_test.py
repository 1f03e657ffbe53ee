"""Requests in JSON become the values that TensorFlow Serving makes of them."""

import json

import numpy as np
import pytest
from starlette.exceptions import HTTPException

from nmt_zoo.serving.server import json_tensors
from nmt_zoo.serving.server.json_tensors import FLOAT, INTEGER, STRING
from tests.integration.serving.server.example import PAIR

TEXT = {"text": STRING}


def read(request, types):
    """Returns the inputs of a request of at most four rows, and whether they are in rows."""
    return json_tensors.inputs_of(request, types, max_rows=4)


def test_rows_and_columns_are_the_same_request():
    rows = [{"source": "a", "target": "b"}, {"target": "d", "source": "c"}]
    columns = {"source": ["a", "c"], "target": ["b", "d"]}
    assert read({"instances": rows}, PAIR) == (columns, True)
    assert read({"inputs": columns}, PAIR) == (columns, False)


def test_the_name_of_an_only_input_may_be_left_out():
    for values in (["a", "b"], [{"text": "a"}, {"text": "b"}]):
        assert read({"instances": values}, TEXT) == ({"text": ["a", "b"]}, True)


def test_too_many_rows_are_refused_before_their_values_are_read():
    with pytest.raises(HTTPException, match="5 rows, at most 4"):
        read({"instances": [7] * 5}, TEXT)


def test_answers_have_the_form_of_their_request():
    types = {"b": STRING, "a": INTEGER}
    values = [{"b": "x", "a": [1]}, {"b": "y", "a": [2]}]
    rows = [{"a": [1], "b": "x"}, {"a": [2], "b": "y"}]
    columns = {"a": [[1], [2]], "b": ["x", "y"]}
    for in_rows, expected in ((True, {"predictions": rows}), (False, {"outputs": columns})):
        assert json.loads(json_tensors.answer(values, types, in_rows)) == expected
    only = {"a": types["a"]}
    for in_rows, key in ((True, "predictions"), (False, "outputs")):
        assert json.loads(json_tensors.answer(values, only, in_rows)) == {key: [[1], [2]]}


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
