"""The commands that are stored beside results can still be typed, and name what they recorded."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from nmt_zoo import models
from nmt_zoo.command_line.flag_values import defined, parse

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "docs" / "results").rglob("*.json"))
SCRIPTS = ("train", "translate", "align", "visualize_attention", "export", "serve")


def commands_of(value):
    """Yields the words of each command of a script in a record."""
    if isinstance(value, list):
        for each in value:
            yield from commands_of(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name == "command":
                for line in [each] if isinstance(each, str) else each:
                    for part in re.split(r"&&|;|\n", line):
                        words = shlex.split(part)
                        if len(words) > 1 and words[1].removesuffix(".py") in SCRIPTS:
                            yield words[1:]
            else:
                yield from commands_of(each)


def records_of(value):
    """Yields the records of models in a record: their preset, settings and vocabulary sizes."""
    if isinstance(value, list):
        for each in value:
            yield from records_of(each)
    elif isinstance(value, dict):
        if {"model", "settings", "vocab_sizes"} <= value.keys():
            yield value
        for each in value.values():
            yield from records_of(each)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_stored_commands_parse_and_recorded_models_exist(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    for script, *words in commands_of(record):
        module = importlib.import_module(f"nmt_zoo.command_line.{script.removesuffix('.py')}")
        with defined(module.Arguments):
            parse([script, *words])
    for each in records_of(record):
        settings = models.preset_settings(each["model"], **each["settings"])
        assert each["settings"].items() <= settings.items()
