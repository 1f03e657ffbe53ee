"""Alignment models on the command line: iterations, stopping, resuming, gradients, bad flags."""

import json
import math

import pytest

from tests.running import assert_same_arrays, run_script
from tests.tiny import corpus_flags


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("alignment")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder)


def flags(folder, corpus, name, *more):
    where = [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    return [*corpus, *where, "--bleu_lines=20", *more]


def records(run, kind):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.fixture(scope="module")
def whole(folder, corpus):
    """A run of thirty iterations that is never interrupted."""
    more = ("--model=ibm2", "--model2_steps=2", "--alpha=0")
    more += ("--max_steps=30", "--eval_every_steps=12")
    done = run_script("train", flags(folder, corpus, "whole", *more))
    return folder / "whole", more, done.err


def test_every_iteration_says_and_keeps_its_likelihood(whole):
    run, _, shown = whole
    kept = records(run, "train")
    assert [record["step"] for record in kept] == list(range(1, 31))
    names = ["Model 1"] * 3 + ["Model 2"] * 2 + ["positions: table"] * 25
    for name, record in zip(names, kept, strict=True):
        likelihood, perplexity = record["log_likelihood"], record["perplexity"]
        assert perplexity == pytest.approx(math.exp(record["nll"]))
        said = f"iteration {record['step']} ({name}): log-likelihood {likelihood:,.1f}, "
        assert f"{said}perplexity {perplexity:.3f}" in shown
    for first, last in ((0, 3), (3, 5), (5, 30)):
        likelihoods = [record["log_likelihood"] for record in kept[first:last]]
        assert likelihoods == sorted(likelihoods)
    valid = records(run, "valid")
    assert [record["step"] for record in valid] == [12, 24, 30]
    assert valid[-1]["bleu"] > 90  # Sentences of this corpus are translated word by word.


@pytest.fixture(scope="module")
def plain(folder, corpus):
    """Model 1, trained without any flag."""
    run_script("train", flags(folder, corpus, "plain", "--model=ibm1"))
    return folder / "plain"


def test_a_run_that_trained_only_simpler_models_says_so(folder, corpus):
    more = ("--model=hmm_alignment", "--model1_steps=1", "--model2_steps=1", "--bleu_lines=0")
    for steps in (2, 3):
        done = run_script("train", flags(folder, corpus, "short", *more, f"--max_steps={steps}"))
        words = "ended at step 2, within the iterations of simpler models (--model1_steps=1, --mod"
        assert (words in done.out) == (steps == 2)


def test_more_iterations_with_fertilities_give_the_weights_of_all_at_once(folder, corpus):
    """Although their perplexity, which does not count fertilities, rises."""
    more = ("--model=hmm_fertility", "--model1_steps=1", "--hmm_steps=1", "--bleu_lines=0")
    # An average with earlier weights has a lower perplexity, too.
    averages = "--average_checkpoints=3"
    for name, steps, *own in (("parts", 3), ("parts", 6), ("at_once", 6, averages)):
        arguments = flags(folder, corpus, name, *more, f"--max_steps={steps}", *own)
        run_script("train", arguments)
    first, last = (record["perplexity"] for record in records(folder / "parts", "valid"))
    assert last > first
    assert_same_arrays(folder / "parts/best.npz", folder / "at_once/best.npz")


def test_trains_by_gradient_as_well(plain, folder, corpus):
    more = ("--update=gradient", "--max_tokens_per_batch=256", "--max_epochs=20")
    more += ("--schedule=constant", "--warmup_steps=1")
    arguments = flags(folder, corpus, "gradient", "--model=ibm1", *more)
    run_script("train", arguments)
    found, expected = (records(run, "valid")[-1] for run in (folder / "gradient", plain))
    assert found["perplexity"] < 1.05 * expected["perplexity"]
    assert found["bleu"] > 80
