"""The first losses of every network, so that no change moves training unseen.

A change that means to move them writes tests/museum/losses.json anew, with
`python -m tests.integration.first_losses_test`, and says so in its commit.
"""

import json
import tempfile
from pathlib import Path

import pytest

from nmt_zoo import models
from nmt_zoo.common.files import read_lines, write_json, write_lines
from nmt_zoo.data_pipeline.datasets import prepare
from nmt_zoo.model_directory.metrics import read_records
from nmt_zoo.training.ways.catalogue import ways_of
from tests.running import train
from tests.tiny import small_flags

LOSSES = Path(__file__).resolve().parents[1] / "museum" / "losses.json"
NETWORKS = [name for name in models.PRESETS if ways_of(name)[0] == "gradient"]
UPDATES, MEAN_OF = 30, 3
# All other options are those that a model has by default on such a text.
FLAGS = ["--max_tokens_per_batch=256", "--learning_rate=0.01", "--warmup_steps=5"]
FLAGS += [f"--max_steps={UPDATES}", f"--log_every_steps={MEAN_OF}"]
FLAGS += ["--bleu_lines=0", "--average_checkpoints=1"]
# Other processors and libraries add up in another order: with kernels of SSE 4.1, or without
# oneDNN, all losses stayed within 1e-6. Another seed moved those of each model by 3.6e-3 or more.
TOLERANCE = 1e-3


def corpus_flags(folder):
    """Writes the first lines of the included corpus; returns the flags that name them."""
    splits, flags = prepare("demo", folder), []
    for name, count in (("train", 150), ("valid", 10)):
        for side, path in splits[name]._asdict().items():
            write_lines(folder / f"{name}.{side}", read_lines(path)[:count])
            flags.append(f"--{name}_{side}={folder / f'{name}.{side}'}")
    return flags


def first_losses(preset, folder, flags):
    """Returns the mean training losses of the first updates."""
    train(folder, preset, *flags, *small_flags(preset), *FLAGS)
    records = read_records(folder / preset / "metrics.jsonl")
    return [round(record["loss"], 4) for record in records if record["kind"] == "train"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    return folder, corpus_flags(folder)


@pytest.mark.parametrize("preset", NETWORKS)
def test_the_first_updates_have_the_losses_that_they_had(preset, text):
    losses = first_losses(preset, *text)
    assert len(losses) == UPDATES // MEAN_OF
    assert losses == pytest.approx(json.loads(LOSSES.read_text())[preset], rel=TOLERANCE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        flags = corpus_flags(Path(folder))
        write_json(LOSSES, {name: first_losses(name, Path(folder), flags) for name in NETWORKS})
