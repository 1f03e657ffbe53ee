"""Tests of training options: their order of precedence, and refusals of contradictions."""

import contextlib
import json

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import BY_NAME, OPTIONS
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training import pace, setup
from nmt_zoo.training.ways.catalogue import check_options

UNFIT = {
    "counts in 16 bits": ("ibm1", {"precision": "bfloat16"}, "not with --model=ibm1 --update=em"),
    "counts under XLA": ("hmm_alignment", {"jit_compile": True}, "leave it out"),
    "iterations of a gradient": ("ibm2", {"update": "gradient", "alpha": 0.1}, "--alpha=0.1: not"),
    "counts of a network": ("lstm_luong", {"update": "em"}, "by em: ibm1, ibm2, hmm_align"),
    "batches of an iteration": ("ibm2", {"max_sentences_per_batch": 9}, "batch=9: not with"),
    "shapes of an iteration": ("ibm1", {"pad_to_bucket": True}, "--pad_to_bucket=True: not"),
    "means of no loss": ("ibm1", {"loss_average": "sentences"}, "--loss_average=sentences: not"),
    "smooth counts": ("ibm1", {"label_smoothing": 0.1}, "--label_smoothing=0.1: not"),
    "shares of an iteration": ("ibm1", {"corpus_weights": "1,3"}, "takes every pair exactly once"),
    "best of no translations": (
        "lstm_luong",
        {"keep_best_by": "bleu", "bleu_lines": 0},
        "needs --bleu_lines",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_options_that_do_not_fit_are_refused(name):
    preset, given, message = UNFIT[name]
    with pytest.raises(UserError, match=message):
        check_options(preset, options_of(preset, "demo", given), given)


def test_no_option_of_gradient_descent_is_ignored_by_another_way_of_training():
    group = BY_NAME["learning_rate"].group
    of_gradient = [option for option in OPTIONS if option.group == group]
    assert {"adam_beta_2", "warmup_steps", "clip_norm"} <= {option.name for option in of_gradient}
    for option in of_gradient:
        given = {option.name: option.choices[-1] if option.choices else option.default or 1}
        for preset in ("ibm1", "hmm_fertility", "ngram_lm"):
            with pytest.raises(UserError, match=f"--{option.name}"):
                check_options(preset, options_of(preset, "demo", given), given)


def test_a_fall_that_is_shorter_than_a_warm_up_is_for_the_pace():
    given = {"schedule": "cosine", "max_steps": 500}
    options = options_of("transformer_tiny", "files", given)
    check_options("transformer_tiny", options, given, pace.NAMES)
    with pytest.raises(UserError, match="of at least --warmup_steps, 1,000; found 500"):
        check_options("transformer_tiny", options, given)
    del given["max_steps"]
    options = options_of("transformer_tiny", "files", given)
    with pytest.raises(UserError, match="of at least --warmup_steps, 1; found 0"):
        check_options("transformer_tiny", options, given, pace.NAMES)


def test_the_size_of_each_corpus_may_change_where_the_corpora_have_no_shares(tmp_path):
    directory = ModelDirectory(tmp_path)
    for given, is_allowed in (
        ({}, True),
        ({"corpus_weights": "1,1"}, False),
    ):
        config = {
            **{"model": "lstm_luong", "settings": {}, "tokenizer": "bpe", "vocab_sizes": [9, 9]},
            **{"options": dict(options_of("lstm_luong", "files", given)), "validation_text": "a"},
        }
        before = {"format": 1, **config, "corpus_lines": "30,10", "vocabulary_crc32": {}}
        directory.config_path.write_text(json.dumps(before))
        config["corpus_lines"] = "20,20"
        refusal = pytest.raises(UserError)
        with contextlib.nullcontext() if is_allowed else refusal as e:
            setup.check_same_run(directory, config)
        assert is_allowed or "corpus_lines was '30,10', is '20,20'" in str(e.value)
