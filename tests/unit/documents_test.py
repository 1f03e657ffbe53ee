"""The documents and the stored results agree with the code."""

import functools
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
from absl.flags import FLAGS

from benchmarks import results_table
from nmt_zoo import models
from nmt_zoo.command_line.flag_values import defined, parse

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("train", "translate", "visualize_attention", "align", "compare", "export", "serve")
MANUAL = (
    *("BUILD.md", "CONTRIBUTING.md", "README.md", "docs/data.md", "docs/devices.md"),
    *("docs/options.md", "docs/serving.md", "docs/translating.md"),
)
FOLDERS = ("", "docs/", "docs/studies/", "docs/tutorials/", "benchmarks/")
PATHS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PATHS}
TASKS = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("runs/*.sh"))}
RESULTS = sorted((ROOT / "docs" / "results").rglob("*.json"))
COMMANDS = {**{name: TEXTS[name] for name in MANUAL}, **TASKS}


@functools.cache
def flags_of(script):
    """Returns the names of the flags that a script defines."""
    module = importlib.import_module(f"nmt_zoo.command_line.{script}")
    with defined(module.Arguments):
        return {*FLAGS, "help"}


@pytest.mark.parametrize("name", {**TEXTS, **TASKS})
def test_every_flag_of_a_command_and_in_the_text_exists(name):
    text = {**TEXTS, **TASKS}[name]
    commands = re.findall(r"(\w+)\.py((?:[^\n`]|\\\n)*)", text.replace("\\\n", " "))
    for script, rest in commands if name in COMMANDS else ():
        if script in SCRIPTS:
            assert set(re.findall(r"--(\w+)", rest)) <= flags_of(script), script
    known = set().union(*map(flags_of, SCRIPTS)) | {"logdir"}
    if name != "benchmarks/README.md":
        assert set(re.findall(r"`--(\w+)", text)) <= known


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_every_measurement_is_documented_and_the_flags_of_its_commands_exist(path):
    code = path.read_text(encoding="utf-8")
    known = set(re.findall(r'(?:DEFINE_\w+\(\s*"|add_argument\("--)(\w+)"', code))
    documents = "".join(TEXTS.values())
    command = rf"python\s+benchmarks/{path.name}"
    assert re.search(command, documents + code)
    used = re.findall(rf"{command}([^`]*)`", documents)
    used += re.findall(rf"{command}((?:[^\n\\]|\\\n)*)", code)
    for text in used:
        names = re.findall(r"\s--(\w+)", text)
        assert {name if name in known else name.removeprefix("no") for name in names} <= known


def test_every_preset_is_in_the_readme_and_among_the_models():
    for preset in [*models.PRESETS, *models.LANGUAGE_MODELS]:
        assert f"| `{preset}` |" in TEXTS["README.md"]
        assert f"| `{preset}` |" in TEXTS["docs/models.md"]


def test_every_file_of_the_map_exists():
    for row in re.findall(r"^\| (.*?) \|", TEXTS["README.md"], re.M):
        for path in re.findall(r"(?:`|\()([\w/]+(?:\.py|\.md|/))[`)]", row):
            assert (ROOT / path).exists(), path


def test_every_link_leads_to_a_file_and_a_heading():
    for name, text in TEXTS.items():
        for path, heading in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
            target = ((ROOT / name).parent / path).resolve() if path else ROOT / name
            assert target.exists(), f"{name}: {path}"
            if heading:
                titles = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.M)
                slugs = [
                    re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
                ]
                assert heading in slugs, f"{name}: {path}#{heading}"


def test_the_manual_is_read():
    assert TEXTS["README.md"].count("\n") <= 150
    assert len(TEXTS["BUILD.md"].split()) <= 2700
    for name in MANUAL:
        for paragraph in TEXTS[name].split("\n\n"):
            if not paragraph.startswith(("|", "*", "```", "<!--")):
                assert len(paragraph.split()) <= 90, f"{name}: {paragraph}"


def test_the_tables_are_those_of_the_result_files():
    assert not results_table.outdated(), "run `python benchmarks/results_table.py`"


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
