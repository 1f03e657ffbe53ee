"""Requests for translations: lines of several sentences, and warnings about unusual lines.

A signature translates lines if it has an input `text` and outputs `translation` and `score`, one or
several for each line, see `serving.export.saved_model`. All other requests pass unchanged.
"""

import asyncio
import collections
import re
from collections.abc import Mapping

import numpy as np

from nmt_zoo.decoding.text.remarks import TextRemarks
from nmt_zoo.decoding.text.splitting import sentences
from nmt_zoo.serving.server.loaded_model import LoadedModel
from nmt_zoo.serving.server.refusals import Refusal
from nmt_zoo.serving.server.request_queue import RequestQueue, within

_OUTPUTS = ("translation", "score")
_ROW = re.compile(r"^(\w+\[)(\d+)(?=\])")  # At the beginning of a refusal's message.


class LineTranslations:
    """Answers requests; each sentence of a line may be translated by itself, as in translate.py.

    The translations of its sentences are joined, and their scores averaged. A text of several lines
    keeps its line feeds; a model that reads the sentences before a line gets such a text whole.
    `split_sentences` is "auto", "always" or "never", see translate.py. The model gets at most
    `max_rows` rows at once. After `seconds`, a request is given up.
    """

    def __init__(
        self, queue: RequestQueue, split_sentences: str, max_rows: int, seconds: float
    ) -> None:
        self._queue = queue
        self._split_sentences = split_sentences
        self._max_rows = max_rows
        self._seconds = seconds

    async def answer(
        self, model: LoadedModel, signature: str, inputs: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """Answers a request; returns name -> array, and warnings. May raise `Refusal`."""
        outputs = model.signatures[signature].outputs
        if "text" not in inputs or not {*_OUTPUTS} <= set(outputs):
            return await self._queue.answer(model, signature, inputs), []
        parts = await asyncio.to_thread(self._parts_of, model, inputs)
        if all(len(each) == 1 for each in parts):
            outputs = await self._queue.answer(model, signature, inputs)
        else:
            joined = self._joined(model, signature, inputs, parts)
            outputs = await within(self._seconds, joined)
        return outputs, await asyncio.to_thread(_warnings, model, parts, inputs, outputs)

    def _parts_of(self, model, inputs):
        """Returns the sentences of each line, or only the line."""
        most = {"always": 1, "never": 0}.get(self._split_sentences)
        if most is None:
            most = model.training_text.most_sentences if model.training_text else 0
        # Of a line in parts there is one translation.
        several = inputs.get("n_best", np.ones(len(inputs["text"]))) > 1
        found = []
        whole = model.training_text and model.training_text.context_sentences
        for text, is_several in zip(_lines(inputs), several, strict=True):
            is_whole = not most or is_several or (whole and "\n" in text.strip())
            found.append([text] if is_whole else _split(text, most))
        return found

    async def _joined(self, model, signature, inputs, parts):
        """Answers a request in which lines have parts, some rows at a time."""
        owners = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
        rows = {name: array[owners] for name, array in inputs.items()}
        rows["text"][:] = [part.encode() for each in parts for part in each]
        found = collections.deque()  # name -> value, for each part.
        for start in range(0, len(owners), self._max_rows):
            some = {name: array[start : start + self._max_rows] for name, array in rows.items()}
            try:
                outputs = await self._queue.answer(model, signature, some)
            except Refusal as refusal:
                refusal.message = _about_lines(refusal.message, owners[start:])
                raise
            found += [
                {name: array[row, ...] for name, array in outputs.items()}
                for row in range(len(some["text"]))
            ]
        joined = [_joined_row(each, [found.popleft() for _ in each]) for each in parts]
        return {name: _stacked([row[name] for row in joined]) for name in joined[0]}


def _split(text, most):
    """Splits lines of more than `most` sentences; the first part of a new line has a line feed."""
    found = []
    for line in text.strip().split("\n"):
        parts = sentences(line)
        first, *others = parts if len(parts) > most else [line]
        found += [f"\n{first}" if found else first, *others]
    return found if len(found) > 1 + text.strip().count("\n") else [text]


def _about_lines(message, owners):
    """Replaces the number of a row in a message by that of its line."""
    return _ROW.sub(lambda match: f"{match[1]}{owners[int(match[2])]}", message)


def _joined_row(parts, outputs):
    """Joins the outputs for the parts of a text, each name -> array; the first of each counts."""
    joined = {name: value.copy() for name, value in outputs[0].items()}
    if len(parts) > 1:
        texts, scores = ([output[name].flat[0] for output in outputs] for name in _OUTPUTS)
        text = texts[0]
        for part, more in zip(parts[1:], texts[1:], strict=True):
            text += (b"\n" if part[0] == "\n" else b" " if text and more else b"") + more
        joined["translation"].flat[0] = text
        real = [score for part, score in zip(parts, scores, strict=True) if part.strip()]
        joined["score"].flat[0] = np.mean(real)
    return joined


def _stacked(rows):
    """Makes one array of the values of each row, which may be lists of different lengths."""
    shape = np.max([row.shape for row in rows], axis=0).astype(int)
    stacked = np.full([len(rows), *shape], b"" if rows[0].dtype == object else 0, rows[0].dtype)
    for number, row in enumerate(rows):
        stacked[(number, *map(slice, row.shape), ...)] = row
    return stacked


def _warnings(model, parts, inputs, outputs):
    """Returns what is unusual about the lines and their best translations, a str for each kind."""
    remarks = TextRemarks(model.training_text, lambda line, number: parts[number - 1])
    best = [outputs["translation"][row, ...].flat[0] for row in range(len(parts))]
    for line, text in zip(_lines(inputs), best, strict=True):
        remarks.add_text(line, text.decode(errors="replace"))
    return list(remarks)


def _lines(inputs):
    return [text.decode(errors="replace") for text in inputs["text"]]
