"""Chooses the engine with which translate.py searches; CTranslate2 starts without TensorFlow."""

import contextlib
import importlib.util
import os
import stat
import sys
from typing import Any

from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.decoding.search.types import ALWAYS
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2.engine import load_directory

TENSORFLOW, CTRANSLATE2 = "tensorflow", "ctranslate2"
# Flags with which both engines write the same text.
_BOTH = {"engine", "verbose", "model_dir", "input", "input_column", "output", "tag"}
_BOTH |= {"beam_size", "length_penalty", "split_sentences", "long_lines"}
_BOTH |= {"source_language", "target_language", "markup"}
# With larger length penalties, CTranslate2 ends some searches before the best translation.
_LARGEST_PENALTY = 1.0
# Longest file in bytes for which the start takes more time than TensorFlow may save later.
_SHORT = 100_000


def start_tensorflow(args: Any) -> None:
    """Starts TensorFlow for searches of several batches at a time."""
    # A thread for each batch is faster than several threads for one operation after the other. But
    # all programs of XLA share the threads of operations.
    is_compiled = args.compile == ALWAYS or args.precision in ("int8", AUTO)
    process.start_tensorflow(intra_op_threads=num_cores() if is_compiled else 1)


def convert_if_chosen(args: Any) -> tuple[ModelDirectory | None, Any, str]:
    """Returns (model directory, what `load_directory` returns, reason).

    The first two are None if TensorFlow translates. `args` are the flags of translate.py, without
    --export_dir. Raises `UserError` if CTranslate2 is asked for, and cannot run the model.
    """
    reason = _why_tensorflow(args) if args.engine == AUTO else "asked for"
    if args.engine == TENSORFLOW or (args.engine == AUTO and reason):
        return None, None, reason
    directory = ModelDirectory(args.model_dir, needs_keras=False)
    try:
        loaded = load_directory(directory, args.max_input_tokens, args.languages)
    except (UserError, OSError) as error:
        if args.engine == CTRANSLATE2:
            raise
        return None, None, str(error)
    if args.engine == AUTO and (reason := _why_other_text(args, *loaded)):
        return None, None, reason
    return directory, loaded, reason or "it starts sooner, and the text is short"


def _why_other_text(args, _, tokenizer, config):
    """Returns why the text of CTranslate2 would differ for a model; "" if it would be the same."""
    if tokenizer.kind != "bpe":  # CTranslate2 gives the probability of UNK to the other words.
        return f"--tokenizer={tokenizer.kind}"
    penalty = config["length_penalty"] if args.length_penalty is None else args.length_penalty
    return f"--length_penalty={penalty:g}" if penalty > _LARGEST_PENALTY else ""


def _why_tensorflow(args):
    """Returns the reason for TensorFlow, or "" if there is none before the model is read."""
    if others := sorted(args.given - _BOTH):
        return f"--{others[0]}"
    if importlib.util.find_spec("ctranslate2") is None:
        return "the package ctranslate2 is not installed"
    with contextlib.suppress(OSError):
        status = os.stat(args.input or sys.stdin.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size > _SHORT:
            return f"more than {_SHORT:,} bytes of text"
    import ctranslate2

    return "a GPU" if ctranslate2.get_cuda_device_count() else ""
