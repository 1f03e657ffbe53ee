"""Tests of texts in chunks, and of the models of align.py."""

import tracemalloc

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation import chunks, text_alignment
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from tests.unit.training.expectation_maximisation import textbook


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
