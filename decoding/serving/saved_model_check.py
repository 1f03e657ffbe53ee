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
from typing import NamedTuple

import numpy as np

from data_pipeline.files import UserError
from data_pipeline.tokenization.vocabularies import PAD_ID
from decoding.scoring import Scorer
from decoding.search.searcher import padded
from decoding.serving import saved_model_client
from decoding.serving.request_checks import DEFAULT
from decoding.serving.saved_model import queries_of

_BATCH_SIZE = 32
# Largest difference of attention weights and, relative to its size, of a score.
_TOLERANCE = 1e-4


class _Request(NamedTuple):
    """A request and the answer that the model gives.

    Attributes:
        lines: the R source lines of the request.
        signature: name of a signature of the SavedModel.
        inputs: name -> nested lists.
        answers: name of an output -> R values: str, lists of ids without padding, or arrays.
    """

    lines: list
    signature: str
    inputs: dict
    answers: dict


def check(saved_model, model, tokenizer, lines, translations, *, max_tokens):
    """Calls every signature of a SavedModel and compares its answers with the model's.

    Args:
        saved_model: its folder.
        model: `TranslationModel`.
        tokenizer: its `Tokenizer`.
        lines: list of str, none of more than `max_tokens`.
        translations: list of `Translation`, one for each line, found by the same search.
        max_tokens: longest line that the SavedModel accepts, on either side.

    Returns:
        list of the requests, which have a signature and inputs.

    Raises:
        UserError: the SavedModel fails, or its answers differ from the model's.
    """
    requests = list(_requests(model, tokenizer, lines, translations, max_tokens))
    wrong = {request.signature: [] for request in requests}
    for request, outputs in zip(requests, _outputs(saved_model, requests), strict=True):
        for row, line in enumerate(request.lines):
            for name, values in request.answers.items():
                here, there = values[row], outputs[name][row]
                if not _alike(here, there):
                    wrong[request.signature].append((line, there, here))
                    break
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
    return requests


def _requests(model, tokenizer, lines, translations, max_tokens):
    """Yields every `_Request`; the lines of a request have similar lengths."""
    scorer = Scorer(model, tokenizer, max_input_tokens=max_tokens)
    source = tokenizer.source.encode(lines)
    target = tokenizer.target.encode([translation.text for translation in translations])
    order = sorted(range(len(lines)), key=lambda i: len(source[i]))
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        texts = [lines[i] for i in rows]
        answers = [translations[i].text for i in rows]
        yield _Request(texts, "serving_default", {"text": texts}, {"translation": answers})

        source_ids = padded([source[i] for i in rows])
        lengths = [len(source[i]) for i in rows]
        inputs = {"source_ids": source_ids.tolist(), "source_lengths": lengths}
        answers = {"target_ids": [translations[i].ids for i in rows]}
        answers["target_lengths"] = [len(ids) for ids in answers["target_ids"]]
        yield _Request(texts, "translate_ids", inputs, answers)

        defaults = dict.fromkeys(("beam_size", "length_penalty", "n_best"), [DEFAULT] * len(rows))
        answers = {
            "translation": [[translations[i].text] for i in rows],
            "score": [np.array([translations[i].score]) for i in rows],
            "count": [1] * len(rows),
        }
        yield _Request(texts, "translate", {"text": texts, **defaults}, answers)

        # A translation may have more tokens than the SavedModel accepts.
        rows = [i for i in rows if len(target[i]) <= max_tokens]
        if rows:
            texts = [lines[i] for i in rows]
            source_ids = padded([source[i] for i in rows])
            target_ids = padded([target[i] for i in rows])
            inputs = {"source": texts, "target": [translations[i].text for i in rows]}
            pair = source_ids, target_ids
            real = {"source": source_ids != PAD_ID, "target": target_ids != PAD_ID}
            weights = np.asarray(model.align(*pair)) * real["target"][:, :, None]
            yield _Request(texts, "attention", inputs, {"attention": weights})
            log_probs = scorer.score(texts, inputs["target"])
            answers = {"log_prob": [np.array(scored.log_prob) for scored in log_probs]}
            yield _Request(texts, "score", inputs, answers)
            # Only for the shortest lines: all maps of all lines may be gigabytes of text.
            maps = {} if start else model.attention_maps(*pair)
            answers = {
                name: np.asarray(weights) * real[queries_of(name)][:, None, :, None]
                for name, weights in maps.items()
            }
            if answers:
                yield _Request(texts, "attention_maps", inputs, answers)


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


def _alike(here, there):
    if isinstance(here, np.ndarray):
        return here.shape == np.shape(there) and np.allclose(
            here, there, rtol=_TOLERANCE, atol=_TOLERANCE
        )
    if isinstance(here, list):
        return there[: len(here)] == here and not any(there[len(here) :])
    return here == there
