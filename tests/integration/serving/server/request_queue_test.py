"""Requests that are answered together get the answers that they would get alone."""

import asyncio
import time

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.server.request_queue import RequestQueue


def upper(lines):
    """Answers with (upper case, number of lines at once); refuses `bad`, breaks at `broken`."""
    if "bad" in lines:
        raise UserError("a line is bad")
    if "broken" in lines:
        raise ValueError("broken")
    return [(line.upper(), len(lines)) for line in lines]


def other(lines):
    return [(f"other {line}", len(lines)) for line in lines]


def slow(seconds):
    time.sleep(seconds[0])
    return seconds


def answers(requests, seconds=60.0, max_rows=64):
    """Sends requests, (function, rows), at the same time; returns answers or exceptions."""

    async def send():
        queue = RequestQueue(max_rows=max_rows, num_threads=1, seconds=seconds)
        try:
            calls = [queue.answer(*request, len(request[1])) for request in requests]
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            queue.close()

    return asyncio.run(send())


def test_waiting_requests_are_answered_together_and_as_if_alone():
    lines = [[f"line {i} {j}" for j in range(1 + i % 4)] for i in range(16)]
    answered = answers([(upper, of_request) for of_request in lines])
    assert [[text for text, _ in rows] for rows in answered] == [
        [line.upper() for line in of_request] for of_request in lines
    ]
    # The first found the thread idle; all others, 39 rows, waited for it.
    assert {size for rows in answered[1:] for _, size in rows} == {39}


def test_joined_requests_have_a_limited_number_of_rows():
    answered = answers([(upper, ["a", "b", "c"])] * 6, max_rows=7)
    assert [rows[0][1] for rows in answered] == [3, 6, 6, 6, 6, 3]


def test_a_request_that_fails_harms_no_other():
    lines = [f"line {i}" for i in range(11)]
    lines[4], lines[9] = "bad", "broken"
    refused, broken = (answered := answers([(upper, ["x", line]) for line in lines]))[4::5]
    assert (refused.status_code, refused.detail) == (400, "a line is bad")
    assert isinstance(broken, ValueError)
    for line, rows in zip(lines, answered, strict=True):
        if line not in ("bad", "broken"):
            assert [text for text, _ in rows] == ["X", line.upper()]


def test_requests_for_another_function_stay_alone():
    answered = answers([(upper, ["first"]), (other, ["a"]), (upper, ["b"]), (other, ["c"])])
    assert answered == [[("FIRST", 1)], [("other a", 2)], [("B", 1)], [("other c", 2)]]


@pytest.mark.parametrize("rows", [["waits"], ["bad"]])
def test_a_request_that_takes_too_long_is_given_up_and_what_waits_behind_it(rows):
    given_up = answers([(slow, [0.6]), (upper, rows)], seconds=0.3)
    assert [error.status_code for error in given_up] == [504, 504]
