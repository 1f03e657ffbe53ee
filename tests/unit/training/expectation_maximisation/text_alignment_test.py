"""Tests of word pairs, of texts in chunks, and of the models of align.py."""

import tracemalloc

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation import chunks, text_alignment
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from tests.unit.training.expectation_maximisation import textbook

WORD_PAIRS = "nmt_zoo.training.ways.expectation_maximisation.word_pairs"


def cells_of(words):
    """Lists cells as (sentence pair, target position, source position, source, target word)."""
    for block in words.blocks:
        cells = words.cell_pairs[block.cells].reshape(block.num_rows, block.source_length)
        for (row, j), number in np.ndenumerate(cells):
            sentence = int(block.pairs[block.row_sentences[row]])
            pair = int(words.pair_sources[number]), int(words.pair_targets[number])
            yield sentence, int(block.row_positions[row]), j, *pair


@pytest.mark.parametrize("cells_of_block", [1, 50, 1 << 17])
@pytest.mark.parametrize("target_end", [True, False])
def test_every_token_pair_has_one_cell(monkeypatch, target_end, cells_of_block):
    monkeypatch.setattr(f"{WORD_PAIRS}._BLOCK_CELLS", cells_of_block)
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=1))
    words = textbook.index(corpus, target_end=target_end)
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
    words = textbook.index(textbook.corpus_of(pairs))
    assert sorted(set(words.pair_sources.tolist())) == [textbook.EOS, 7, 2**30]
    assert sorted(set(words.pair_targets.tolist())) == [textbook.EOS, 9, 2**29 + 1]
    assert sorted(cells_of(words))[0] == (0, 0, 0, 2**30, 2**29 + 1)


def test_train_py_trains_fertilities_as_align_py_does():
    recipe = options_of("hmm_fertility", "files", {})
    steps = text_alignment.ITERATIONS["fertility"]
    assert recipe["leave_one_out"] and recipe["alpha"] == text_alignment.COLLAPSED_PRIOR
    assert recipe["model1_steps"] == recipe["hmm_steps"] == steps


@pytest.mark.parametrize("target_end", [True, False])
def test_word_pairs_of_chunks_are_numbered_as_those_of_the_text(target_end, monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_CELLS", 50)
    monkeypatch.setattr(chunks, "_WORD_PAIRS", 7)
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=1, words=9))
    ways = (corpus, EncodedCorpus(corpus.target, corpus.source))
    text = ChunkedText(corpus, target_end=target_end)
    results = list(text.each(lambda _, parts: parts))
    assert len(results) > 10
    for side, direction in enumerate(text.directions):
        words = textbook.index(ways[side], target_end)
        assert direction.rows.num_pairs == words.num_pairs
        assert direction.num_tokens == words.num_tokens
        assert direction.num_targets == np.unique(words.pair_targets).size
        np.testing.assert_array_equal(direction.rows.first_pairs, words.first_pairs)
        np.testing.assert_array_equal(
            direction.word_pairs(), [words.pair_sources, words.pair_targets]
        )
        targets = []
        for parts in results:
            part = parts[side]
            sources = part.spread(part.source_words)
            np.testing.assert_array_equal(words.pair_sources[part.numbers], sources)
            targets.append(words.pair_targets[part.numbers[part.cell_pairs]])
        assert sorted(np.concatenate(targets)) == sorted(words.pair_targets[words.cell_pairs])


@pytest.mark.parametrize("model", ["ibm2", "fertility"])
def test_memory_grows_with_word_pairs_and_tokens_only(model, monkeypatch):
    """A text that is repeated has no other word pairs: of each sentence pair only tokens stay."""
    for name in ("_CHUNK_CELLS", "_WORD_PAIRS"):
        monkeypatch.setattr(chunks, name, 1 << 13)
    words = np.random.default_rng(2).integers(4, 44, (50, 2, 12)).tolist()
    peaks = []
    for times in (8, 16):
        corpus = textbook.corpus_of(words * times)
        tracemalloc.start()
        text_alignment.align_text(corpus, model, 1, threshold=0.4)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (8 * len(words)) < 2000


def test_a_full_disk_is_one_line_and_no_file_is_left(monkeypatch, tmp_path, full_disk):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = r"temporary file of .*File too large.*TMPDIR"
    with full_disk(1000), pytest.raises(UserError, match=error):
        text_alignment.align_text(textbook.corpus_of(textbook.random_pairs(60, seed=1)))
    assert not list(tmp_path.iterdir())
