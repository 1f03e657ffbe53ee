"""Tests of where options and settings come from: their order, sources, and resumed runs."""

import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.configuration.recipes import TextSize
from nmt_zoo.configuration.resolver import (
    BEGUN,
    DEFAULT,
    FLAG,
    MODEL,
    SIZE,
    Layer,
    Settled,
    options_of,
    options_of_resumed,
    settings_of,
)
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


def test_a_resumed_run_keeps_what_it_began_with_and_takes_new_limits():
    """And every value names its source."""
    given = {"patience": 3, "schedule": "cosine"}
    begun = found_options("transformer_tiny", "files", given, 10**6)
    sources = {"seed": DEFAULT, "learning_rate": MODEL, "num_pieces": SIZE, "patience": FLAG}
    assert {name: begun.source(name) for name in sources} == sources
    assert begun.keys() == DEFAULTS.keys()
    begun = {**begun, "warmup_steps": 7, "precision": "bfloat16"}
    given = {"max_steps": 9, "precision": "auto"}
    found = options_of_resumed("transformer_tiny", given, begun)
    assert dict(found) == {**begun, "max_steps": 9}
    assert found.source("warmup_steps") == BEGUN and found.source("max_steps") == FLAG
    # A rate that falls does so until the last step that was first given.
    for given, more, wanted in (
        ({"schedule": "cosine", "max_steps": 5000}, {"max_steps": 9000}, (9000, 5000)),
        ({"schedule": "linear", "decay_steps": 40}, {"max_steps": 0}, (40, 40)),
    ):
        begun = dict(options_of("lstm_luong", "files", {**given, "warmup_steps": 10}))
        last = max(given.get("max_steps", 0), given.get("decay_steps", 0))
        assert begun["max_steps"] == begun["decay_steps"] == last
        found = options_of_resumed("lstm_luong", {**given, **more}, begun)
        assert (found["max_steps"], found["decay_steps"]) == wanted


@pytest.mark.parametrize("name, value", [("learning_rate", 0.5), ("seed", 9), ("bleu_lines", 3)])
def test_a_resumed_run_refuses_a_flag_that_would_change_its_training(name, value):
    begun = {**options_of("transformer_tiny", "files", {"keep_best_by": "bleu"})}
    config = {"model": "transformer_tiny", "settings": {"width": 8}, "options": begun}
    with pytest.raises(UserError, match=f"runs/x holds a run .* {name} was {begun[name]!r}, is"):
        resolve_resumed(config, {name: value}, {}, "runs/x")
    resolve_resumed(config, {name: begun[name], "patience": 4}, {"width": 8}, "runs/x")
    with pytest.raises(UserError, match="width was 8, is 16"):
        resolve_resumed(config, {}, {"width": 16}, "runs/x")


def test_a_run_of_an_earlier_version_resumes_and_names_the_options_that_are_gone(capsys):
    begun = {**options_of("transformer_tiny", "files", {}), "gone": 5.0, "unused": 0.0}
    config = {"model": "transformer_tiny", "settings": {}, "options": begun}
    options, _ = resolve_resumed(config, {}, {}, "runs/x")
    assert options.keys() == DEFAULTS.keys()
    assert capsys.readouterr().out.endswith("that this version does not have: --gone=5.0\n")


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


