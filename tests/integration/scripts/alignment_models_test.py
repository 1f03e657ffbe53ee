"""Alignment models on the command line: iterations and stopping."""

import math

import pytest

from nmt_zoo.model_directory.metrics import read_records
from tests.running import train


def records(run, kind):
    return [record for record in read_records(run / "metrics.jsonl") if record["kind"] == kind]


def test_every_iteration_says_and_keeps_its_likelihood(folder, corpus):
    flags = ("--model=ibm2", "--model2_steps=2", "--alpha=0", "--bleu_lines=20")
    done = train(folder, "whole", *corpus, *flags, "--max_steps=15", "--eval_every_steps=6")
    run, shown = folder / "whole", done.err
    iterations = records(run, "train")
    assert [record["step"] for record in iterations] == list(range(1, 16))
    names = ["Model 1"] * 3 + ["Model 2"] * 2 + ["positions: table"] * 10
    for name, record in zip(names, iterations, strict=True):
        likelihood, perplexity = record["log_likelihood"], record["perplexity"]
        assert perplexity == pytest.approx(math.exp(record["nll"]))
        said = f"iteration {record['step']} ({name}): log-likelihood {likelihood:,.1f}, "
        assert f"{said}perplexity {perplexity:.3f}" in shown
    for first, last in ((0, 3), (3, 5), (5, 15)):
        likelihoods = [record["log_likelihood"] for record in iterations[first:last]]
        assert likelihoods == sorted(likelihoods)
    valid = records(run, "valid")
    assert [record["step"] for record in valid] == [6, 12, 15]
    assert valid[-1]["bleu"] > 90  # Sentences of this corpus are translated word by word.


def test_a_run_that_trained_only_simpler_models_says_so(folder, corpus):
    flags = ("--model=hmm_alignment", "--model1_steps=1", "--model2_steps=1", "--bleu_lines=0")
    for steps in (2, 3):
        done = train(folder, "short", *corpus, *flags, f"--max_steps={steps}")
        words = "ended at step 2, within the iterations of simpler models (--model1_steps=1, --mod"
        assert (words in done.out) == (steps == 2)
