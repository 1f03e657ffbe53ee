"""The rules of options: each refuses what breaks it, and names flags that exist."""

import importlib
import re

import pytest

from nmt_zoo.command_line.flag_values import defined
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.configuration.rules import RULES, check_rule

CASES = [
    pytest.param(script, rule, id=f"{script}: {rule.option} {rule.needs or rule.excludes}")
    for script, rules in RULES.items()
    for rule in rules
]


def fulfilled(*conditions):
    """Returns name -> value for which conditions hold; all are given."""
    found = {}
    for condition in conditions:
        name, operator, value = re.fullmatch(r"(\w*)([=>]?)(.*)", condition).groups()
        of_operator = {"=": value.split("|")[-1], ">": value and value[0] + "1", "": "x"}
        if name:
            found[name] = True if value == "True" else of_operator[operator]
            found[name] = int(found[name]) if operator == ">" else found[name]
    return found


@pytest.mark.parametrize(("script", "rule"), CASES)
def test_a_rule_refuses_what_breaks_it_and_nothing_else(script, rule):
    start = f"--{re.match(r'[a-z_0-9]+', rule.option)[0]}" if rule.option else "give"
    for condition in rule.needs:
        values = fulfilled(rule.option, condition)
        check_rule(rule, values, values)
        values = fulfilled(rule.option)
        with pytest.raises(UserError, match=f"^{start}.* --{condition.split('=')[0]}"):
            check_rule(rule, values, values)
    for condition in rule.excludes:
        values = fulfilled(rule.option, condition)
        with pytest.raises(
            UserError, match=f"^{start}.* --{re.match(r'[a-z_0-9]+', condition)[0]}"
        ):
            check_rule(rule, values, values)
        if rule.option:
            values = fulfilled(rule.option)
            check_rule(rule, values, values)
            values = fulfilled(condition)
            check_rule(rule, values, values)


def test_a_value_of_0_is_given_but_turns_nothing_on():
    needs = next(rule for rule in RULES["translate"] if rule.option == "temperature")
    with pytest.raises(UserError, match="--temperature needs --sample"):
        check_rule(needs, {"temperature": 0.0}, {"temperature"})
    check_rule(needs, {"temperature": 0.0}, ())
    excludes = next(rule for rule in RULES["translate"] if rule.option == "sample")
    values = {"sample": True, "coverage_penalty": 0.0, "beam_size": 4}
    check_rule(excludes, values, {"sample", "coverage_penalty"})
    with pytest.raises(UserError, match="--sample cannot be combined with --beam_size"):
        check_rule(excludes, values, values)


def test_a_rule_says_what_was_found():
    rule = next(rule for rule in RULES["train"] if rule.option == "vocab_file")
    expected = "--vocab_file needs --tokenizer=bpe or pretokenized, found tokenizer=word"
    with pytest.raises(UserError, match=expected):
        check_rule(rule, {**DEFAULTS, "tokenizer": "word", "vocab_file": "x"}, {"vocab_file"})


@pytest.mark.parametrize("script", RULES)
def test_every_name_in_a_rule_is_a_flag_of_its_script(script):
    from absl import flags

    module = importlib.import_module(f"nmt_zoo.command_line.{script}")
    with defined(module.define_flags):
        known = set(flags.FLAGS)
    conditions = [c for rule in RULES[script] for c in (rule.option, *rule.needs, *rule.excludes)]
    assert {re.match(r"\w*", condition)[0] for condition in conditions} <= {*known, ""}
