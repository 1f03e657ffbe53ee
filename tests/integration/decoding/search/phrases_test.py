"""Banned phrases, against a search for whole words in the text of every sequence of tokens."""

import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.data_pipeline.text_form import JOINER
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    SPECIALS,
    BpeVocabulary,
    PieceVocabulary,
    WordVocabulary,
)
from nmt_zoo.decoding.search.banned import banned_phrases
from nmt_zoo.decoding.search.phrases import (
    has_phrase,
    phrase_ids,
    piece_texts,
    word_joints,
)
from nmt_zoo.decoding.search.processors import Partial

PIECES = {
    "words": (WordVocabulary, ["a", "b", "ab", "(a", "b)."]),
    "joined": (WordVocabulary, ["a", "b", f"({JOINER}", f"{JOINER}.", f"{JOINER}'b"]),
    "continued": (PieceVocabulary, ["a", "a@@", "b", "b@@", "ab", "x@@", "."]),
    "marked": (PieceVocabulary, ["▁a", "a", "b", "▁", "▁ab", "ab", "▁b", "(", "b."]),
}
PHRASES = ["ab", "a b", "b a", "ä"]


def are_barred(banned, rows, size):
    """Returns, for rows of equal length, if one token was impossible after those before it."""
    ids = np.array(rows, np.int32)
    state, found = banned.start(tf.range(len(ids))), np.zeros(len(ids), bool)
    for tokens in ids.T:
        partial = Partial(None, None, None, None, {"banned": state})
        scores = banned(tf.zeros([len(ids), size]), partial).numpy()
        found |= scores[range(len(ids)), tokens] < 0
        state = banned.follow(state, tf.constant(tokens))
    return found


def is_barred(banned, ids, size):
    return are_barred(banned, [ids], size)[0]


@pytest.mark.parametrize("style", PIECES)
def test_no_sequence_of_possible_tokens_spells_a_banned_phrase(style):
    kind, pieces = PIECES[style]
    vocabulary = kind([*SPECIALS, *pieces])
    phrases = PHRASES[:3]
    banned = banned_phrases(phrases, vocabulary)
    begun = "|".join(rf"(?<!\w){p}" for p in phrases)
    pattern = re.compile(rf"({begun})(?!\w)")
    tokens, count, free = range(len(SPECIALS), len(vocabulary)), 0, 0
    for length in (1, 2, 3):
        rows = [*itertools.product(tokens, repeat=length)]
        for ids, barred in zip(rows, are_barred(banned, rows, len(vocabulary)), strict=True):
            text = vocabulary.decode(list(ids))
            if pattern.search(text):
                assert barred, vocabulary.pieces(ids)
                count += 1
            elif not re.search(begun, text):
                assert not barred, vocabulary.pieces(ids)
                free += 1
    assert count > 20 and free > 20


def test_an_elision_is_found_before_a_word_and_by_itself():
    vocabulary = WordVocabulary([*SPECIALS, f"l'{JOINER}", "eau", "l", f"{JOINER}'"])
    banned = banned_phrases(["l'"], vocabulary)
    for line, expected in (("eau l'eau", True), ("eau l'", True), ("eau l eau'", False)):
        (ids,) = vocabulary.encode([line])
        assert is_barred(banned, ids, len(vocabulary)) == expected, vocabulary.pieces(ids)


@pytest.fixture(scope="module")
def bpe():
    return BpeVocabulary.train(["der Hund läuft.", "die Hunde laufen", "ein Hund"] * 5, 300)


def test_letters_spelt_with_bytes_are_found_too(bpe):
    banned = banned_phrases(["Hund", "漢 ä"], bpe)
    bytes_of = {text: i for i, text in enumerate(piece_texts(bpe)) if len(text) == 1}
    spelt = [next(i for i, t in enumerate(piece_texts(bpe)) if t == b" ")]
    spelt += [bytes_of[bytes([byte])] for byte in "漢 ä".encode()]
    assert bpe.decode(spelt) == "漢 ä"
    assert is_barred(banned, spelt, len(bpe))
    (hund, hunde) = (ids[:-1] for ids in bpe.encode(["ein Hund läuft", "eine Maus"]))
    assert is_barred(banned, hund, len(bpe)) and not is_barred(banned, hunde, len(bpe))


@pytest.fixture(scope="module")
def asian():
    """Chinese, which has no spaces between words, and Hindi, whose vowel signs are marks."""
    lines = ["我住在北京市。", "北京很大。", "他去北京", "上海在东边。", "我去上海。"]
    return BpeVocabulary.train([*lines, "राम किताब पढ़ता है", "वह क जाता"] * 20, 360)


@pytest.mark.parametrize(
    ("phrase", "having", "lacking"),
    [
        ("北京", ["我住在北京市。", "北京很大。", "我爱 北京 。", "in北京"], ["北", "东京"]),
        ("क", ["वह क जाता", "क"], ["राम किताब पढ़ता है"]),
        ("किताब", ["राम किताब पढ़ता है", "किताब"], ["कि"]),
        ("in", ["in 北京", "他in北京", "in.", "(in"], ["sin", "i\u0301n"]),
    ],
)
def test_words_are_found_where_their_script_separates_them(asian, phrase, having, lacking):
    banned = banned_phrases([phrase], asian)
    for lines, expected in ((having, True), (lacking, False)):
        for line in lines:
            assert has_phrase(line, phrase) == expected, line
            (ids,) = asian.encode([line])
            assert is_barred(banned, ids, len(asian)) == expected, asian.pieces(ids)
    # A search refuses these as soon as the word is there, see `banned_phrases`.
    assert not any(has_phrase(line, "in") for line in ("ins", "in\u0301", "in_", "in2"))


def test_required_words_stand_inside_running_text(asian):
    (before,) = asian.encode(["我住在"])
    for phrase, text in (("北京", "我住在北京"), ("大", "我住在大"), ("in", "我住在 in")):
        assert asian.decode([*before[:-1], *phrase_ids(phrase, asian)]) == text
    words = WordVocabulary([*SPECIALS, "北京", "大"])
    assert phrase_ids("北京 大", words) == [4, 5]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        *[("北", False), ("，", False), ("🙂", False), ("▁北", False)],
        *[("ि", True), ("_", True), ("٣", True), ("é", True)],
    ],
)
def test_only_letters_digits_and_marks_continue_a_word(piece, expected):
    continues, _ = word_joints(PieceVocabulary([*SPECIALS, "▁a", piece]))
    assert continues[5] == expected


def test_tokens_that_continue_a_word_are_known(bpe):
    continues, opens = word_joints(bpe)
    for piece, expected in (("▁", False), ("H", True), (".", False), ("<0xE6>", True)):
        assert continues[bpe.processor.piece_to_id(piece)] == expected
    assert not opens.any()
    assert not np.any(word_joints(WordVocabulary([*SPECIALS, "a"])))
    continues, opens = word_joints(PieceVocabulary([*SPECIALS, "a@@", "b"]))
    assert not continues.any() and np.flatnonzero(opens).tolist() == [4]
