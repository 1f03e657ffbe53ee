"""Chooses the engine with which translate.py searches; CTranslate2 starts without TensorFlow."""

import contextlib
import importlib.util
import os
import stat
import sys
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.serving.ctranslate2.converted import ConvertedModel

TENSORFLOW, CTRANSLATE2 = "tensorflow", "ctranslate2"
# Flags with which both engines write the same text.
_BOTH = {"engine", "verbose", "model_dir", "input", "input_column", "output", "tag"}
_BOTH |= {"beam_size", "length_penalty", "split_sentences", "long_lines"}
_BOTH |= {"source_language", "target_language"}
# With larger length penalties, CTranslate2 ends some searches before the best translation.
_LARGEST_PENALTY = 1.0
# Longest file in bytes for which the start takes more time than TensorFlow may save later.
_SHORT = 100_000


def convert_if_chosen(args: Any, given: set[str]) -> tuple[str, ConvertedModel | None, Any, str]:
    """Returns (engine, model directory and what its `load` returns if CTranslate2 runs it, reason).

    `args` are the flags of translate.py, without --export_dir; `given` are the names of those on
    the command line. Raises `UserError` if CTranslate2 is asked for, and cannot run the model.
    """
    reason = "asked for"
    if args.engine == AUTO:
        reason = _why_tensorflow(args, given)
    if args.engine == TENSORFLOW or (args.engine == AUTO and reason):
        return TENSORFLOW, None, None, reason
    directory = ConvertedModel(args.model_dir, args.max_input_tokens, args.languages)
    try:
        loaded = directory.load()
    except (UserError, OSError) as error:
        if args.engine == CTRANSLATE2:
            raise
        return TENSORFLOW, None, None, str(error)
    if args.engine == AUTO and (reason := _why_other_text(args, *loaded)):
        return TENSORFLOW, None, None, reason
    return CTRANSLATE2, directory, loaded, reason or "it starts sooner, and the text is short"


def _why_other_text(args, _, tokenizer, config):
    """Returns why the text of CTranslate2 would differ for a model; "" if it would be the same."""
    if tokenizer.kind != "bpe":  # CTranslate2 gives the probability of UNK to the other words.
        return f"--tokenizer={tokenizer.kind}"
    penalty = config["length_penalty"] if args.length_penalty is None else args.length_penalty
    return f"--length_penalty={penalty:g}" if penalty > _LARGEST_PENALTY else ""


def _why_tensorflow(args, given):
    """Returns the reason for TensorFlow, or "" if there is none before the model is read."""
    others = sorted(given - _BOTH)
    if others:
        return f"--{others[0]}"
    if importlib.util.find_spec("ctranslate2") is None:
        return "the package ctranslate2 is not installed"
    if _size(args.input) > _SHORT:
        return f"more than {_SHORT:,} bytes of text"
    import ctranslate2

    return "a GPU" if ctranslate2.get_cuda_device_count() else ""


def _size(path):
    """Returns the bytes of a file, or of standard input if it is one; 0 if that is unknown."""
    with contextlib.suppress(OSError):
        found = os.stat(path or sys.stdin.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0
