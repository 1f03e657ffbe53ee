"""Runs every preset, at small sizes, through train.py, translate.py and export.py."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from tests.running import client_in_this_process, run_script, train
from tests.tiny import pairs, rate_flags, small_flags

# With a dozen words, steps are so quick that the model can be trained until translations depend on
# their sources; tracing takes most of the time.
QUICK = [
    *("--tokenizer=word", "--max_tokens_per_batch=256", "--bleu_lines=2"),
    "--average_checkpoints=1",  # An average could be kept, but its perplexity is not recorded.
]
# Two lines whose translations training shows, an empty line, and a line with unknown words.
SHOWN = [source for source, _ in pairs(2, seed=2)]
LINES = [*SHOWN, "", "cat sees the 漢 zebra"]

# One preset of each class, but for those that other tests of scripts train: Transformers,
# attention over words, models of phrases, and IBM models without fertilities. The laws of all
# models are tested with all presets; `make test-slow` runs all of them here, too.
QUICK_PRESETS = ("hmm_fertility", "rnn_attention", "transformer_simple")


class Trained(NamedTuple):
    """A model directory, the flags of the run that made it, its steps, and its output."""

    preset: str
    folder: Path
    flags: list
    steps: int
    said: str


@pytest.fixture(scope="module")
def lines(folder):
    write_lines(folder / "lines", LINES)
    return folder / "lines"


def pytest_generate_tests(metafunc):
    """Runs a test with every preset; marks presets that only `make test-slow` runs."""
    if "trained" not in metafunc.fixturenames:
        return
    presets = [
        pytest.param(name, marks=[] if name in QUICK_PRESETS else pytest.mark.slow)
        for name in models.PRESETS
        if not models.model_class(name).decoder_class
    ]
    metafunc.parametrize("trained", presets, indirect=True, scope="module")


@pytest.fixture(scope="module")
def trained(request, folder, corpus):
    preset = request.param
    steps = 30 if rate_flags(preset) else 12  # Iterations over the whole text learn faster.
    flags = [*corpus, *small_flags(preset), *rate_flags(preset), *QUICK]
    flags += [f"--max_steps={steps}", f"--eval_every_steps={steps}"]
    return Trained(preset, folder / preset, flags, steps, train(folder, preset, *flags).err)


@pytest.fixture(scope="module")
def loaded(trained):
    model, tokenizer, _ = ModelDirectory(trained.folder).load()
    return model, tokenizer


def log_probs(model, source_ids, target_ids):
    """Returns the log-probabilities of whole sentences, `[B]`."""
    scores = model.score(source_ids, target_ids)
    return np.where(target_ids != PAD_ID, scores, 0.0).sum(axis=1)


def test_the_same_command_again_resumes_and_changes_nothing(trained):
    files = [*trained.folder.rglob("*.npz"), trained.folder / "metrics.jsonl"]
    before = [path.read_bytes() for path in files]
    done = train(trained.folder.parent, trained.preset, *trained.flags)
    assert f"resumed at step {trained.steps}\n" in done.out
    assert {"best.npz", f"{trained.steps:08}.npz", "metrics.jsonl"} <= {path.name for path in files}
    assert [path.read_bytes() for path in files] == before


def test_a_loaded_model_has_the_perplexity_and_lengths_that_training_saw(trained, text, loaded):
    model, tokenizer = loaded
    sources, targets = (
        vocabulary.encode(read_lines(text / f"valid.{side}"))
        for side, vocabulary in (("source", tokenizer.source), ("target", tokenizer.target))
    )
    mean = log_probs(model, padded(sources), padded(targets)).sum() / sum(map(len, targets))
    record = read_records(trained.folder / "metrics.jsonl")[-1]
    assert record["kind"] == "valid"
    assert math.exp(-mean) == pytest.approx(record["perplexity"], rel=1e-4)
    if model.tracks_coverage:  # In this corpus, sentences are as long as their translations.
        np.testing.assert_allclose(model.length.parameters, [0, 1, 0.01], atol=1e-6)


def test_every_line_has_one_translation_and_an_empty_one_an_empty_one(trained, lines):
    arguments = [f"--model_dir={trained.folder}", f"--input={lines}", "--beam_size=1"]
    done = run_script("translate", [*arguments, "--format=scores"])
    scores, texts = zip(*(line.split("\t", 1) for line in done.out.split("\n")[:-1]), strict=True)
    assert len(texts) == len(LINES) and (scores[2], texts[2]) == ("0.0000", "")
    assert all(float(score) < 0 for score, line in zip(scores, LINES, strict=True) if line)
    assert len(set(scores)) > 2  # They depend on the source, even where texts are equal.
    for line, translation in zip(SHOWN, texts, strict=False):
        assert f"    {line}\n      -> {translation}\n" in trained.said


@pytest.mark.slow  # The decoding methods of all models are traced in tests of their contract.
def test_an_export_translates_alike(trained, lines):
    """export.py compares it with the model."""
    # No new process is needed: scripts_test.py starts one.
    with client_in_this_process():
        arguments = [f"--model_dir={trained.folder}", f"--check_input={lines}", "--beam_size=3"]
        done = run_script("export", [*arguments, f"--export_dir={trained.folder}.serving"])
    assert "4 lines translated alike" in done.out
