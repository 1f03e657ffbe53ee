"""Tests of the learning curves of runs."""

import json
import math

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.pictures.learning_curves import learning_curves, save_learning_curves
from nmt_zoo.model_directory.directory import ModelDirectory
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

NEURAL = [
    {"step": 10, "kind": "train", "nll": 3.0},
    {"step": 20, "kind": "train", "nll": 1e6},
    {"step": 20, "kind": "valid", "perplexity": 40.0},
]
EM = [
    {"step": 1, "kind": "train", "nll": 9.0, "log_likelihood": -900.0},
    {"step": 2, "kind": "train", "nll": 7.0, "log_likelihood": -700.0},
    {"step": 2, "kind": "valid", "perplexity": 30.0},
]


def run(path, records, *, source="a b a b", target="c d c d", **entries):
    directory = ModelDirectory(path)
    tokenizer = train_tokenizer("word", [source], [target])
    options = dict(options_of("transformer_tiny", "files", {}))
    config = {"model": "transformer_tiny", "settings": {}, "tokenizer": "word", "options": options}
    sizes = {"vocab_sizes": [len(tokenizer.source), len(tokenizer.target)]}
    directory.start({**config, **sizes, **entries}, tokenizer)
    timed = [{"seconds": 1.5, **record} for record in records]
    directory.metrics_path.write_text("".join(json.dumps(record) + "\n" for record in timed))
    return directory


def test_perplexity_by_update(tmp_path):
    found = learning_curves(run(tmp_path / "a", NEURAL))
    assert list(found) == ["perplexity"]
    curves = found["perplexity"]
    assert curves["validation"] == ((20,), (40,))
    steps, values = curves["training"]
    assert steps == (10, 20)
    assert values[0] == pytest.approx(math.exp(3)) and math.isfinite(values[1])


def test_records_that_are_not_finite_are_left_out(tmp_path):
    diverged = [
        {"step": 30, "kind": "train", "nll": None},
        {"step": 30, "kind": "valid", "perplexity": None},
        {"step": 40, "kind": "valid", "perplexity": float("nan")},
    ]
    assert learning_curves(run(tmp_path / "a", NEURAL + diverged)) == learning_curves(
        run(tmp_path / "b", NEURAL)
    )


def test_likelihood_by_iteration_of_expectation_maximisation(tmp_path):
    directory = run(tmp_path / "a", EM)
    found = learning_curves(directory)
    assert found["log-likelihood"] == {"training": ((1, 2), (-900, -700))}
    assert found["perplexity"]["validation"] == ((2,), (30,))
    save_learning_curves([directory], tmp_path / "a.svg")
    assert {"iterations", "log-likelihood"} <= set(svg_texts(tmp_path / "a.svg"))


def test_several_runs_are_named(tmp_path):
    directories = [run(tmp_path / name, NEURAL) for name in "ab"]
    save_learning_curves(directories, tmp_path / "a.svg")
    names = {f"{d.path}, {kind}" for d in directories for kind in ("training", "validation")}
    assert names | {"updates", "perplexity"} <= set(svg_texts(tmp_path / "a.svg"))


def test_a_run_that_is_given_twice_is_drawn_once(tmp_path):
    directory = run(tmp_path / "a", NEURAL)
    save_learning_curves([directory, directory], tmp_path / "a.svg")
    assert {"training", "validation"} <= set(svg_texts(tmp_path / "a.svg"))


def test_perplexity_is_what_runs_of_both_kinds_have(tmp_path):
    directories = [run(tmp_path / "a", NEURAL), run(tmp_path / "b", EM)]
    save_learning_curves(directories, tmp_path / "a.svg")
    names = {f"{d.path}, {kind}" for d in directories for kind in ("training", "validation")}
    assert names | {"perplexity"} <= set(svg_texts(tmp_path / "a.svg"))


@pytest.mark.parametrize(
    ("records", "other", "expected"),
    [
        (NEURAL, {"target": "c e c e"}, "different vocabularies: perplexity cannot be compared"),
        (
            NEURAL,
            {"target": "c c d d d", "validation_text": "1"},
            "different vocabularies and validation texts: perplexity cannot be compared",
        ),
        (EM, {"training_text": "1"}, "different training texts: log-likelihood cannot be compared"),
        (NEURAL, {"source": "a f a f", "training_text": "1"}, None),
    ],
)
def test_a_title_and_a_line_say_what_cannot_be_compared(tmp_path, capsys, records, other, expected):
    directories = [run(tmp_path / "a", records), run(tmp_path / "b", records, **other)]
    save_learning_curves(directories, tmp_path / "a.svg")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ([expected] if expected else [])
    titles = [text for text in svg_texts(tmp_path / "a.svg") if "compared" in text]
    assert titles == lines


def test_a_damaged_line_is_named(tmp_path):
    directory = run(tmp_path / "a", NEURAL)
    with open(directory.metrics_path, "a") as file:
        file.write('{"step": 1, "kind": "valid", "seconds": 1}')
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 4: it lacks perplexity"):
        learning_curves(directory)


def test_a_run_without_metrics_is_refused(tmp_path):
    with pytest.raises(UserError, match="still empty"):
        learning_curves(run(tmp_path / "a", []))
    with pytest.raises(UserError, match="no such model directory"):
        learning_curves(ModelDirectory(tmp_path / "b"))
