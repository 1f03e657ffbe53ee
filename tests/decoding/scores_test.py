"""Scores of corpora, against one or several references and beside a baseline."""

import random

import pytest

from decoding.scores import METRICS, corpus_scores, p_values, paired_bootstrap

LINES = [" ".join(random.Random(i).choices("abcdefghij", k=12)) for i in range(40)]


def test_one_of_several_references_is_enough():
    halves = [LINES[:20] + ["x"] * 20, ["y"] * 20 + LINES[20:]]
    found = corpus_scores(LINES, halves, METRICS)
    assert found["bleu"].score == pytest.approx(100)
    assert found["ter"].score == 0
    assert "nrefs:2" in found["bleu_signature"] and "nrefs:2" in found["ter_signature"]
    assert corpus_scores(LINES, halves[:1])["bleu"].score < 60


def test_a_paired_bootstrap_tells_a_difference_from_chance():
    worse = [line[:-8] + " z z z z" for line in LINES]
    (line,) = paired_bootstrap(LINES, worse, [LINES], ["chrf"])
    assert line.startswith("chrF2|nrefs:1|bs:1000|") and float(line.split("p = ")[1]) < 0.01
    other = [" ".join(reversed(line.split())) for line in LINES]
    swapped = [b if i % 2 else a for i, (a, b) in enumerate(zip(LINES, other, strict=True))]
    again = [a if i % 2 else b for i, (a, b) in enumerate(zip(LINES, other, strict=True))]
    (line,) = paired_bootstrap(swapped, again, [LINES], ["bleu"])
    assert float(line.split("p = ")[1]) > 0.3
    line, *_ = paired_bootstrap(worse, LINES, [LINES])
    assert f"{p_values(LINES, [again, worse], [LINES])[1]:.4f}" == line.split("p = ")[1]
