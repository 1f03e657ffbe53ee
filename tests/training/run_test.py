"""Tests of training options: their order of precedence, and refusals of contradictions."""

import contextlib
import json

import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import BY_NAME, DEFAULTS, OPTIONS
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training import opening, pace, recipes
from nmt_zoo.training.ways.catalogue import check_options
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation

UNFIT = {
    "counts in 16 bits": ("ibm1", {"precision": "bfloat16"}, "not with --model=ibm1 --update=em"),
    "counts under XLA": ("hmm_alignment", {"jit_compile": True}, "leave it out"),
    "iterations of a gradient": ("ibm2", {"update": "gradient", "alpha": 0.1}, "--alpha=0.1: not"),
    "counts of a network": ("lstm_luong", {"update": "em"}, "by em: ibm1, ibm2, hmm_align"),
    "batches of an iteration": ("ibm2", {"max_sentences_per_batch": 9}, "batch=9: not with"),
    "shapes of an iteration": ("ibm1", {"pad_to_bucket": True}, "--pad_to_bucket=True: not"),
    "a batch first in an iteration": ("ibm1", {"largest_batch_first": True}, "first=True: not"),
    "means of no loss": ("ibm1", {"loss_average": "sentences"}, "--loss_average=sentences: not"),
    "smooth counts": ("ibm1", {"label_smoothing": 0.1}, "--label_smoothing=0.1: not"),
    "shares of an iteration": ("ibm1", {"corpus_weights": "1,3"}, "takes every pair exactly once"),
    "target words that nothing reads": (
        "attention_ibm2",
        {"target_token_dropout": 0.1},
        "not with --model=attention_ibm2, which does not read the target",
    ),
    "best of no translations": (
        "lstm_luong",
        {"keep_best_by": "bleu", "bleu_lines": 0},
        "needs --bleu_lines above 0",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_options_that_do_not_fit_are_refused(name):
    preset, given, message = UNFIT[name]
    with pytest.raises(UserError, match=message):
        check_options(preset, recipes.options(preset, "demo", given), given)


def test_no_option_of_gradient_descent_is_ignored_by_another_way_of_training():
    group = BY_NAME["learning_rate"].group
    of_gradient = [option for option in OPTIONS if option.group == group]
    assert {"adam_beta_2", "warmup_steps", "clip_norm"} <= {option.name for option in of_gradient}
    for option in of_gradient:
        given = {option.name: option.choices[-1] if option.choices else option.default or 1}
        for preset in ("ibm1", "hmm_fertility", "ngram_lm"):
            with pytest.raises(UserError, match=f"--{option.name}"):
                check_options(preset, recipes.options(preset, "demo", given), given)


def test_flags_count_most_then_the_update_then_the_corpus_then_the_model():
    given = {"eval_every_steps": 3}
    options = recipes.options("ibm1", "demo", given)
    of_model, of_dataset = recipes.BY_MODEL["ibm1"], recipes.BY_DATASET["demo"]
    of_update = ExpectationMaximisation.defaults
    assert options["eval_every_steps"] == 3 != of_update["eval_every_steps"]
    assert options["max_steps"] == of_update["max_steps"] != of_dataset["max_steps"]
    assert options["num_pieces"] == of_dataset["num_pieces"] != DEFAULTS["num_pieces"]
    assert options["tokenizer"] == of_model["tokenizer"] != DEFAULTS["tokenizer"]
    of_both = recipes.options("hmm_fertility", "demo", {})  # Some models change their update's.
    assert of_both["eval_every_steps"] > of_both["max_steps"] == of_update["max_steps"]


@pytest.mark.parametrize("dataset", ["demo", "wmt14_en_de", "files"])
@pytest.mark.parametrize("update", ["em", "gradient"])
def test_no_corpus_limits_the_words_of_a_table(dataset, update):
    for preset in ("ibm1", "ibm2", "hmm_alignment", "hmm_fertility"):
        options = recipes.options(preset, dataset, {"update": update})
        assert (options["tokenizer"], options["max_words"]) == ("word", 0)
    assert recipes.options("ibm1", dataset, {"max_words": 9})["max_words"] == 9
    assert recipes.options("attention_ibm1", dataset, {})["max_words"] > 0


def test_the_demo_model_is_shallower_than_its_preset_on_the_demo_corpus_alone():
    of_demo = recipes.settings("transformer_tiny", "demo")
    assert of_demo["num_encoder_layers"] == 2
    assert recipes.settings("transformer_small", "demo") == {"dropout": 0.1}
    assert recipes.settings("transformer_tiny", "files") == {}
    steps = [
        recipes.options(model, "demo", {})["max_steps"]
        for model in ("transformer_tiny", "transformer_small")
    ]
    assert steps == [1400, 700]


def test_every_corpus_with_a_recipe_has_a_model_and_wmt14_the_updates_of_its_paper():
    assert recipes.BY_DATASET.keys() == recipes.PRESET_BY_DATASET.keys()
    assert recipes.preset("wmt14_de_en") == "transformer_base"
    found = recipes.options("transformer_base", "wmt14_de_en", {"max_steps": 9})
    assert (found["max_steps"], found["patience"]) == (9, 0)
    for preset, steps in (("base", 100_000), ("big", 300_000)):
        options = recipes.options(f"transformer_{preset}", "wmt14_en_de", {})
        assert (options["max_steps"], options["num_pieces"]) == (steps, 37_000)


def test_larger_texts_get_larger_models_and_vocabularies_and_less_dropout():
    order = models.preset_names()
    before = None
    for tokens in (1, 1000, 60_000, 200_000, 200_001, 10**6, 10**7, 10**8, 10**10):
        preset = recipes.preset("files", tokens, of_words=True)
        found = recipes.options("transformer_tiny", "files", {}, tokens)
        dropout = recipes.settings("transformer_tiny", "files", tokens)["dropout"]
        row = order.index(preset), found["num_pieces"], -dropout, -found["bpe_dropout"]
        assert 500 <= found["num_pieces"] <= 37_000
        assert before is None or all(a <= b for a, b in zip(before, row, strict=True))
        before = row
    assert preset == "transformer_base" and row[1:] == (37_000, -0.1, 0)


def test_every_character_of_a_text_gets_a_piece():
    for tokens, characters, expected in ((1000, 239, 500), (1000, 240, 1000), (10**6, 3000, 10**4)):
        options = recipes.options("transformer_tiny", "files", {}, tokens, characters)
        assert options["num_pieces"] == expected
    assert recipes.options("lstm_lexical", "files", {}, 1000, 10**5)["num_pieces"] == 37_000


def test_a_model_that_translates_words_by_words_gets_pieces_like_words():
    options = recipes.options("lstm_lexical", "files", {}, 100_000)
    others = recipes.options("lstm_luong", "files", {}, 100_000)
    assert options["num_pieces"] == 7500 > 3 * others["num_pieces"]
    assert options["bpe_dropout"] == others["bpe_dropout"] == 0
    usual = models.preset_settings("lstm_lexical")
    for name, value in recipes.settings("lstm_lexical", "files", 100_000).items():
        assert value > usual[name]


def test_the_size_of_a_text_chooses_nothing_that_is_given_or_that_does_not_fit():
    given = {"num_pieces": 700, "bpe_dropout": 0.0}
    options = recipes.options("transformer_tiny", "files", given, 1000)
    assert (options["num_pieces"], options["bpe_dropout"]) == (700, 0)
    assert recipes.options_of_size("lstm_lexical", 2000, {"tokenizer": "word"}) == {}
    ready = {"vocab_file": "unigram.model", "max_epochs": 3}
    assert recipes.options("transformer_tiny", "files", ready, 1000)["bpe_dropout"] == 0
    assert recipes.options_of_size("transformer_tiny", 1000, ready) == {}
    # Published recipes of other models stay.
    assert recipes.options("lstm_luong", "files", {}, 1000)["bpe_dropout"] == 0
    assert recipes.settings("lstm_luong", "files", 1000) == {}


def test_models_that_make_their_pieces_learn_to_copy_unless_they_cannot():
    def share(model, dataset="files", **given):
        return recipes.options(model, dataset, given, None if dataset == "demo" else 10**6)[
            "copy_share"
        ]

    assert share("transformer_tiny", "demo") == share("lstm_luong") == 0.05
    assert share("transformer_tiny", copy_share=0.2) == 0.2
    for without in ({"tokenizer": "word"}, {"vocab_file": "any.model"}, {"copy_share": 0.0}):
        assert share("transformer_tiny", **without) == 0
    for model in ("ibm1", "attention_ibm1", "ibm1_factored", "ngram_lm"):
        assert share(model) == 0


@pytest.mark.parametrize(
    "given",
    [{"schedule": "plateau"}, {"max_steps": 9}, {"max_epochs": 3}, {"init_from": "runs/other"}],
    ids=lambda given: next(iter(given)),
)
def test_the_size_of_a_text_chooses_the_number_of_updates_unless_flags_end_the_run(given):
    of_size = [recipes.options("transformer_tiny", "files", {}, n) for n in (100, 10**5, 10**6)]
    assert {options["schedule"] for options in of_size} == {"cosine"}
    steps = [recipes.completed(options)["max_steps"] for options in of_size]
    assert steps[0] == 500 < steps[1] < steps[2] < 10 * steps[1]
    found = recipes.completed(recipes.options("transformer_tiny", "files", given, 10**6))
    assert found["schedule"] == given.get("schedule", "inverse_sqrt")
    assert (found["max_steps"], found["decay_steps"]) == (given.get("max_steps", 0), 0)


def test_little_time_gets_a_smaller_model_than_much_time_or_none():
    order = models.preset_names()
    for tokens, smaller, larger in (
        (190_000, 8, 20),
        (1_000_000, 60, 0),
        (10_000_000, 60, 600),
        (10**9, 60, 3000),
        (10**9, 600, 0),
    ):
        found = [order.index(recipes.preset("files", tokens, float(m))) for m in (smaller, larger)]
        by_size = order.index(recipes.preset("files", tokens))
        assert found[1] == by_size and (tokens == 10**6 or found[0] != by_size)
    assert recipes.preset("files", 180_000, 8.0) == "transformer_tiny"
    short, long = (recipes.settings("transformer_tiny", "files", 180_000, m) for m in (8.0, 60.0))
    assert short["num_encoder_layers"] == 2 and "num_encoder_layers" not in long
    assert short["dropout"] < long["dropout"]
    short, long = (
        recipes.options("transformer_tiny", "files", {"max_minutes": minutes}, 180_000)
        for minutes in (8.0, 60.0)
    )
    assert short["bpe_dropout"] == 0 < long["bpe_dropout"]
    assert short["precision"] == long["precision"] == "auto"
    large = recipes.options("transformer_tiny", "files", {"max_minutes": 60.0}, 10**8)
    assert large["num_pieces"] == 10_000


def test_a_tiny_text_of_words_is_for_a_word_table_and_without_words_for_pieces():
    assert recipes.preset("files", 3000, of_words=True) == "hmm_fertility"
    assert recipes.preset("files", 3000, 8.0, of_words=True) == "hmm_fertility"
    assert recipes.preset("files", 3000) == "lstm_lexical"
    assert recipes.preset("files", 60_000, of_words=True) == "lstm_lexical"
    counts = {
        recipes.options(m, "files", {})["min_word_count"] for m in recipes.BY_MODEL if "ibm" in m
    }
    assert counts == {1}


def test_a_handful_of_sentences_ends_a_run_that_validation_would_not_end():
    found = [recipes.options("attention_ibm1", "files", {}, n)["max_steps"] for n in (20, 10_000)]
    assert found == [500, 0]
    assert recipes.options("ibm1", "files", {}, 20)["max_steps"] == 10
    assert recipes.options("attention_ibm1", "files", {"max_epochs": 3}, 20)["max_steps"] == 0


def test_the_number_of_updates_fits_what_is_given():
    def found(replicas=1, **given):
        size = {"tokens": 10**6, "replicas": replicas}
        options = recipes.completed(recipes.options("transformer_tiny", "files", given, **size))
        return options["schedule"], options["max_steps"]

    usual = found()
    assert found(replicas=2)[1] == usual[1] / 2
    assert found(replicas=2, max_tokens_per_batch=1024) == usual
    assert found(replicas=None) == ("inverse_sqrt", 0)
    assert found(replicas=None, decay_steps=70) == ("cosine", 70)
    assert found(schedule="linear") == ("linear", usual[1])
    assert found(decay_steps=70) == ("cosine", 70)
    assert found(max_tokens_per_batch=1024)[1] == 2 * usual[1]
    assert found(max_tokens_per_batch=512, accumulate_steps=4) == usual
    assert found(100, warmup_steps=4000)[1] == 16_000, "a rate that rises is to fall, too"


def test_a_rate_that_falls_does_so_until_the_last_step():
    given = {"schedule": "cosine", "max_steps": 5000, "warmup_steps": 10}
    options = recipes.options("lstm_luong", "demo", given)
    check_options("lstm_luong", options, given)
    assert recipes.completed(options)["decay_steps"] == 5000
    assert options["decay_steps"] == 0, "checking and completing change nothing"
    given = {"schedule": "linear", "decay_steps": 40}
    assert recipes.completed({**options, **given, "max_steps": 0})["max_steps"] == 40
    assert recipes.completed({**options, **given, "max_steps": 50})["decay_steps"] == 40


def test_a_fall_that_is_shorter_than_a_warm_up_is_for_the_pace():
    given = {"schedule": "cosine", "max_steps": 500}
    options = recipes.options("transformer_tiny", "files", given)
    check_options("transformer_tiny", options, given, pace.NAMES)
    with pytest.raises(UserError, match="of at least --warmup_steps, 1,000; found 500"):
        check_options("transformer_tiny", options, given)
    del given["max_steps"]
    options = recipes.options("transformer_tiny", "files", given)
    with pytest.raises(UserError, match="of at least --warmup_steps, 1; found 0"):
        check_options("transformer_tiny", options, given, pace.NAMES)


def test_lines_for_bleu_may_change_where_bleu_does_not_choose_the_best(tmp_path):
    directory = ModelDirectory(tmp_path)
    for by, allowed in (("perplexity", True), ("bleu", False)):
        given = {"keep_best_by": by, "bleu_lines": 500}
        config = {
            **{"model": "lstm_luong", "settings": {}, "tokenizer": "bpe", "vocab_sizes": [9, 9]},
            **{"options": recipes.options("lstm_luong", "files", given), "validation_text": "a"},
        }
        directory.config_path.write_text(json.dumps({"format": 1, **config}))
        config["options"] = {**config["options"], "bleu_lines": 10}
        if allowed:
            opening.check_same_run(directory, config)
        else:
            with pytest.raises(UserError, match="bleu_lines was 500, is 10"):
                opening.check_same_run(directory, config)


def test_the_size_of_each_corpus_may_change_where_the_corpora_have_no_shares(tmp_path, capsys):
    directory = ModelDirectory(tmp_path)
    for given, before, is_allowed, is_noted in (
        ({}, "30,10", True, True),
        ({}, None, True, True),
        ({"corpus_weights": "1,1"}, "30,10", False, True),
        ({"temperature": 5.0}, "30,10", False, True),
        ({"corpus_weights": "1,1"}, None, True, False),
    ):
        config = {
            **{"model": "lstm_luong", "settings": {}, "tokenizer": "bpe", "vocab_sizes": [9, 9]},
            **{"options": recipes.options("lstm_luong", "files", given), "validation_text": "a"},
        }
        sizes = {"corpus_lines": before} if before else {}
        directory.config_path.write_text(json.dumps({"format": 1, **config, **sizes}))
        config["corpus_lines"] = "20,20"
        refusal = pytest.raises(UserError)
        with contextlib.nullcontext() if is_allowed else refusal as e:
            opening.check_same_run(directory, config)
        assert is_allowed or "corpus_lines was '30,10', is '20,20'" in str(e.value)
        assert ("did not note the size of each corpus" in capsys.readouterr().out) != is_noted
