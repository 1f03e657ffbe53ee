"""Tests of where options and settings come from: their order, sources, and resumed runs."""

import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.configuration.recipes import TextSize
from nmt_zoo.configuration.resolver import options_of, options_of_resumed, settings_of
from nmt_zoo.configuration.settled import BEGUN, DEFAULT, FLAG, MODEL, SIZE, Layer, Settled
from nmt_zoo.training.setup import resolve_resumed


def found_options(model, dataset, given, tokens=None, characters=0, replicas=1):
    size = tokens and TextSize(1, tokens, characters)
    return options_of(model, dataset, given, size=size, replicas=replicas)


def test_a_value_comes_from_the_strongest_layer_that_has_it():
    found = Settled(Layer("weak", {"a": 1, "b": 2}), Layer("strong", {"b": 3}))
    assert dict(found) == {"a": 1, "b": 3}
    assert found.source("a") == "weak" and found.chosen_by("strong") == {"b": 3}
    assert found.beyond("weak") == {"b": 3} and found.of("weak") == {"a": 1, "b": 2}
    assert found.changed("strong") == {"b": (2, 3)}
    assert dict(found.over("last", {"a": 9})) == {"a": 9, "b": 3}
    assert list(found.table("name")) == [
        "name  value  from",
        "a     1      weak",
        "b     3      strong",
    ]


def test_every_value_names_its_source():
    found = found_options("transformer_tiny", "files", {"patience": 3}, 10**6)
    sources = {"seed": DEFAULT, "learning_rate": MODEL, "num_pieces": SIZE, "patience": FLAG}
    assert {name: found.source(name) for name in sources} == sources
    assert found.keys() == DEFAULTS.keys()


def test_a_resumed_run_keeps_what_it_began_with_and_takes_new_limits():
    begun = {**found_options("transformer_tiny", "files", {"schedule": "cosine"}, 10**6)}
    begun |= {"warmup_steps": 7, "precision": "bfloat16"}
    given = {"max_steps": 9, "precision": "auto"}
    found = options_of_resumed("transformer_tiny", given, begun)
    assert dict(found) == {**begun, "max_steps": 9}
    assert found.source("warmup_steps") == BEGUN and found.source("max_steps") == FLAG


@pytest.mark.parametrize("name, value", [("learning_rate", 0.5), ("seed", 9), ("bleu_lines", 3)])
def test_a_resumed_run_refuses_a_flag_that_would_change_its_training(name, value):
    begun = {**options_of("transformer_tiny", "files", {"keep_best_by": "bleu"})}
    config = {"model": "transformer_tiny", "settings": {"width": 8}, "options": begun}
    with pytest.raises(UserError, match=f"runs/x holds a run .* {name} was {begun[name]!r}, is"):
        resolve_resumed(config, {name: value}, {}, "runs/x")
    resolve_resumed(config, {name: begun[name], "patience": 4}, {"width": 8}, "runs/x")
    with pytest.raises(UserError, match="width was 8, is 16"):
        resolve_resumed(config, {}, {"width": 16}, "runs/x")


def test_flags_count_most_then_the_update_then_the_corpus_then_the_model():
    given = {"eval_every_steps": 3}
    options = found_options("ibm1", "demo", given)
    of_model, of_dataset = recipes.BY_MODEL["ibm1"], recipes.BY_DATASET["demo"]
    of_update = recipes.BY_WAY["em"]
    assert options["eval_every_steps"] == 3 != of_update["eval_every_steps"]
    assert options["max_steps"] == of_update["max_steps"] != of_dataset["max_steps"]
    assert options["num_pieces"] == of_dataset["num_pieces"] != DEFAULTS["num_pieces"]
    assert options["tokenizer"] == of_model["tokenizer"] != DEFAULTS["tokenizer"]
    of_both = found_options("hmm_fertility", "demo", {})  # Some models change their update's.
    assert of_both["eval_every_steps"] > of_both["max_steps"] == of_update["max_steps"]


@pytest.mark.parametrize("dataset", ["demo", "wmt14_en_de", "files"])
@pytest.mark.parametrize("update", ["em", "gradient"])
def test_no_corpus_limits_the_words_of_a_table(dataset, update):
    for preset in ("ibm1", "ibm2", "hmm_alignment", "hmm_fertility"):
        options = found_options(preset, dataset, {"update": update})
        assert (options["tokenizer"], options["max_words"]) == ("word", 0)
    assert found_options("ibm1", dataset, {"max_words": 9})["max_words"] == 9
    assert found_options("attention_ibm1", dataset, {})["max_words"] > 0


def test_a_run_from_other_weights_takes_only_the_dropout_that_suits_its_text():
    options = options_of("transformer_tiny", "files", {"init_from": "runs/other"})
    size, origin = TextSize(1, 1000), {"positions": "sinusoidal", "dropout": 0.15}
    settings = settings_of("transformer_tiny", "files", {}, options, size=size, origin=origin)
    assert (settings["positions"], settings["dropout"]) == ("sinusoidal", 0.3)


def test_wmt14_has_the_model_and_the_updates_of_its_paper():
    assert recipes.preset("wmt14_de_en") == "transformer_base"
    found = found_options("transformer_base", "wmt14_de_en", {"max_steps": 9})
    assert (found["max_steps"], found["patience"]) == (9, 0)
    for preset, steps in (("base", 100_000), ("big", 300_000)):
        options = found_options(f"transformer_{preset}", "wmt14_en_de", {})
        assert (options["max_steps"], options["num_pieces"]) == (steps, 37_000)


