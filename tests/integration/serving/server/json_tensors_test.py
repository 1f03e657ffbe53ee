"""Requests in JSON become the tensors that TensorFlow Serving makes of them."""

import json

import numpy as np
import pytest

from nmt_zoo.serving.server import json_tensors
from nmt_zoo.serving.server.loaded_model import ExportedModel
from nmt_zoo.serving.server.refusals import Refusal


@pytest.fixture(scope="module")
def infos(example):
    """Inputs of the signatures of the example."""
    model = ExportedModel(example / "1")
    yield {name: signature.inputs for name, signature in model.signatures.items()}
    model.close()


def read(request, infos):
    """Returns the inputs of a request of at most four rows, and whether they are in rows."""
    return json_tensors.inputs_of(request, infos, max_rows=4)


def test_rows_and_columns_are_the_same_request(infos):
    rows = [{"source": "a", "target": "b"}, {"target": "d", "source": "c"}]
    columns = {"source": ["a", "c"], "target": ["b", "d"]}
    by_row, in_rows = read({"instances": rows}, infos["pair"])
    by_column, in_columns = read({"inputs": columns}, infos["pair"])
    assert in_rows and not in_columns
    for name, values in columns.items():
        assert by_row[name].tolist() == by_column[name].tolist() == [v.encode() for v in values]


def test_the_name_of_an_only_input_may_be_left_out(infos):
    for values in (["a", "b"], [{"text": "a"}, {"text": "b"}]):
        found, _ = read({"instances": values}, infos["serving_default"])
        assert found["text"].tolist() == [b"a", b"b"]


def test_values_have_the_types_of_the_signature(infos):
    inputs = {
        "pairs": [[1, 2.5], [float("nan"), 1e-3]],
        "count": [-(2**31), 7],
        "flag": [True, False],
    }
    found, _ = read({"inputs": inputs}, infos["numbers"])
    assert found["pairs"].dtype == np.float32 and np.isnan(found["pairs"][1, 0])
    assert found["count"].dtype == np.int32 and found["count"].tolist() == inputs["count"]
    assert found["flag"].tolist() == [True, False]


def test_a_binary_string_is_decoded(infos):
    request = {"instances": [{"b64": "/wA="}, "ü"]}
    found, _ = read(request, infos["serving_default"])
    assert found["text"].tolist() == [b"\xff\x00", "ü".encode()]


def test_an_empty_list_has_the_rank_of_the_signature(infos):
    inputs = {"pairs": [], "count": [], "flag": []}
    with pytest.raises(Refusal):  # The second size of pairs is 2, which an empty list does not say.
        read({"inputs": inputs}, infos["numbers"])
    found, _ = read({"inputs": {"text": []}}, infos["serving_default"])
    assert found["text"].shape == (0,)


def test_too_many_rows_are_refused_before_their_values_are_read(infos):
    with pytest.raises(Refusal, match="5 rows, at most 4"):
        read({"instances": [7] * 5}, infos["serving_default"])


def test_answers_have_the_form_of_their_request():
    outputs = {"b": np.array([b"x", b"y"], object), "a": np.array([[1], [2]], np.int32)}
    rows = json.loads(json_tensors.answer(outputs, in_rows=True))
    assert rows == {"predictions": [{"a": [1], "b": "x"}, {"a": [2], "b": "y"}]}
    columns = json.loads(json_tensors.answer(outputs, in_rows=False))
    assert columns == {"outputs": {"a": [[1], [2]], "b": ["x", "y"]}}
    only = {"a": outputs["a"]}
    assert json.loads(json_tensors.answer(only, in_rows=True)) == {"predictions": [[1], [2]]}
    assert json.loads(json_tensors.answer(only, in_rows=False)) == {"outputs": [[1], [2]]}


def test_a_number_is_written_with_as_many_digits_as_it_has():
    values = np.array([0.1, -1 / 3, 1e-30, 16777216, np.nan], np.float32)
    text = json_tensors.answer({"x": values}, in_rows=False).decode()
    assert text == '{"outputs": [0.1, -0.33333334, 1e-30, 16777216.0, NaN]}'


def test_outputs_that_are_bytes_are_encoded():
    found = json_tensors.answer({"raw_bytes": np.array([b"\xff\x00"], object)}, in_rows=True)
    assert json.loads(found) == {"predictions": [{"b64": "/wA="}]}


def test_outputs_without_common_rows_cannot_be_rows():
    outputs = {"a": np.zeros(2), "b": np.zeros(3)}
    with pytest.raises(Refusal, match="no rows in common"):
        json_tensors.answer(outputs, in_rows=True)
