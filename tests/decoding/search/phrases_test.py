"""Banned phrases, against a search for whole words in the text of every sequence of tokens."""

import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.tokenization.vocabularies import (
    SPECIALS,
    BpeVocabulary,
    PieceVocabulary,
    WordVocabulary,
)
from decoding.search.phrases import banned_phrases, piece_texts, word_joints

PIECES = {
    "words": (WordVocabulary, ["a", "b", "ab", "(a", "b)."]),
    "continued": (PieceVocabulary, ["a", "a@@", "b", "b@@", "ab", "x@@", "."]),
    "marked": (PieceVocabulary, ["▁a", "a", "b", "▁", "▁ab", "ab", "▁b", "(", "b."]),
}
PHRASES = ["ab", "a b", "b a", "ä"]


def is_barred(banned, ids, size):
    """Returns whether one of the tokens was impossible after those before it."""
    reached = banned.start(1)
    for token in ids:
        if banned.bar(tf.zeros([1, size]), reached)[0, token] < 0:
            return True
        reached = banned.follow(reached, tf.constant([token]))
    return False


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
        for ids in itertools.product(tokens, repeat=length):
            text = vocabulary.decode(list(ids))
            if pattern.search(text):
                assert is_barred(banned, ids, len(vocabulary)), vocabulary.pieces(ids)
                count += 1
            elif not re.search(begun, text):
                assert not is_barred(banned, ids, len(vocabulary)), vocabulary.pieces(ids)
                free += 1
    assert count > 20 and free > 20


def test_words_that_end_like_a_banned_word_stay_possible():
    vocabulary = PieceVocabulary([*SPECIALS, "▁Kind", "er", "▁er", "▁(", "st"])
    banned = banned_phrases(["er"], vocabulary)
    kind, ending, word, bracket, more = range(4, 9)
    for ids in ([kind, ending], [kind, ending, more], [bracket, kind, ending]):
        assert not is_barred(banned, ids, len(vocabulary))
    for ids in ([ending], [word], [word, more], [kind, word], [bracket, ending]):
        assert is_barred(banned, ids, len(vocabulary))


def test_tokens_far_from_a_phrase_stay_possible():
    vocabulary = WordVocabulary([*SPECIALS, "a", "b", "ab", "abc"])
    banned = banned_phrases(["a b"], vocabulary)
    for ids in ([4, 4, 4], [5, 4], [4, 6, 5], [6, 7], [5, 5]):
        assert not is_barred(banned, ids, len(vocabulary))
    assert is_barred(banned, [4, 5], len(vocabulary))
    assert is_barred(banned, [7, 4, 4, 5], len(vocabulary))


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


def test_tokens_that_continue_a_word_are_known(bpe):
    continues, opens = word_joints(bpe)
    for piece, expected in (("▁", False), ("H", True), (".", False), ("<0xE6>", True)):
        assert continues[bpe.processor.piece_to_id(piece)] == expected
    assert not opens.any()
    assert not np.any(word_joints(WordVocabulary([*SPECIALS, "a"])))
    continues, opens = word_joints(PieceVocabulary([*SPECIALS, "a@@", "b"]))
    assert not continues.any() and np.flatnonzero(opens).tolist() == [4]
