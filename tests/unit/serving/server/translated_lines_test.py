"""Lines of several sentences, and warnings about unusual lines, in requests to the server."""

import asyncio
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.serving.server.refusals import Refusal
from nmt_zoo.serving.server.translated_lines import LineTranslations

TEXT = TrainingText.of(["one dog ran .", "a cat ."] * 50)


class Queue:
    """Translates into upper case in place of a model, `n_best` times; refuses "bad"."""

    def __init__(self):
        self.sizes = []

    async def answer(self, model, signature, inputs):
        lines = [text.decode() for text in inputs["text"]]
        self.sizes.append(len(lines))
        if "bad" in lines:
            raise Refusal(400, f"text[{lines.index('bad')}] is bad")
        scores = np.array([-float(len(line)) for line in lines], np.float32)
        texts = np.array([line.strip().upper().encode() for line in lines], object)
        if "n_best" not in inputs:
            return {"translation": texts, "score": scores}
        most = max(1, inputs["n_best"].max())
        found = {"translation": texts, "score": scores}
        found = {name: np.repeat(array[:, None], most, axis=1) for name, array in found.items()}
        return {**found, "count": np.maximum(inputs["n_best"], 1).astype(np.int32)}


def answer(lines, split_sentences="auto", training_text=TEXT, n_best=None, max_rows=2):
    signature = SimpleNamespace(outputs={"translation": None, "score": None})
    model = SimpleNamespace(signatures={"any": signature}, training_text=training_text)
    inputs = {"text": np.array([line.encode() for line in lines], object)}
    if n_best:
        inputs["n_best"] = np.array(n_best, np.int32)
    queue = Queue()
    translations = LineTranslations(queue, split_sentences, max_rows, 60)
    outputs, warnings = asyncio.run(translations.answer(model, "any", inputs))
    assert max(queue.sizes) <= max(max_rows, len(lines))
    return {name: array.tolist() for name, array in outputs.items()}, warnings


def test_sentences_of_a_line_are_translated_by_themselves_and_joined_a_few_rows_at_a_time():
    lines = ["one dog ran . a dog . a cat .", "one dog", "", "a dog . a dog ."]
    found, warnings = answer(lines)
    assert found["translation"] == [line.upper().encode() for line in lines]
    assert found["score"] == [-9.0, -7.0, 0.0, -7.0]  # The mean of those of the sentences.
    assert warnings[0].endswith("(see --split_sentences): 2 of 4 (lines 1, 4)")
    assert answer(lines, "never")[0]["score"][0] == -len(lines[0])
    assert answer(lines, training_text=None)[0]["score"][0] == -len(lines[0])
    assert answer(lines, "always", None)[0]["score"][0] == -9


def test_a_text_of_several_lines_keeps_them():
    text = "a dog . a cat .\n\none dog\n"
    found, _ = answer([text])
    assert found["translation"] == [b"A DOG . A CAT .\n\nONE DOG"]
    assert found["score"] == [np.float32(-(7 + 7 + 8) / 3)]
    assert answer(["a dog .\na cat ."])[0]["score"] == [-15]  # The model finds its lines itself.
    in_documents = dataclasses.replace(TEXT, context_sentences=1)
    assert answer([text], training_text=in_documents)[0]["score"] == [-len(text)]


def test_lines_with_several_translations_stay_whole_beside_those_in_parts():
    lines = ["a dog . a cat .", "a dog . a cat .", "dog"]
    found, warnings = answer(lines, n_best=[-1, 2, 3])
    assert found["score"] == [[-7, 0, 0], [-15] * 3, [-3] * 3]
    assert found["translation"][0] == [b"A DOG . A CAT .", b"", b""] and found["count"] == [1, 2, 3]
    assert len([each for each in warnings if each.startswith("lines of several")]) == 2


def test_a_refusal_names_the_line_and_not_the_sentence():
    with pytest.raises(Refusal) as refusal:
        answer(["a dog . a cat .", "dog", "bad"])
    assert refusal.value.message == "text[2] is bad"


def test_usual_lines_and_other_signatures_have_no_warnings():
    assert answer(["one dog ran ."])[1] == []
    assert answer([]) == ({"translation": [], "score": []}, [])
    (warning,) = answer(["one dog ran é"])[1]
    assert warning == (
        "lines with characters that training never saw, such as é (U+00E9): 1 of 1 (line 1)"
    )