WORDS = {"tokenizer": "word", "max_words": 0}
RECIPES = [
    # No corpus limits the words of a table.
    *(
        (preset, dataset, {"update": update}, None, WORDS)
        for preset in ("ibm1", "ibm2", "hmm_alignment", "hmm_fertility")
        for dataset in ("demo", "wmt14_en_de", "files")
        for update in ("em", "gradient")
    ),
    ("ibm1", "files", {"max_words": 9}, None, {"max_words": 9}),
    ("attention_ibm1", "files", {}, None, {"max_words": 8000}),
    # WMT14 has the updates of its paper.
    ("transformer_base", "wmt14_de_en", {"max_steps": 9}, None, {"max_steps": 9, "patience": 0}),
    ("transformer_base", "wmt14_en_de", {}, None, {"max_steps": 100_000, "num_pieces": 37_000}),
    ("transformer_big", "wmt14_en_de", {}, None, {"max_steps": 300_000, "num_pieces": 37_000}),
    # Every character of a text gets a piece.
    ("transformer_tiny", "files", {}, (1000, 239), {"num_pieces": 500}),
    ("transformer_tiny", "files", {}, (1000, 240), {"num_pieces": 1000}),
    ("transformer_tiny", "files", {}, (10**6, 3000), {"num_pieces": 10**4}),
    ("lstm_lexical", "files", {}, (1000, 10**5), {"num_pieces": 37_000}),
    # A model that translates words by words gets pieces like words.
    ("lstm_lexical", "files", {}, (100_000, 0), {"num_pieces": 7500, "bpe_dropout": 0}),
    ("lstm_luong", "files", {}, (100_000, 0), {"num_pieces": 2000, "bpe_dropout": 0}),
    # Models that make their pieces learn to copy unless they cannot.
    *(
        ("transformer_tiny", "files", given, (10**6, 0), {"noise": noise})
        for given, noise in (
            *(({"tokenizer": "word"}, "none"), ({"vocab_file": "any.model"}, "none")),
            *(({"noise": "none"}, "none"), ({"noise": "stop=0.2"}, "stop=0.2")),
        )
    ),
    ("transformer_tiny", "demo", {}, None, {"noise": recipes.NOISE}),
    ("lstm_luong", "files", {}, (10**6, 0), {"noise": recipes.NOISE}),
    *(
        (preset, "files", {}, (10**6, 0), {"noise": "none"})
        for preset in ("ibm1", "attention_ibm1", "ibm1_factored", "ngram_lm")
    ),
    # Tables have words that occur once.
    *((m, "files", {}, None, {"min_word_count": 1}) for m in recipes.BY_MODEL if "ibm" in m),
    # A handful of sentences ends a run that validation would not end.
    ("attention_ibm1", "files", {}, (20, 0), {"max_steps": 500}),
    ("attention_ibm1", "files", {}, (10_000, 0), {"max_steps": 0}),
    ("ibm1", "files", {}, (20, 0), {"max_steps": 10}),
    ("attention_ibm1", "files", {"max_epochs": 3}, (20, 0), {"max_steps": 0}),
    # The size of a text chooses nothing that is given or that does not fit.
    *(
        ("transformer_tiny", "files", given, (1000, 0), {**given, "bpe_dropout": 0})
        for given in (
            {"num_pieces": 700, "bpe_dropout": 0.0},
            {"vocab_file": "unigram.model", "max_epochs": 3},
        )
    ),
    ("lstm_luong", "files", {}, (1000, 0), {"bpe_dropout": 0}),  # Published recipes stay.
]


@pytest.mark.parametrize(("model", "dataset", "given", "size", "expected"), RECIPES)
def test_model_corpus_and_size_of_the_text_choose(model, dataset, given, size, expected):
    found = found_options(model, dataset, given, *(size or ()))
    assert {name: found[name] for name in expected} == expected


def test_settings_follow_from_size_and_origin():
    """A run from other weights takes only the dropout that suits its text."""
    options = options_of("transformer_tiny", "files", {"init_from": "runs/other"})
    size, origin = TextSize(1, 1000), {"positions": "sinusoidal", "dropout": 0.15}
    settings = settings_of("transformer_tiny", "files", {}, options, size=size, origin=origin)
    assert (settings["positions"], settings["dropout"]) == ("sinusoidal", 0.3)
    assert recipes.settings_of_size("lstm_luong", 1000) == {}
    for given in ({"tokenizer": "word"}, {"vocab_file": "unigram.model", "max_epochs": 3}):
        assert recipes.options_of_size("lstm_lexical", TextSize(1, 2000), given) == {}
    usual = models.preset_settings("lstm_lexical")
    for name, value in recipes.settings_of_size("lstm_lexical", 100_000).items():
        assert value > usual[name]


def test_larger_texts_get_larger_models_and_vocabularies_and_less_dropout():
    order = [*models.PRESETS]
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
    assert recipes.preset("wmt14_de_en") == "transformer_base"
    for tokens, words in ((3000, True), (60_000, True), (3000, False)):
        expected = "phrase_based" if words else "lstm_lexical"
        assert recipes.preset("files", tokens, of_words=words) == expected
    assert recipes.preset("files", 3000, 8.0, of_words=True) == "phrase_based"
    for tokens, minutes, words, expected in (
        (222_000, 5.0, True, "phrase_based"),
        *((222_000, minutes, True, "transformer_tiny") for minutes in (0.0, 0.5, 20.0)),
        (222_000, 5.0, False, "transformer_tiny"),
        (1_000_001, 5.0, True, "transformer_tiny"),
    ):
        assert recipes.preset("files", tokens, minutes, of_words=words) == expected


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
    order = [*models.PRESETS]
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
        for minutes in (15.0, 60.0)
    )
    assert short["bpe_dropout"] == 0 < long["bpe_dropout"]
    assert short["precision"] == long["precision"] == "auto"
    for found in (short, long):
        assert (found["optimizer"], found["learning_rate"]) == ("muon", 1.2e-2)
    given = {"max_minutes": 8.0, "optimizer": "adam"}
    found = found_options("transformer_tiny", "files", given, 180_000)
    assert found["learning_rate"] == 3e-3 and found["average_checkpoints"] > 1


def test_the_recipe_of_ones_own_model_counts_more_than_the_size_of_the_text(monkeypatch):
    own = {"num_pieces": 700, "noise": "none"}
    monkeypatch.setitem(recipes.BY_MODEL, "transformer_small", own)
    found = found_options("transformer_small", "files", {}, 180_000)
    assert {name: found[name] for name in own} == own


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
