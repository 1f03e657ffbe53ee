"""Compares a SavedModel with the model that it was made from.

The SavedModel runs in a fresh process, in `saved_model_client` and without this project's code, so
that anything missing from it is noticed here and not on a server.
"""

import itertools
import json
import os
import reprlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.decoding.search.compiled import ROWS
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.translator import Translation
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.serving.export import saved_model_client
from nmt_zoo.serving.export.request_checks import DEFAULT
from nmt_zoo.serving.export.saved_model import COMPILED_SIGNATURES, MAX_WEIGHTS, queries_of
from nmt_zoo.serving.export.warm_up import COMPILED

_BATCH_SIZE = 32
# Largest difference of attention weights and, relative to its size, of a score.
_TOLERANCE = 1e-4


class _Request(NamedTuple):
    """A request and the answer that the model gives."""

    lines: list  # The R source lines of the request.
    signature: str  # Name of a signature of the SavedModel.
    inputs: dict  # Name -> nested lists.
    answers: dict  # Name of an output -> R values: str, lists of ids without padding, or arrays.


def check(
    saved_model: Path,
    model: TranslationModel,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    translations: Sequence[Translation],
    *,
    max_tokens: int,
    compiled: bool = False,
) -> list[Any]:
    """Calls every signature of a SavedModel and compares its answers with the model's.

    `max_tokens` is the longest line that the SavedModel accepts, on either side; no line has more.
    With `compiled`, it has compiled signatures.
    `translations` has one for each line, found by the same search. Returns the requests, which have
    a signature and inputs. Raises `UserError` if the SavedModel fails, or its answers differ.
    """
    requests = list(_requests(model, tokenizer, lines, translations, max_tokens))
    if compiled:
        requests += _of_compiled(requests)
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
        batch = [(lines[i], source[i], translations[i]) for i in rows]
        yield from _searches(*zip(*batch, strict=True))
        # A translation may have more tokens than the SavedModel accepts.
        pairs = [
            (lines[i], source[i], translations[i].text, target[i])
            for i in rows
            if len(target[i]) <= max_tokens
        ]
        if fitting := _fitting(pairs, 1):
            yield from _scores(model, scorer, *zip(*fitting, strict=True))
        # Only for the shortest lines: all maps of all lines may be gigabytes of text.
        if not start:
            yield from _maps(model, pairs)


def _fitting(pairs, num_heads):
    """Returns the shortest of `(line, source ids, text, target ids)` that a request may have."""
    pairs = sorted(pairs, key=_longest)
    most = itertools.takewhile(
        lambda count: count * num_heads * _longest(pairs[count - 1]) ** 2 <= MAX_WEIGHTS,
        range(1, len(pairs) + 1),
    )
    return pairs[: max(most, default=0)]


def _longest(pair):
    return max(len(pair[1]), len(pair[3]))


def _searches(lines, source, translations):
    texts, answers = list(lines), [translation.text for translation in translations]
    yield _Request(texts, "serving_default", {"text": texts}, {"translation": answers})

    lengths = [len(ids) for ids in source]
    inputs = {"source_ids": padded(source).tolist(), "source_lengths": lengths}
    answers = {"target_ids": [translation.ids for translation in translations]}
    answers["target_lengths"] = [len(ids) for ids in answers["target_ids"]]
    yield _Request(texts, "translate_ids", inputs, answers)

    defaults = dict.fromkeys(("beam_size", "length_penalty", "n_best"), [DEFAULT] * len(texts))
    answers = {
        "translation": [[translation.text] for translation in translations],
        "score": [np.array([translation.score]) for translation in translations],
        "count": [1] * len(texts),
    }
    yield _Request(texts, "translate", {"text": texts, **defaults}, answers)


def _of_compiled(requests):
    """Returns the requests to compiled signatures, in parts that are small enough for programs."""
    return [
        _Request(
            request.lines[start : start + ROWS[-1]],
            request.signature + COMPILED,
            *(
                {name: values[start : start + ROWS[-1]] for name, values in both.items()}
                for both in (request.inputs, request.answers)
            ),
        )
        for request in requests
        if request.signature in COMPILED_SIGNATURES
        for start in range(0, len(request.lines), ROWS[-1])
    ]


def _scores(model, scorer, lines, source, texts, target):
    """Yields the requests for alignments and scores of some pairs."""
    lines, inputs = list(lines), {"source": list(lines), "target": list(texts)}
    source_ids, target_ids = padded(source), padded(target)
    weights = np.asarray(model.align(source_ids, target_ids)) * (target_ids != PAD_ID)[:, :, None]
    yield _Request(lines, "attention", inputs, {"attention": weights})
    log_probs = scorer.score(lines, inputs["target"])
    answers = {"log_prob": [np.array(scored.log_prob) for scored in log_probs]}
    yield _Request(lines, "score", inputs, answers)


def _maps(model, pairs):
    """Yields the request for all attention maps of those pairs that it may have, if any."""
    nothing = np.array([[EOS_ID]], np.int32)
    num_heads = sum(maps.shape[1] for maps in model.attention_maps(nothing, nothing).values())
    pairs = _fitting(pairs, num_heads) if num_heads else []
    if not pairs:
        return
    lines, source, texts, target = zip(*pairs, strict=True)
    ids = {"source": padded(source), "target": padded(target)}
    answers = {
        name: np.asarray(weights) * (ids[queries_of(name)] != PAD_ID)[:, None, :, None]
        for name, weights in model.attention_maps(*ids.values()).items()
    }
    inputs = {"source": list(lines), "target": list(texts)}
    yield _Request(list(lines), "attention_maps", inputs, answers)


def _outputs(saved_model, requests):
    """Yields the outputs for each request, from a process that cannot import this project."""
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
