"""Requests that are answered together get the answers that they would get alone."""

import asyncio

import numpy as np
import pytest

from nmt_zoo.serving.server.loaded_model import ExportedModel
from nmt_zoo.serving.server.request_queue import RequestQueue


@pytest.fixture(scope="module")
def model(example):
    found = ExportedModel(example / "1")
    yield found
    found.close()


def answers(model, requests, seconds=60.0, max_rows=64):
    """Sends requests, (signature, inputs), at the same time; returns outputs or `Refusal`s."""

    async def send():
        queue = RequestQueue(max_rows=max_rows, num_threads=1, seconds=seconds)
        try:
            calls = [queue.answer(model, name, inputs) for name, inputs in requests]
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            queue.close()

    return asyncio.run(send())


def texts(*lines):
    return "serving_default", {"text": np.array([line.encode() for line in lines], object)}


def translations(outputs):
    return [line.decode() for line in outputs["translation"]]


def test_waiting_requests_are_answered_together_and_as_if_alone(model):
    lines = [[f"line {i} {j}" for j in range(i % 4)] for i in range(16)]
    found = answers(model, [texts(*some) for some in lines])
    assert [translations(outputs) for outputs in found] == [
        [line.upper() for line in some] for some in lines
    ]
    # The first found the thread idle; all others, 24 rows, waited for it.
    assert {int(outputs["rows"][0]) for outputs in found[1:] if outputs["rows"].size} == {24}


def test_joined_requests_have_a_limited_number_of_rows(model):
    found = answers(model, [texts("a", "b", "c")] * 6, max_rows=7)
    assert [int(outputs["rows"][0]) for outputs in found] == [3, 6, 6, 6, 6, 3]


def test_a_refused_request_harms_no_other(model):
    lines = [f"line {i}" for i in range(11)]
    lines[4] = lines[9] = "bad"
    found = answers(model, [texts("first"), *(texts("x", line) for line in lines)])
    for line, outputs in zip(lines, found[1:], strict=True):
        if line == "bad":  # The error counts the rows of its own request.
            assert (outputs.status, outputs.message) == (400, "text[[1]] is bad")
        else:
            assert translations(outputs) == ["X", line.upper()]


def test_requests_of_other_signatures_and_with_uneven_columns_stay_alone(model):
    one, two = np.array([b"a"], object), np.array([b"b", b"c"], object)
    pair = "pair", {"source": one, "target": one}
    uneven = "pair", {"source": two, "target": np.array([b"x"] * 3, object)}
    other = "pair", {"source": np.array([b"x"] * 3, object), "target": two}
    found = answers(model, [texts("first"), pair, uneven, texts("second"), other, pair])
    assert found[1]["joined"].tolist() == found[5]["joined"].tolist() == [b"aa"]
    assert [found[i].status for i in (2, 4)] == [400, 400]
    assert [translations(found[i]) for i in (0, 3)] == [["FIRST"], ["SECOND"]]


def test_a_request_that_takes_too_long_is_stopped_and_the_next_is_answered(model):
    long = "wait", {"seconds": np.array(100, np.float32)}
    found = answers(model, [long, texts("waits")], seconds=0.5)
    assert [refusal.status for refusal in found] == [504, 504]
    assert translations(answers(model, [texts("next")])[0]) == ["NEXT"]


def test_only_rows_of_fixed_size_are_joined(model):
    """Joined, the words of the shorter line would be padded to those of the longer one."""
    short, long = [("words", texts(line)[1]) for line in ("a", "b c d")]
    found = answers(model, [texts("first"), short, long])
    assert [each["words"].tolist() for each in found[1:]] == [[[b"a"]], [[b"b", b"c", b"d"]]]
