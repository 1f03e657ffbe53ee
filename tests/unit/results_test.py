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


def objects_of(value):
    """Yields all JSON objects in a value, at any depth."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from objects_of(part)


def commands_of(record):
    """Yields the words of each command of a script in a record."""
    for entry in objects_of(record):
        lines = entry.get("command", [])
        for line in [lines] if isinstance(lines, str) else lines:
            for part in re.split(r"&&|;|\n", line):
                words = shlex.split(part)
                if len(words) > 1 and words[1].removesuffix(".py") in SCRIPTS:
                    yield words[1:]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_stored_commands_parse_and_recorded_models_exist(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    for script, *words in commands_of(record):
        module = importlib.import_module(f"nmt_zoo.command_line.{script.removesuffix('.py')}")
        with defined(module.Arguments):
            parse([script, *words])
    for entry in objects_of(record):
        if {"model", "settings", "vocab_sizes"} <= entry.keys():
            settings = models.preset_settings(entry["model"], **entry["settings"])
            assert entry["settings"].items() <= settings.items()
