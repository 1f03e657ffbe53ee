"""What options take, need and exclude: each refuses what breaks it, and names flags that exist."""

import importlib
import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import recipes, resolver
from nmt_zoo.configuration.options import BY_NAME, DEFAULTS
from nmt_zoo.configuration.options import OPTIONS as TRAINING_OPTIONS
from nmt_zoo.configuration.rules import check
from nmt_zoo.decoding.search.requests import OPTIONS
from nmt_zoo.models import PRESETS
from nmt_zoo.training.validation.evaluation import CRITERIA
from nmt_zoo.training.ways.gradient.adam import SCHEDULES
from nmt_zoo.training.ways.gradient.precision import PRECISIONS

SCRIPTS = "train", "translate", "align", "compare", "export", "serve", "visualize_attention"


def options_of(script):
    record = importlib.import_module(f"nmt_zoo.command_line.{script}").Arguments
    return [*record.flags(), *record.more]


def fulfilled(*conditions):
    """Returns name -> value for which conditions hold; all are given."""
    values = {}
    for condition in conditions:
        name, operator, value = re.match(r"(\w*)([=>]?)([^ ]*)", condition).groups()
        values[name] = int(value) + 1 if operator == ">" else value.split("|")[-1] or "x"
    return values


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_option_refuses_what_breaks_it_and_nothing_else(script):
    for option in options_of(script):
        option = option._replace(required="")
        own = f"{option.name}={option.when}" if option.when else option.name
        needs, alone = [*option.needs], fulfilled(own, *option.needs)
        check([option], alone, alone)
        for condition in needs:
            values = fulfilled(own, *(other for other in needs if other != condition))
            first = re.match(r"\w+", condition)[0]
            with pytest.raises(UserError, match=f"^--{own} needs --{first}"):
                check([option], values, values)
        for condition in option.excludes:
            excluded = fulfilled(condition)
            with pytest.raises(UserError, match=f"^--{own} cannot be .* --{next(iter(excluded))}"):
                check([option], {**alone, **excluded}, {**alone, **excluded})
            check([option], excluded, excluded)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_required_option_or_another_must_be_given_and_all_that_are_named_exist(script):
    options = options_of(script)
    for option in filter(lambda option: option.required, options):
        with pytest.raises(UserError, match=f"^give --{option.name}.*: {option.required}"):
            check([option], {}, ())
        for name in (option.name, *option.unless):
            check([option._replace(needs=())], {name: "x"}, {name})
    conditions = [c for o in options for c in (*o.needs, *o.excludes, *o.unless)]
    names = {re.match(r"\w*", c)[0] for each in conditions for c in each.split(" or ")}
    assert names <= {option.name for option in options}


def test_a_value_of_0_is_given_but_turns_nothing_on_and_what_was_found_is_named():
    options = {option.name: option for option in OPTIONS}
    with pytest.raises(UserError, match="--temperature needs --sample"):
        check([options["temperature"]], {"temperature": 0.0}, {"temperature"})
    check([options["temperature"]], {"temperature": 0.0}, ())
    values = {"sample": True, "glossary": "", "beam_size": 4}
    check([options["sample"]], values, {"sample", "glossary"})
    with pytest.raises(UserError, match="--sample cannot be combined with --beam_size"):
        check([options["sample"]], values, values)
    expected = "--vocab_file needs --tokenizer=bpe or pretokenized, found tokenizer=word"
    with pytest.raises(UserError, match=expected):
        values = {**DEFAULTS, "tokenizer": "word", "vocab_file": "x"}
        check([BY_NAME["vocab_file"]], values, {"vocab_file"})


def test_every_default_and_every_recipe_is_in_the_range_of_its_option():
    assert len(BY_NAME) == len(TRAINING_OPTIONS)
    known = {"schedule": SCHEDULES, "precision": PRECISIONS, "keep_best_by": CRITERIA}
    assert all([*BY_NAME[name].choices] == [*choices] for name, choices in known.items())
    assert recipes.BY_DATASET.keys() == recipes.PRESET_BY_DATASET.keys()
    for preset in PRESETS:
        for dataset in ("files", *recipes.BY_DATASET):
            for name, value in resolver.options_of(preset, dataset, {}).items():
                assert BY_NAME[name].takes(value), (preset, dataset, name, value)
