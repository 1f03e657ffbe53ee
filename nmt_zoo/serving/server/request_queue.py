"""Answers requests that arrive at the same time together.

A few threads call the model. A request that finds one of them idle is answered at once. The others
wait, and the next idle thread takes all that wait for the same signature, up to a number of rows.
So requests wait for no timer, and the more there are, the larger their batches.
"""

import asyncio
import collections
import dataclasses
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from nmt_zoo.serving.server.loaded_model import LoadedModel
from nmt_zoo.serving.server.refusals import Refusal


@dataclasses.dataclass(eq=False)
class _Item:
    """A request that waits."""

    model: Any
    signature: str  # Its name.
    inputs: dict  # Name -> array.
    rows: int | None  # Rows of every input, or None if it cannot be joined with others.
    deadline: float  # Time of `time.monotonic`.
    future: asyncio.Future  # Gets the outputs or a `Refusal`.


class RequestQueue:
    """The queue in front of the model; to be used in one event loop.

    Joins requests up to `max_rows` rows, and computes `num_threads` batches at the same time. After
    `seconds`, a request is given up.
    """

    def __init__(self, *, max_rows: int, num_threads: int, seconds: float) -> None:
        self._max_rows = max_rows
        self._seconds = seconds
        self._waiting = collections.deque()
        self._idle = num_threads
        self._threads = ThreadPoolExecutor(num_threads, "model")

    async def answer(
        self, model: LoadedModel, signature: str, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, name -> array.

        Raises `Refusal` if the model does not answer, or not in time.
        """
        lengths = {array.shape[:1] for array in inputs.values()}
        rows = None
        if len(lengths) == 1 and model.is_joinable(signature):
            ((rows,),) = lengths
        deadline = time.monotonic() + self._seconds
        future = asyncio.get_running_loop().create_future()
        item = _Item(model, signature, inputs, rows, deadline, future)
        self._waiting.append(item)
        self._start()
        try:
            return await within(self._seconds, future)
        finally:
            if item in self._waiting:
                self._waiting.remove(item)

    def close(self) -> None:
        """Ends the threads, after their last request."""
        self._threads.shutdown()

    def _start(self):
        """Gives batches to idle threads."""
        loop = asyncio.get_running_loop()
        while self._idle and self._waiting:
            self._idle -= 1
            batch = self._next_batch()
            task = loop.run_in_executor(self._threads, _answers, batch)
            task.add_done_callback(lambda task, batch=batch: self._finish(task, batch))

    def _next_batch(self):
        """Takes the first request from the queue, and others that can be joined with it."""
        first = self._waiting.popleft()
        batch, rows = [first], first.rows
        if rows is not None:
            for item in list(self._waiting):
                alike = item.model is first.model and item.signature == first.signature
                if alike and item.rows is not None and rows + item.rows <= self._max_rows:
                    batch.append(item)
                    rows += item.rows
                    self._waiting.remove(item)
        return batch

    def _finish(self, task, batch):
        self._idle += 1
        error = task.exception()
        answers = [error] * len(batch) if error else task.result()
        for item, found in zip(batch, answers, strict=True):
            if item.future.done():  # The request has been given up.
                continue
            if isinstance(found, Exception):
                item.future.set_exception(found)
            else:
                item.future.set_result(found)
        self._start()


async def within(seconds: float, result: Awaitable) -> Any:
    """Waits for a result; raises `Refusal` if it does not come in time."""
    try:
        return await asyncio.wait_for(result, seconds)
    except asyncio.TimeoutError:  # Before Python 3.11, no TimeoutError.
        raise Refusal(504, f"no answer within {seconds:g} seconds") from None


def _answers(batch):
    """Answers requests together; returns outputs or a `Refusal` for each.

    A request that the model refuses must not harm the others: then each half is answered alone.
    """
    try:
        return _joined_answers(batch)
    except Refusal as refusal:
        if len(batch) == 1 or refusal.status == 504:
            return [refusal] * len(batch)
    half = len(batch) // 2
    return _answers(batch[:half]) + _answers(batch[half:])


def _joined_answers(batch):
    first, *others = batch
    seconds = max(item.deadline for item in batch) - time.monotonic()
    if not others:
        return [first.model.run(first.signature, first.inputs, seconds)]
    inputs = {name: np.concatenate([item.inputs[name] for item in batch]) for name in first.inputs}
    outputs = first.model.run(first.signature, inputs, seconds)
    ends = np.cumsum([item.rows for item in batch])
    if any(len(values) != ends[-1] for values in outputs.values()):
        raise Refusal(500, "the model gave another number of rows")
    parts = {name: np.split(values, ends[:-1]) for name, values in outputs.items()}
    return [{name: parts[name][i] for name in parts} for i in range(len(batch))]