def test_larger_texts_get_larger_models_and_vocabularies_and_less_dropout():
    order = models.preset_names()
    before = None
    for tokens in (1, 1000, 60_000, 200_000, 200_001, 10**6, 10**7, 10**8, 10**10):
        preset = recipes.preset("files", tokens, of_words=True)
        found = found_options("transformer_tiny", "files", {}, tokens)
        dropout = recipes.settings_of_size("transformer_tiny", tokens)["dropout"]
        row = order.index(preset), found["num_pieces"], -dropout, -found["bpe_dropout"]
        assert 500 <= found["num_pieces"] <= 37_000
        assert before is None or all(a <= b for a, b in zip(before, row, strict=True))
        before = row
    assert preset == "transformer_base" and row[1:] == (37_000, -0.1, 0)


def test_every_character_of_a_text_gets_a_piece():
    for tokens, characters, expected in ((1000, 239, 500), (1000, 240, 1000), (10**6, 3000, 10**4)):
        options = found_options("transformer_tiny", "files", {}, tokens, characters)
        assert options["num_pieces"] == expected
    assert found_options("lstm_lexical", "files", {}, 1000, 10**5)["num_pieces"] == 37_000


def test_a_model_that_translates_words_by_words_gets_pieces_like_words():
    options = found_options("lstm_lexical", "files", {}, 100_000)
    others = found_options("lstm_luong", "files", {}, 100_000)
    assert options["num_pieces"] == 7500 > 3 * others["num_pieces"]
    assert options["bpe_dropout"] == others["bpe_dropout"] == 0
    usual = models.preset_settings("lstm_lexical")
    for name, value in recipes.settings_of_size("lstm_lexical", 100_000).items():
        assert value > usual[name]


def test_the_size_of_a_text_chooses_nothing_that_is_given_or_that_does_not_fit():
    given = {"num_pieces": 700, "bpe_dropout": 0.0}
    options = found_options("transformer_tiny", "files", given, 1000)
    assert (options["num_pieces"], options["bpe_dropout"]) == (700, 0)
    assert recipes.options_of_size("lstm_lexical", TextSize(1, 2000), {"tokenizer": "word"}) == {}
    ready = {"vocab_file": "unigram.model", "max_epochs": 3}
    assert found_options("transformer_tiny", "files", ready, 1000)["bpe_dropout"] == 0
    assert recipes.options_of_size("transformer_tiny", TextSize(1, 1000), ready) == {}
    # Published recipes of other models stay.
    assert found_options("lstm_luong", "files", {}, 1000)["bpe_dropout"] == 0
    assert recipes.settings_of_size("lstm_luong", 1000) == {}


def test_models_that_make_their_pieces_learn_to_copy_unless_they_cannot():
    def share(model, dataset="files", **given):
        return found_options(model, dataset, given, None if dataset == "demo" else 10**6)[
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
    of_size = [found_options("transformer_tiny", "files", {}, n) for n in (100, 10**5, 10**6)]
    assert {options["schedule"] for options in of_size} == {"cosine"}
    steps = [options["max_steps"] for options in of_size]
    assert steps[0] == 500 < steps[1] < steps[2] < 10 * steps[1]
    found = found_options("transformer_tiny", "files", given, 10**6)
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
    short, long = (recipes.settings_of_size("transformer_tiny", 180_000, m) for m in (8.0, 60.0))
    assert short["num_encoder_layers"] == 2 and "num_encoder_layers" not in long
    assert short["dropout"] < long["dropout"]
    short, long = (
        found_options("transformer_tiny", "files", {"max_minutes": minutes}, 180_000)
        for minutes in (8.0, 60.0)
    )
    assert short["bpe_dropout"] == 0 < long["bpe_dropout"]
    assert short["precision"] == long["precision"] == "auto"
    large = found_options("transformer_tiny", "files", {"max_minutes": 60.0}, 10**8)
    assert large["num_pieces"] == 10_000


def test_a_tiny_text_of_words_is_for_phrases_and_without_words_for_pieces():
    assert recipes.preset("files", 3000, of_words=True) == "phrase_based"
    assert recipes.preset("files", 3000, 8.0, of_words=True) == "phrase_based"
    assert recipes.preset("files", 3000) == "lstm_lexical"
    assert recipes.preset("files", 60_000, of_words=True) == "phrase_based"
    counts = {
        found_options(m, "files", {})["min_word_count"] for m in recipes.BY_MODEL if "ibm" in m
    }
    assert counts == {1}


def test_a_handful_of_sentences_ends_a_run_that_validation_would_not_end():
    found = [found_options("attention_ibm1", "files", {}, n)["max_steps"] for n in (20, 10_000)]
    assert found == [500, 0]
    assert found_options("ibm1", "files", {}, 20)["max_steps"] == 10
    assert found_options("attention_ibm1", "files", {"max_epochs": 3}, 20)["max_steps"] == 0


def test_the_number_of_updates_fits_what_is_given():
    def found(replicas=1, **given):
        size = {"tokens": 10**6, "replicas": replicas}
        options = found_options("transformer_tiny", "files", given, **size)
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
    begun = dict(options_of("lstm_luong", "demo", given))
    assert begun["decay_steps"] == 5000
    more = options_of_resumed("lstm_luong", {**given, "max_steps": 9000}, begun)
    assert (more["max_steps"], more["decay_steps"]) == (9000, 5000)
    begun = dict(options_of("lstm_luong", "files", {"schedule": "linear", "decay_steps": 40}))
    assert begun["max_steps"] == 40
    unlimited = options_of_resumed("lstm_luong", {"max_steps": 0}, begun)
    assert unlimited["max_steps"] == 40
