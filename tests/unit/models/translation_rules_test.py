import numpy as np
import pytest

from nmt_zoo.models.phrases.sentence_options import LONGEST, NOTHING
from nmt_zoo.models.phrases.translation_rules import Begins, Contains, RepeatsNothing


def follow(rule, phrases):
    """Returns (the state after phrases, or None at a phrase that is not allowed)."""
    states = rule.start()
    for phrase in phrases:
        words = np.full((1, LONGEST), NOTHING)
        words[0, : len(phrase)] = phrase
        states, allowed = rule.extend(states, words, np.array([len(phrase)]))
        if not allowed[0]:
            return None
    return states


def random_phrases(draw):
    return [
        draw.integers(0, 3, draw.integers(1, LONGEST + 1)).tolist()
        for _ in range(draw.integers(1, 5))
    ]


def ends(rule, phrases):
    states = follow(rule, phrases)
    return states is not None and bool(rule.may_end(states)[0])


@pytest.mark.parametrize("seed", range(40))
def test_rules_hold_for_texts_whatever_phrases_they_are_made_of(seed):
    draw = np.random.default_rng(seed)
    phrases = random_phrases(draw)
    text = [word for phrase in phrases for word in phrase]
    some = text[: draw.integers(0, len(text) + 1)] + draw.integers(0, 3, 1).tolist()
    assert ends(Begins(some), phrases) == (text[: len(some)] == some)
    assert ends(Begins(text[:3]), phrases)
    assert ends(Begins(text, ends=True), phrases)
    assert not ends(Begins([*text, 1], ends=True), phrases)
    assert not ends(Begins(text[:-1], ends=True), phrases)
    wanted = [draw.integers(0, 3, length).tolist() for length in (1, 2, 4)]
    inside = [
        any(text[i : i + len(one)] == one for i in range(len(text) + 1 - len(one)))
        for one in wanted
    ]
    assert ends(Contains(wanted), phrases) == all(inside)
    assert Contains(wanted).bank(follow(Contains(wanted), phrases)).tolist() == [sum(inside)]
    for length in (1, 2, 3):
        windows = [tuple(text[i : i + length]) for i in range(len(text) + 1 - length)]
        repeats = len({*windows}) < len(windows)
        assert ends(RepeatsNothing(length, 50), phrases) == (not repeats)


def test_a_translation_without_repetitions_has_a_longest_length():
    assert follow(RepeatsNothing(2, 3), [[1, 2], [3]]) is not None
    assert follow(RepeatsNothing(2, 3), [[1, 2], [3, 4]]) is None
