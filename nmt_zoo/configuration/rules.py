"""Checks what options need and exclude, as their definitions say.

A condition is "name", "name=value|value" or "name>number"; conditions joined by " or " hold if one
does. As one of `needs`, a name holds if it has a value that is not 0, false or empty, be it the
default; as one of `excludes`, if the user gave such a value. The other conditions hold by the value
alone. An option is checked if the user gave it a value, 0 included; with `when`, by its value.

Checks that are no conditions compare numbers, or look at a model, a text or files:
`decoding.search.requests.check_requests`, `training.ways.catalogue.check_options`, `check` of each
`WayOfTraining`, `training.setup`, and `check_flags` of the scripts.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nmt_zoo.common.errors import UserError


def check(options: Iterable[Any], values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raises `UserError` if values break what some `Option`s need or exclude.

    Options missing from `values` have no value; `given` names those that the user gave.
    """
    for option in options:
        names = (option.name, *option.unless)
        if option.required and not any(map(values.get, names)):
            raise UserError(f"give {in_words(' or '.join(names))}: {option.required}")
        if _counts(option, values, given):
            _check_excludes(option, values, given)
            _check_needs(option, values)


def in_words(condition: str) -> str:
    """Returns a condition as text: "--name", "--name=value or value" or "--name above number"."""
    text = f"--{condition.replace(' or ', ' or --')}"
    return text.replace("|", " or ").replace(">", " above ")


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Returns whether a condition holds by the values of options, as one of `needs`."""
    if " or " in condition:
        return any(holds(part, values) for part in condition.split(" or "))
    name, operator, expected = re.fullmatch(r"(\w+)([=>]?)(.*)", condition).groups()
    value = values.get(name)
    if operator == ">":
        return value is not None and value > float(expected)
    if operator == "=":
        items = value if isinstance(value, list) else [value]
        return any(str(item) in expected.split("|") for item in items)
    return bool(value)


def _counts(option, values, given):
    value = values.get(option.name)
    if option.when:
        return value in option.when.split("|")
    return option.name in given and (bool(value) or type(value) in (int, float))


def _check_excludes(option, values, given):
    for condition, reason in _reasons(option.excludes):
        if holds(condition, values) and (condition in given or not condition.isidentifier()):
            raise UserError(
                f"{_shown(option, values)} cannot be combined with {_as_given(condition, values)}"
                f"{reason}; leave out one of them"
            )


def _check_needs(option, values):
    for condition, reason in _reasons(option.needs):
        if not holds(condition, values):
            name, equals, _ = condition.partition("=")
            shown = _as_given(condition, values).lstrip("-")
            instead = f", found {shown}" if equals and values.get(name) else ""
            text = f"{_shown(option, values)} needs {in_words(condition)}"
            raise UserError(f"{text}{instead}{reason}")


def _reasons(conditions):
    """Returns (condition, why) for `needs` or `excludes`; "" where no reason is given."""
    if not isinstance(conditions, Mapping):
        return [(condition, "") for condition in conditions]
    return [(condition, f": {reason}") for condition, reason in conditions.items()]


def _shown(option, values):
    return _as_given(f"{option.name}=" if option.when else option.name, values)


def _as_given(condition, values):
    """Returns the flag of a condition, as a user would give it."""
    name = re.match(r"\w*", condition)[0]
    value = values.get(name)
    if name == condition or value is True:
        return f"--{name}"
    return f"--{name}={','.join(value) if isinstance(value, list) else value}"
