"""Tests of the word pairs and cells of a corpus."""

import numpy as np
import pytest

from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.textbook import index

WORD_PAIRS = "nmt_zoo.training.ways.expectation_maximisation.word_pairs"


def cells_of(words):
    """Lists cells as (sentence pair, target position, source position, source, target word)."""
    for block in words.blocks:
        cells = words.cell_pairs[block.cells].reshape(block.num_rows, block.source_length)
        for (row, j), number in np.ndenumerate(cells):
            sentence = int(block.pairs[block.row_sentences[row]])
            pair = int(words.pair_sources[number]), int(words.pair_targets[number])
            yield sentence, int(block.row_positions[row]), j, *pair


@pytest.mark.parametrize("cells_at_once", [1, 60, 1 << 22])
@pytest.mark.parametrize("cells_of_block", [1, 50, 1 << 17])
@pytest.mark.parametrize("target_end", [True, False])
def test_every_token_pair_has_one_cell(monkeypatch, target_end, cells_of_block, cells_at_once):
    monkeypatch.setattr(f"{WORD_PAIRS}._BLOCK_CELLS", cells_of_block)
    monkeypatch.setattr(f"{WORD_PAIRS}._SORT_CELLS", cells_at_once)
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=1))
    words = index(corpus, target_end=target_end)
    sentences = textbook.sentences_of(corpus, target_end)
    wanted = [
        (number, i, j, f, e)
        for number, (source, target) in enumerate(sentences)
        for i, e in enumerate(target)
        for j, f in enumerate(source)
    ]
    assert sorted(cells_of(words)) == wanted
    assert words.cell_pairs.size == len(wanted)
    assert words.num_sentences == 60
    assert words.num_tokens == sum(len(target) for _, target in sentences)


def test_words_of_large_vocabularies_are_told_apart():
    pairs = [([2**30, 7], [2**29 + 1, 9]), ([7, 7], [2**29 + 1])]
    words = index(textbook.corpus_of(pairs))
    assert sorted(set(words.pair_sources.tolist())) == [textbook.EOS, 7, 2**30]
    assert sorted(set(words.pair_targets.tolist())) == [textbook.EOS, 9, 2**29 + 1]
    assert sorted(cells_of(words))[0] == (0, 0, 0, 2**30, 2**29 + 1)


def test_more_words_than_an_integer_can_number_are_refused():
    pairs = [(range(4, 2**16), [2**31 - 1])]
    with pytest.raises(ValueError, match=r"2147483648 target words are too many"):
        index(textbook.corpus_of(pairs))
