"""Tests of pictures of derivations."""

import itertools

import pytest

from nmt_zoo.decoding.pictures.tree_pictures import save_tree
from nmt_zoo.models.phrases.table_decoder import Phrase
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

pytest.importorskip("matplotlib")

_SOURCE = "aozhou shi yu beihan you bangjiao de shaoshu guojia zhiyi"
_TARGET = "Australia is one of the few countries that have relations with North Korea"
SOURCE, TARGET = (text.split() for text in (_SOURCE, _TARGET))
# The derivation of Chiang 2007, section 3.3, but for the last gap.
PHRASES = [
    Phrase([0], [0], [(0, 0)]),
    Phrase([1], [1], [(1, 1)]),
    Phrase([9], [2, 3], [(9, 2)]),
    Phrase([6], [4, 7], [(6, 7)], 2),
    Phrase([2, 4], [8, 10], [(4, 8)], 3),
    Phrase([3], [11, 12], [(3, 11)], 4),
    Phrase([5], [9], [(5, 9)], 4),
    Phrase([7, 8], [5, 6], [(7, 5), (8, 6)], 3),
]


def test_every_rule_has_its_translation_with_gaps_in_the_order_of_the_source(tmp_path):
    save_tree(PHRASES, SOURCE, TARGET, tmp_path / "a.svg", title="a model")
    texts = svg_texts(tmp_path / "a.svg")
    assert set(SOURCE) < {*texts}
    for label in (
        "Australia",
        "one of X₁",
        "the X₂ that X₁",
        "have X₂ with X₁",
        "North Korea",
        "relations",
        "few countries",
        "a model",
        "blue: phrases of the translation, X₁ and X₂ for phrases below them; black: the source",
    ):
        assert label in texts, (label, texts)


def test_texts_do_not_overlap(tmp_path, drawn):
    long_words = [word * 6 for word in TARGET]
    _, texts, _ = drawn(lambda: save_tree(PHRASES, SOURCE, long_words, tmp_path / "a.png"))
    boxes = [box for _, box in texts]
    assert len(boxes) == len(SOURCE) + len(PHRASES)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_a_sentence_without_words_is_an_empty_picture(tmp_path):
    save_tree([], [], [], tmp_path / "a.svg")
    assert (tmp_path / "a.svg").exists()
