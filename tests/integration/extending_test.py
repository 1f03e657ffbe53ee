"""The additions in docs/extending.md work exactly as printed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIFFS = re.findall(
    "^```diff\n(.*?)^```$",
    (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
TRAIN = """
import sys

sys.path.insert(0, ".")
from tests.running import run_script

common = ["--model=bag_of_words", "--set=width=8", "--tokenizer=word", "--dataset=mirror"]
common += ["--data_dir=data", "--max_steps=1"]
for flags in (["--valid_batch_size=5", "--model_dir=a"], ["--update=unigram", "--model_dir=b"]):
    status = run_script("train", [*common, *flags]).status
    if status:
        sys.exit(status)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the project with all additions."""
    copy = tmp_path_factory.mktemp("extended")
    for path in ROOT.iterdir():
        if (path / "__init__.py").exists():
            shutil.copytree(path, copy / path.name)
        elif path.suffix in (".py", ".toml"):
            shutil.copy2(path, copy)
    assert len(DIFFS) == 4
    for diff in DIFFS:
        # Editors trim the space of an empty context line.
        diff = re.sub("^$", " ", diff[:-1], flags=re.MULTILINE)
        subprocess.run(["git", "apply"], cwd=copy, input=f"{diff}\n", text=True, check=True)
    return copy


def test_a_model_an_option_a_way_of_training_and_a_dataset_can_be_added(extended):
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=extended, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    configs, records = [], []
    for name in ("a", "b"):
        configs.append(json.loads((extended / name / "config.json").read_text()))
        text = (extended / name / "metrics.jsonl").read_text().splitlines()
        records.append(json.loads(text[-1]))
    assert [config["options"]["update"] for config in configs] == ["gradient", "unigram"]
    assert configs[0]["options"]["valid_batch_size"] == 5
    assert configs[0]["dataset"] == "mirror"
    # The tokens are eight letters, and the end of a line after five letters on average.
    assert records[1]["perplexity"] < 9.5 < records[0]["perplexity"] < 14


def test_the_added_model_keeps_the_laws_of_all_models(extended):
    laws = ["tests/integration/models/contract_test.py", "-k", "bag_of_words", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *laws], cwd=extended, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
