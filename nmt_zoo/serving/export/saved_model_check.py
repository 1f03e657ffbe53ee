"""Compares a SavedModel with the model that it was made from.

The SavedModel runs in a fresh process, in `saved_model_client` and without this project's code, so
that anything missing from it is noticed here and not on a server.
"""

import bisect
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
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.decoding.search.compiled import ROWS, WIDEST, WIDTHS
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.translator import Translation
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.serving.export import saved_model_client
from nmt_zoo.serving.export.requests_in_graph import DEFAULT
from nmt_zoo.serving.export.saved_model import MAX_WEIGHTS, queries_of

_BATCH_SIZE = 32
_SEARCHES = "serving_default", "translate"  # Signatures that translate.
# Largest difference of attention weights and, relative to its size, of a score.
_TOLERANCE = 1e-4
# In 8 bits, the last bit of a sum, which depends on the sizes of a batch, may decide how a number
# is rounded. So scores differ more, and of two translations with nearly equal scores either may
# win: for this share of the lines, or for one line.
_TOLERANCE_IN_8_BITS = 1e-2
_SHARE_IN_8_BITS = 0.02


class Request(NamedTuple):
    """A request and the answer that the model gives."""

    lines: Sequence[str]  # The R source lines of the request.
    signature: str  # Name of a signature of the SavedModel.
    inputs: dict  # Name -> nested lists.
    answers: dict  # Name of an output -> R values: str, lists of str, int, or arrays.


def check(
    saved_model: Path,
    model: TranslationModel | None,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    translations: Sequence[Translation],
    *,
    max_tokens: int,
    in_8_bits: bool = False,
) -> tuple[list[Request], int]:
    """Calls every signature of a SavedModel and compares its answers with the model's.

    `max_tokens` is the longest line that the SavedModel accepts, on either side; no line has more.
    `translations` has one for each line, found by the same search. `model` scores and attends;
    None: the SavedModel only translates. `in_8_bits` allows searches to round otherwise. Returns
    the requests, and how many lines are translated alike. Raises `UserError` if the SavedModel
    fails, or its answers differ.
    """
    requests = list(_requests(model, tokenizer, lines, translations, max_tokens))
    wrong = {request.signature: [] for request in requests}
    may_differ = max(1, int(_SHARE_IN_8_BITS * len(lines))) if in_8_bits else 0
    for request, outputs in zip(requests, _outputs(saved_model, requests), strict=True):
        is_rounded = in_8_bits and request.signature in _SEARCHES
        tolerance = _TOLERANCE_IN_8_BITS if is_rounded else _TOLERANCE
        for row, line in enumerate(request.lines):
            for name, values in request.answers.items():
                expected, answer = values[row], outputs[name][row]
                if not _alike(expected, answer, tolerance):
                    wrong[request.signature].append((line, answer, expected))
                    break
    differences = [
        f"{signature} for {len(different)} of {len(lines)} lines, such as "
        "{}: {} there, {} here".format(*map(reprlib.repr, different[0]))
        for signature, different in wrong.items()
        if len(different) > (may_differ if signature in _SEARCHES else 0)
    ]
    if differences:
        raise UserError(
            f"the exported model answers differently, so it was removed: {'; '.join(differences)}"
        )
    return requests, len(lines) - len(wrong[_SEARCHES[0]])


def requests_of_each_size(
    tokenizer: Tokenizer, lines: Sequence[str], translations: Sequence[Translation]
) -> list[Request]:
    """Returns searches of the sizes of all programs for lines as long as these."""
    by_width = {}
    for line, translation, ids in zip(
        lines, translations, tokenizer.source.encode(lines), strict=True
    ):
        width = WIDTHS[bisect.bisect_left(WIDTHS, len(ids))]
        by_width.setdefault(width, ([line], [translation]))
    return [
        request
        for width, (line, translation) in by_width.items()
        for rows in (ROWS if width <= WIDEST else ROWS[:1])
        for request in _searches(rows * line, rows * translation)
    ]


def _requests(model, tokenizer, lines, translations, max_tokens):
    """Yields every `Request`; the lines of a request have similar lengths."""
    scorer = Scorer(model, tokenizer, max_input_tokens=max_tokens) if model else None
    source = tokenizer.source.encode(lines)
    target = tokenizer.target.encode([translation.text for translation in translations])
    order = sorted(range(len(lines)), key=lambda i: len(source[i]))
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        yield from _searches([lines[i] for i in rows], [translations[i] for i in rows])
        if scorer is None:
            continue
        # A translation may have more tokens than the SavedModel accepts.
        pairs = [
            (lines[i], source[i], translations[i].text, target[i])
            for i in rows
            if len(target[i]) <= max_tokens
        ]
        if fitting := _fitting(pairs, 1):
            texts, _, targets, _ = zip(*fitting, strict=True)
            scores = [np.array(scored.log_prob) for scored in scorer.score(texts, targets)]
            inputs = {"source": texts, "target": targets}
            yield Request(texts, "score", inputs, {"log_prob": scores})
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


def _searches(lines, translations):
    """Yields the requests for the translations of lines."""
    answers = {"translation": [translation.text for translation in translations]}
    yield Request(lines, _SEARCHES[0], {"text": lines}, answers)
    defaults = dict.fromkeys(("beam_size", "length_penalty", "n_best"), [DEFAULT] * len(lines))
    answers = {
        "translation": [[translation.text] for translation in translations],
        "score": [np.array([translation.score]) for translation in translations],
        "count": [1] * len(lines),
    }
    yield Request(lines, _SEARCHES[1], {"text": lines, **defaults}, answers)


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
    yield Request(lines, "attention_maps", {"source": lines, "target": texts}, answers)


def _outputs(saved_model, requests):
    """Yields the outputs for each request, from a process that cannot import this project."""
    with tempfile.TemporaryDirectory() as folder:
        # Python finds modules in the folder of the program. The client must not find this project.
        client = shutil.copy(saved_model_client.__file__, folder)
        questions, answers = Path(folder, "requests"), Path(folder, "answers")
        with open(questions, "w", encoding="utf-8") as file:
            file.writelines(json.dumps([r.signature, r.inputs]) + "\n" for r in requests)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, client, str(Path(saved_model).resolve()), questions, answers],
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
        with open(answers, encoding="utf-8") as file:
            yield from map(json.loads, file)


def _alike(expected, answer, tolerance):
    if isinstance(expected, np.ndarray):
        return expected.shape == np.shape(answer) and np.allclose(
            expected, answer, rtol=tolerance, atol=tolerance
        )
    return expected == answer
