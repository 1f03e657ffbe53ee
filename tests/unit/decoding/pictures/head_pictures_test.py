"""Tests of pictures of the summaries of attention heads."""

import itertools

import pytest

from nmt_zoo.decoding.alignment.head_summaries import Head
from nmt_zoo.decoding.alignment.links import AlignmentScore
from nmt_zoo.decoding.pictures.head_pictures import save_heads
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

pytest.importorskip("matplotlib")

HEADS = [
    Head(kind, layer, head, 1.25, 0.5 + layer, 0.125, score)
    for kind, score in (("encoder", None), ("cross", AlignmentScore(0.375, 1, 1)))
    for layer in (1, 2)
    for head in (1, 2, 3, "mean")
]


def test_the_same_heads_give_the_same_bytes(same_bytes):
    same_bytes(lambda path: save_heads(HEADS, path, title="a model: heads"))


def test_every_number_is_written_with_the_name_of_its_measure(tmp_path):
    save_heads(HEADS, tmp_path / "a.svg", title="a model: heads")
    texts = [text for text in svg_texts(tmp_path / "a.svg") if text]
    for measure, count in (("1.25", 16), ("1.50", 8), ("2.50", 8), ("0.12", 16), ("0.38", 8)):
        assert texts.count(measure) == count, measure
    for name in ("a model: heads", "entropy (nats)", "distance (tokens)", "share on </s>", "AER"):
        assert name in texts
    assert texts.count("mean") == 7 and "self-attention of the encoder" in texts


def test_no_text_is_cut_off_or_over_another(tmp_path, drawn):
    title = "the transformer_base of runs/with/a/long/name: attention heads over 1,000 pairs"
    _, boxes, _ = drawn(lambda: save_heads(HEADS, tmp_path / "a.png", title=title))
    both = itertools.combinations(boxes, 2)
    assert not [(a, b) for (a, box), (b, other) in both if box.overlaps(other)] and len(boxes) > 5
