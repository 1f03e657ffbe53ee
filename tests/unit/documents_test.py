"""The documents agree with the code."""

import functools
import importlib
import re
from pathlib import Path

import pytest
from absl.flags import FLAGS

from benchmarks import results_table
from nmt_zoo import models
from nmt_zoo.command_line.flag_values import defined

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("train", "translate", "visualize_attention", "align", "export", "serve")
GENERATED = ("docs/models.md", "docs/options.md")
WRITTEN = ("README.md", "BUILD.md", "docs/results.md", "docs/troubleshooting.md")
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in (*WRITTEN, *GENERATED)}


@functools.cache
def flags_of(script):
    """Returns the names of the flags that a script defines."""
    module = importlib.import_module(f"nmt_zoo.command_line.{script}")
    with defined(module.define_flags):
        return {*FLAGS, "help"}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_flag_of_a_command_exists(name):
    commands = re.findall(r"(\w+)\.py((?:[^\n`]|\\\n)*)", TEXTS[name].replace("\\\n", " "))
    used = [(script, set(re.findall(r"--(\w+)", rest))) for script, rest in commands]
    used = [(script, flags) for script, flags in used if script in SCRIPTS and flags]
    assert used
    for script, flags in used:
        assert flags <= flags_of(script), script


@pytest.mark.parametrize("name", TEXTS)
def test_every_flag_in_the_text_exists_somewhere(name):
    known = set().union(*map(flags_of, SCRIPTS)) | {"logdir"}
    used = re.findall(r"`--(\w+)", TEXTS[name])
    assert set(used) <= known


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_every_measurement_is_documented_and_the_flags_of_its_commands_exist(path):
    code = path.read_text(encoding="utf-8")
    known = set(re.findall(r'(?:DEFINE_\w+\(\s*"|add_argument\("--)(\w+)"', code))
    documents = TEXTS["BUILD.md"] + TEXTS["docs/results.md"]
    command = rf"python\s+benchmarks/{path.name}"
    assert re.search(command, documents + code)
    used = re.findall(rf"{command}([^`]*)`", documents)
    used += re.findall(rf"{command}((?:[^\n\\]|\\\n)*)", code)
    for flags in used:
        names = re.findall(r"\s--(\w+)", flags)
        assert {name if name in known else name.removeprefix("no") for name in names} <= known


def test_every_preset_is_in_the_readme_and_among_the_models():
    for preset in [*models.preset_names(), *models.LANGUAGE_MODELS]:
        assert f"| `{preset}` |" in TEXTS["README.md"]
        assert f"| `{preset}` |" in TEXTS["docs/models.md"]


def test_every_file_of_the_map_exists():
    for row in re.findall(r"^\| (.*?) \|", TEXTS["README.md"], re.M):
        for path in re.findall(r"(?:`|\()([\w/]+(?:\.py|\.md|/))[`)]", row):
            assert (ROOT / path).exists(), path


def test_the_readme_fits_on_a_few_screens():
    assert TEXTS["README.md"].count("\n") <= 150


def test_the_python_of_the_readme_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.S)
    exec(code, {})
    assert capsys.readouterr().out.count("\n") == 1


def test_the_tables_are_those_of_the_result_files():
    assert not results_table.outdated(), "run `python benchmarks/results_table.py`"
