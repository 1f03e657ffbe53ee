"""The files in docs/extending.md work exactly as printed, in a folder without the project."""

import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from tests.running import ROOT

DOCUMENT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^    python (\w+)\.py (.*)$", DOCUMENT, re.MULTILINE)
# Runs the commands in one process, with fewer steps.
RUN = """
import json, sys
from tests.running import run_script

for script, *flags in json.loads(sys.argv[1]):
    if script == "train":
        flags += ["--set=width=8", "--tokenizer=word", "--bleu_lines=0"]
        if "unigram" in flags[1]:
            flags += ["--dataset=my_text.py:mirror"]
        else:
            flags += ["--max_steps=1"]
    run_script(script, flags)
"""


def run(folder, *arguments, **variables):
    """Runs Python in a folder, with the project on its path."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=variables, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A folder with all files of the document, in which its commands have been run."""
    folder = tmp_path_factory.mktemp("extended")
    assert len(FILES) == 4 and len(COMMANDS) == 4
    for name, text in FILES:
        (folder / name).write_text(text, encoding="utf-8")
    commands = [[script, *flags.split()] for script, flags in COMMANDS]
    draw = "visualize_attention"
    commands += [
        [draw, "--architecture=my_model.py:BagOfWords", "--set=width=8", "--output=preset.svg"],
        [draw, "--architecture=runs/bag", "--output=trained.svg"],
    ]
    done = run(folder, "-c", RUN, json.dumps(commands))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_own_models_ways_options_and_datasets_are_recorded(extended):
    configs = {
        name: json.loads((extended / "runs" / name / "config.json").read_text())
        for name in ("bag", "unigram", "mirror")
    }
    assert [config["model"] for config in configs.values()] == ["BagOfWords"] * 3
    assert configs["bag"]["options"]["update"] == "gradient"
    assert configs["bag"]["options"]["learning_rate"] == 3e-3
    assert configs["unigram"]["options"]["update"] == "unigram"
    assert configs["unigram"]["options"]["pseudo_count"] == 0.5
    assert configs["mirror"]["dataset"] == "mirror"
    assert configs["bag"]["code"] == [str(extended / "my_model.py")]


def test_an_own_model_is_drawn_layer_by_layer(extended):
    for name in ("preset", "trained"):
        assert ">Source embedding</text>" in (extended / f"{name}.svg").read_text()


def test_the_way_of_training_counts_once_as_its_defaults_say(extended):
    text = (extended / "runs" / "unigram" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["step"] for line in text} == {1}
    # The tokens are eight letters, and the end of a line after five letters on average.
    assert json.loads(text[-1])["perplexity"] < 9.5


def test_the_decoding_rule_holds(extended):
    lines = (extended / "backward").read_text().splitlines()
    assert len(lines) == 100
    words = [line.split() for line in lines]
    assert not any(a == b for line in words for a, b in itertools.pairwise(line))


LOAD = """
import os, nmt_zoo

os.rename("my_model.py", "moved.py")
try:
    nmt_zoo.load("runs/mirror").translate(["a b"])
except nmt_zoo.UserError as error:
    print(error)
os.rename("moved.py", "my_model.py")
print(nmt_zoo.load("runs/mirror").translate(["a b"]))
"""


def test_a_model_directory_misses_its_file_by_name_and_loads_it(extended):
    done = run(extended, "-c", LOAD)
    assert done.returncode == 0, done.stderr
    assert "my_model.py: there is no such file" in done.stdout


@pytest.mark.slow
def test_the_added_model_keeps_the_laws_of_all_models(extended):
    laws = ROOT / "tests" / "integration" / "models" / "contract_test.py"
    model = f"{extended / 'my_model.py'}:BagOfWords"
    done = run(ROOT, "-m", "pytest", str(laws), "-k", "BagOfWords", OWN_MODEL=model)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
