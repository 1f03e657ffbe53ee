"""Answers requests that arrive at the same time together.

A few threads call the model. A request that finds one of them idle is answered at once. The others
wait, and the next idle thread takes all that wait for the same function, up to a number of rows. So
requests wait for no timer, and the more there are, the larger their batches.
"""

import asyncio
import collections
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException

from nmt_zoo.common.errors import UserError


@dataclasses.dataclass(eq=False)
class _Item:
    """A request that waits."""

    function: Callable
    rows: Sequence
    cost: float
    answers: asyncio.Future


class RequestQueue:
    """The queue in front of the model; to be used in one event loop.

    Joins requests up to a cost of `max_rows`, and computes `num_threads` batches at the same time.
    After `seconds`, a request is given up.
    """

    def __init__(self, *, max_rows: int, num_threads: int, seconds: float) -> None:
        self._max_rows = max_rows
        self._seconds = seconds
        self._waiting = collections.deque()
        self._num_idle = num_threads
        self._threads = ThreadPoolExecutor(num_threads, "model")

    async def answer(self, function: Callable, rows: Sequence, cost: float) -> list[Any]:
        """Returns the answers of a function of a list of rows, perhaps with rows of others.

        Raises `HTTPException` if the function raises `UserError`, or does not return in time.
        """
        item = _Item(function, rows, cost, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._start()
        try:
            return await asyncio.wait_for(item.answers, self._seconds)
        except asyncio.TimeoutError:  # Before Python 3.11, no TimeoutError.
            raise HTTPException(504, f"no answer within {self._seconds:g} seconds") from None
        finally:
            if item in self._waiting:
                self._waiting.remove(item)

    def close(self) -> None:
        """Ends the threads, after their last request."""
        self._threads.shutdown()

    def _start(self):
        """Gives batches to idle threads."""
        loop = asyncio.get_running_loop()
        while self._num_idle and self._waiting:
            self._num_idle -= 1
            batch = self._next_batch()
            task = loop.run_in_executor(self._threads, _answers, batch)
            task.add_done_callback(lambda task, batch=batch: self._finish(task, batch))

    def _next_batch(self):
        """Takes the first request from the queue, and others that can be joined with it."""
        first = self._waiting.popleft()
        batch, cost = [first], first.cost
        for item in list(self._waiting):
            if item.function == first.function and cost + item.cost <= self._max_rows:
                batch.append(item)
                cost += item.cost
                self._waiting.remove(item)
        return batch

    def _finish(self, task, batch):
        self._num_idle += 1
        for item, answers in zip(batch, task.result(), strict=True):
            if item.answers.done():  # The request has been given up.
                continue
            if isinstance(answers, Exception):
                item.answers.set_exception(answers)
            else:
                item.answers.set_result(answers)
        self._start()


def _answers(batch):
    """Answers requests together; returns a list of answers, or an error, for each.

    A request that fails must not harm the others: then each is answered alone.
    """
    try:
        answers = iter(batch[0].function([row for item in batch for row in item.rows]))
        return [list(itertools.islice(answers, len(item.rows))) for item in batch]
    except Exception as error:
        if len(batch) == 1:
            return [HTTPException(400, str(error)) if isinstance(error, UserError) else error]
    return [_answers([item])[0] for item in batch]
