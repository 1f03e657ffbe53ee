"""Compares a SavedModel with the model that it was made from.

The SavedModel runs in a fresh process, in `saved_model_client` and without this project's code, so
that anything missing from it is noticed here and not on a server.
"""

import json
import os
import reprlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data_pipeline.files import UserError
from data_pipeline.tokenization.vocabularies import PAD_ID
from decoding.search.searcher import padded
from decoding.serving import saved_model_client

_BATCH_SIZE = 32
_TOLERANCE = 1e-4  # Largest difference of attention weights.


class _Request(NamedTuple):
    """A request and the answer that the model gives.

    Attributes:
        lines: the R source lines of the request.
        signature: name of a signature of the SavedModel.
        inputs: name -> nested lists.
        answers: R answers, of the type that `_answers` makes.
    """

    lines: list
    signature: str
    inputs: dict
    answers: Any


def check(saved_model, model, tokenizer, lines, translations, *, max_tokens):
    """Calls every signature of a SavedModel and compares its answers with the model's.

    Args:
        saved_model: its folder.
        model: `TranslationModel`.
        tokenizer: its `Tokenizer`.
        lines: list of str, none of more than `max_tokens`.
        translations: list of `Translation`, one for each line, found by the same search.
        max_tokens: longest line that the SavedModel accepts, on either side.

    Raises:
        UserError: the SavedModel fails, or its answers differ from the model's.
    """
    requests = list(_requests(model, tokenizer, lines, translations, max_tokens))
    wrong = {request.signature: [] for request in requests}
    for request, outputs in zip(requests, _outputs(saved_model, requests), strict=True):
        answers = _answers(request.signature, outputs)
        for line, here, there in zip(request.lines, request.answers, answers, strict=True):
            if not _alike(here, there):
                wrong[request.signature].append((line, there, here))
    differences = [
        f"{signature} for {len(different)} of {len(lines)} lines, such as "
        "{}: {} there, {} here".format(*map(reprlib.repr, different[0]))
        for signature, different in wrong.items()
        if different
    ]
    if differences:
        raise UserError(
            f"the exported model answers differently, so it was removed: {'; '.join(differences)}"
        )


def _requests(model, tokenizer, lines, translations, max_tokens):
    """Yields every `_Request`; the lines of a request have similar lengths."""
    source = tokenizer.source.encode(lines)
    target = tokenizer.target.encode([translation.text for translation in translations])
    order = sorted(range(len(lines)), key=lambda i: len(source[i]))
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        texts = [lines[i] for i in rows]
        answers = [translations[i].text for i in rows]
        yield _Request(texts, "serving_default", {"text": texts}, answers)

        source_ids = padded([source[i] for i in rows])
        lengths = [len(source[i]) for i in rows]
        inputs = {"source_ids": source_ids.tolist(), "source_lengths": lengths}
        yield _Request(texts, "translate_ids", inputs, [translations[i].ids for i in rows])

        # A translation may have more tokens than the SavedModel accepts.
        rows = [i for i in rows if len(target[i]) <= max_tokens]
        if rows:
            texts = [lines[i] for i in rows]
            source_ids = padded([source[i] for i in rows])
            target_ids = padded([target[i] for i in rows])
            inputs = {"source": texts, "target": [translations[i].text for i in rows]}
            weights = np.asarray(model.align(source_ids, target_ids))
            weights = np.where(target_ids[:, :, None] == PAD_ID, 0.0, weights)
            yield _Request(texts, "attention", inputs, weights)


def _outputs(saved_model, requests):
    """Yields the outputs for each request, from a process that cannot import this project.

    Raises:
        UserError: the process fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Python finds modules in the folder of the program. The client must not find this project.
        client = shutil.copy(saved_model_client.__file__, folder)
        asked, answered = Path(folder, "requests"), Path(folder, "answers")
        with open(asked, "w", encoding="utf-8") as file:
            file.writelines(json.dumps([r.signature, r.inputs]) + "\n" for r in requests)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, client, str(Path(saved_model).resolve()), str(asked), str(answered)],
            cwd=folder,
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "2"},
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            *_, reason = ["no reason given", *filter(str.strip, done.stderr.splitlines())]
            raise UserError(
                "the exported model fails in a fresh process, so it was removed: "
                f"status {done.returncode}, {reason}"
            )
        with open(answered, encoding="utf-8") as file:
            yield from map(json.loads, file)


def _answers(signature, outputs):
    """Returns the answer for each line: a str, a list of ids, or `[T, S]` nested lists."""
    if signature == "serving_default":
        return outputs["translation"]
    if signature == "attention":
        return outputs["attention"]
    rows = zip(outputs["target_ids"], outputs["target_lengths"], strict=True)
    return [ids[:length] for ids, length in rows]


def _alike(here, there):
    if isinstance(here, np.ndarray):
        return here.shape == np.shape(there) and np.allclose(here, there, rtol=0, atol=_TOLERANCE)
    return here == there
