"""Flags of all scripts with values that are not numbers, or far out of range."""

import re

from tests.hostile.case import Case, Refused
from tests.hostile.inputs import wrong_numbers
from tests.hostile.prepared import quick

# Script -> flags that it requires.
_RUN = {
    "train": quick("transformer_tiny"),
    "translate": ("--model_dir=../models/bpe",),
    "visualize_attention": ("--model_dir=../models/bpe", "--source=one dog"),
    "align": ("--source=../models/valid.source", "--target=../models/valid.target"),
    "export": ("--model_dir=../models/bpe", "--export_dir=exported"),
}
# Script -> flag -> (type, least value).
_NUMBERS = {
    "train": {
        **dict.fromkeys(
            (
                *("num_replicas", "model1_steps", "model2_steps", "vocab_size"),
                *("num_pieces", "max_words"),
                *("max_sentences_per_batch", "decay_steps", "max_steps", "max_epochs", "patience"),
                *("bleu_lines", "intra_op_threads", "seed"),
            ),
            (int, 0),
        ),
        **dict.fromkeys(
            (
                *("min_word_count", "max_length", "max_tokens_per_batch", "accumulate_steps"),
                *("warmup_steps", "plateau_patience", "eval_every_steps", "save_every_steps"),
                *("log_every_steps", "average_checkpoints", "max_bad_steps"),
            ),
            (int, 1),
        ),
        **dict.fromkeys(("alpha", "learning_rate", "clip_norm", "max_minutes"), (float, 0)),
        **dict.fromkeys(("plateau_factor", "weight_decay", "adam_beta_2"), (float, 0)),
        **dict.fromkeys(("label_smoothing", "ema_decay"), (float, 0)),
        **dict.fromkeys(("temperature", "max_length_ratio"), (float, 1)),
    },
    "translate": {
        **dict.fromkeys(("beam_size", "batch_size", "n_best", "max_input_tokens"), (int, 1)),
        "length_penalty": (float, 0),
        "language_model_weight": (float, None),
    },
    "visualize_attention": {
        **dict.fromkeys(("layer", "beam_size"), (int, 1)),
        **{"gold_base": (int, 0), "num_words": (int, 2)},
    },
    "align": {
        **dict.fromkeys(("layer", "iterations"), (int, 1)),
        **{"gold_base": (int, 0), "threshold": (float, 0)},
    },
    "export": {"beam_size": (int, 1), "length_penalty": (float, 0)},
}
# (script, flag, value, description): valid numbers that are absurdly large or out of range.
_TOO_LARGE = (
    ("train", "num_pieces", 10**10, "more pieces than text"),
    ("train", "max_tokens_per_batch", 10**15, "more tokens than memory"),
    ("train", "seed", 2**32, "a seed of 33 bits"),
    ("train", "intra_op_threads", 100_000, "more threads than the system has"),
    ("train", "num_replicas", 10**6, "a million devices"),
    ("train", "max_length_ratio", 0.5, "a ratio below 1"),
    ("train", "label_smoothing", 1.0, "all of the probability"),
    ("train", "ema_decay", 1.0, "an average that never moves"),
    ("train", "adam_beta_2", 1.0, "an average that never moves"),
    ("train", "plateau_factor", 1.0, "a rate that never falls"),
    ("train", "learning_rate", -1e-3, "a step uphill"),
    ("train", "learning_rate", 1e9, "a step out of all range"),
    ("translate", "beam_size", 10**9, "a billion hypotheses"),
    ("translate", "batch_size", 10**12, "more sentences than int32 counts"),
    ("translate", "n_best", 5, "more than the beam"),
    ("translate", "length_penalty", 1e30, "a penalty that hides all scores"),
    ("visualize_attention", "beam_size", 10**9, "a billion hypotheses"),
    ("align", "threshold", 1.5, "a weight above 1"),
    ("export", "beam_size", 10**9, "a billion hypotheses"),
    ("export", "length_penalty", 1e30, "a penalty that hides all scores"),
)
# Script -> flag -> value that is not among its choices.
_WORDS = {
    "train": {
        **dict.fromkeys(("update", "tokenizer", "schedule", "optimizer", "loss_average"), "foo"),
        **dict.fromkeys(("keep_best_by", "precision", "distribution"), "foo"),
        **{"pad_to_bucket": "maybe", "jit_compile": "2", "model": "gpt5", "dataset": "wmt99"},
        "modle": "transformer_tiny",
    },
    "translate": {"tokenize": "foo", "scores": "maybe", "ouput": "x"},
    "visualize_attention": {
        **{"attention": "foo", "projection": "foo", "head": "first"},
        **{"sorce": "x", "source_file": "x", "symmetrise": "union"},
    },
    "align": {"model": "gpt5", "symmetrise": "foo", "head": "first", "sorce": "x"},
    "export": {"exprt_dir": "x"},
}


def cases():
    """Yields `Case`s."""
    for script, flags in _NUMBERS.items():
        for flag, (kind, minimum) in flags.items():
            for what, value in wrong_numbers(kind, minimum).items():
                yield _case(script, flag, value, what)
    for script, flag, value, what in _TOO_LARGE:
        yield _case(script, flag, value, what)
    for script, flags in _WORDS.items():
        for flag, value in flags.items():
            yield _case(script, flag, value, "no such word")


def _case(script, flag, value, what):
    arguments = (*_RUN[script], f"--{flag}={value}")
    name = f"{script}.py --{flag}: {what}"
    by_value = flag in ("dataset", "model")
    pattern = re.escape(str(value)) if by_value else rf"--?{flag}\b"
    return Case("numbers and words at flags", name, script, arguments, Refused(pattern))
