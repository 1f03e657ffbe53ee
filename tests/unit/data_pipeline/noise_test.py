"""Noise: each kind changes what its name says, on the sides where a translation keeps it."""

import collections
import random
import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline import noise

PAIR = "I know the king's 12 horses, and he sleeps.", "Ich kenne die 12 Pferde, und er schläft !"


def drawn(kind, pair=PAIR, count=50):
    return [noise.KINDS[kind](pair, random.Random(i)) for i in range(count)]


def test_capitals_and_first_capitals_are_on_both_sides():
    assert drawn("capitals")[0] == [line.upper() for line in PAIR]
    source, target = drawn("titles")[0]
    assert source == "I Know The King's 12 Horses, And He Sleeps."
    assert target == "Ich Kenne Die 12 Pferde, Und Er Schläft !"


def test_small_letters_are_in_the_source_alone_with_and_without_its_first_one():
    found = {source for source, _ in drawn("lowercase")}
    assert found == {PAIR[0].lower(), PAIR[0][0] + PAIR[0][1:].lower()}
    assert {target for _, target in drawn("lowercase")} == {PAIR[1]}


def test_a_final_stop_leaves_both_sides_or_none():
    assert drawn("stop")[0] == [PAIR[0][:-1], PAIR[1][:-2]]
    assert list(drawn("stop", ("no stop", "ohne."))[0]) == ["no stop", "ohne."]


def test_typing_errors_change_inner_letters_of_long_words_of_the_source_alone():
    found = drawn("typos")
    assert {target for _, target in found} == {PAIR[1]}
    assert sum(source != PAIR[0] for source, _ in found) > 45  # "ee" can be exchanged.
    lengths = {len(source) - len(PAIR[0]) for source, _ in found}
    assert {-1, 0, 1} <= lengths  # Dropped, exchanged, doubled.
    for source, _ in found:
        old, new = (re.findall(r"\w+|[^\w\s]", line) for line in (PAIR[0], source))
        assert len(old) == len(new)
        for before, after in zip(old, new, strict=True):
            assert before == after or len(before) >= 4
            assert (before[0], before[-1]) == (after[0], after[-1])


def test_spaces_come_and_go_in_the_source_and_its_characters_stay():
    found = drawn("spaces")
    assert {target for _, target in found} == {PAIR[1]}
    assert all(s.replace(" ", "") == PAIR[0].replace(" ", "") for s, _ in found)
    changes = collections.Counter(source.count(" ") - PAIR[0].count(" ") for source, _ in found)
    assert set(changes) == {-1, 1}


def test_a_shared_number_becomes_the_same_other_one_on_both_sides():
    for source, target in drawn("numbers", ("12 of 7, 12", "12 von 7, 12 und 5")):
        first, second, third = re.findall(r"\d+", source)
        assert first == third and len(first) == 2 and len(second) == 1
        assert re.findall(r"\d+", target) == [first, second, first, "5"]


@pytest.mark.parametrize("kind", noise.KINDS)
@pytest.mark.parametrize("pair", [("", ""), ("a", "b"), (".", "."), ("  ", "x"), ("ß", "ß 1")])
def test_lines_that_have_nothing_to_change_stay_lines(kind, pair):
    for new in drawn(kind, pair, 5):
        assert len(new) == 2 and all(isinstance(line, str) for line in new)
        assert new[1] == pair[1] or kind in ("capitals", "titles", "stop", "numbers")


def test_shares_are_parsed_and_wrong_ones_refused():
    assert noise.shares_of("copies=0.05, typos=.1,stop=0") == {"copies": 0.05, "typos": 0.1}
    assert noise.shares_of("none") == noise.shares_of("") == {}
    for text in ("typos", "typos=-1", "typos=x", "typos=nan", "typos=0.6,stop=0.6"):
        with pytest.raises(UserError, match="numbers from 0 to 1"):
            noise.shares_of(text)
    with pytest.raises(UserError, match=r"no kind 'typo'.*did you mean typos"):
        noise.shares_of("typo=0.1")
