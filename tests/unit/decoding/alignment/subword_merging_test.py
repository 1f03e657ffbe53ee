"""Tests of merging subword pieces, and attention between pieces, into words."""

import itertools

import numpy as np
import pytest

from nmt_zoo.data_pipeline.text_form import JOINER
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    EOS_ID,
    SPECIALS,
    PieceVocabulary,
    WordVocabulary,
    split_words,
)
from nmt_zoo.decoding.alignment.aligner import EncodedText
from nmt_zoo.decoding.alignment.subword_merging import merge_words, numbers_in_text, words_of
from nmt_zoo.decoding.search.phrases import piece_text

SOURCE = ["▁Donau", "dampf", "schiff", "▁fährt", ".", "</s>"]
TARGET = ["▁The", "▁steam", "ship", "▁sails", ".", "</s>"]


def random_weights(*shape, dtype=np.float32):
    weights = np.random.default_rng(0).random(shape)
    return (weights / weights.sum(-1, keepdims=True)).astype(dtype)


@pytest.mark.parametrize(
    ("pieces", "groups"),
    [
        (SOURCE, [[0, 1, 2], [3], [4], [5]]),
        (["schiff", "▁fährt"], [[0], [1]]),
        (["Donau@@", "dampf@@", "schiff", "fährt", "</s>"], [[0, 1, 2], [3], [4]]),
        (["Das", "@@", "Schiff"], [[0], [1], [2]]),
        (["▁a@@", "b", "▁c"], [[0, 1], [2]]),
        # Punctuation at the ends of a word is a word of its own.
        (["▁don", "'", "t", ".", '"'], [[0, 1, 2], [3, 4]]),
        (["▁(", "year", "▁))"], [[0], [1], [2]]),
        (["Jahr@@", ".", "@@"], [[0], [1], [2]]),
        (["▁", "."], [[0], [1]]),
        ([f"({JOINER}", "dog", f"{JOINER}'s", f"{JOINER}.", "."], [[0], [1, 2], [3], [4]]),
        # Sentence marks stand alone, bytes belong to the word before them.
        *((["<s>", word, "</s>", "x"], [[0], [1], [2], [3]]) for word in ("▁a", "a@@", "a")),
        (["▁caf", "<0xC3>", "<0xA9>", "▁au"], [[0, 1, 2], [3]]),
        (["caf", "<0xC3>", "<0xA9>", "au"], [[0, 1, 2], [3]]),
    ],
)
def test_words_begin_at_their_markers(pieces, groups):
    numbers = words_of(pieces)[0].tolist()
    assert numbers == [n for n, group in enumerate(groups) for _ in group]


def test_merging_sums_over_source_pieces_and_averages_over_target_pieces():
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.3, 0.0, 0.7]])
    merged, source, target = merge_words(weights, ["▁a", "b", "▁c"], ["▁x", "▁y", "z"])
    assert (source, target) == (["ab", "c"], ["x", "yz"])
    np.testing.assert_allclose(merged, [[0.3, 0.7], [(1 + 0.3) / 2, (0 + 0.7) / 2]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_merged_rows_still_sum_to_one(dtype):
    weights = random_weights(2, 3, len(TARGET), len(SOURCE), dtype=dtype)
    merged, source, target = merge_words(weights, SOURCE, TARGET)
    assert source == ["Donaudampfschiff", "fährt", ".", "</s>"]
    assert target == ["The", "steamship", "sails", ".", "</s>"]
    assert merged.shape == (2, 3, len(target), len(source))
    assert merged.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_allclose(merged.sum(-1), 1, atol=1e-2 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁caf", "<0xC3>", "<0xA9>"], ["café"]),
        (["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"], ["😀"]),
        (["▁a", "<0xC3>"], ["a<0xC3>"]),  # half a character cannot be decoded
        (["▁", "▁a"], ["▁", "a"]),
        (["▁New▁York"], ["New York"]),
        (["cut@@"], ["cut"]),
        (["▁a@@", "b"], ["a@@b"]),
    ],
)
def test_words_are_the_text_without_markers(pieces, words):
    assert merge_words(random_weights(1, len(pieces)), pieces, ["x"])[1] == words


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        (WordVocabulary, ["a", "b@@", "▁c"]),
        (PieceVocabulary, ["a", "b", "a@@", "b@@", "@@"]),
        (PieceVocabulary, ["▁a", "b", "▁", "▁c▁a", "b▁c"]),
    ],
)
def test_each_piece_begins_in_the_word_of_the_text_that_has_its_letters(kind, pieces):
    vocabulary = kind([*SPECIALS, *pieces])
    for ids in itertools.product(range(len(SPECIALS), len(vocabulary)), repeat=3):
        texts = [piece_text(piece, vocabulary.style) for piece in vocabulary.pieces(ids)]
        *numbers, count = numbers_in_text(texts)
        words = split_words(vocabulary.decode([*ids, EOS_ID]))
        assert count == len(words) and numbers == sorted(numbers)
        assert {*numbers} <= {*range(max(count, 1))}
        for number, text in zip(numbers, texts, strict=True):
            begun = split_words(text.decode())
            assert not begun or begun[0] in words[number]


def test_weights_of_marks_count_for_the_words_that_they_touch():
    words = WordVocabulary([*SPECIALS, "a", f"{JOINER}."])
    text = EncodedText(Tokenizer("word", words, words), ("s", "t"), (["a. a"], ["a a."]))
    assert text.num_words.tolist() == [[2], [2]]
    (weights,) = text.between_words(np.eye(4)[None], np.array([0]))
    np.testing.assert_allclose(weights, [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])
