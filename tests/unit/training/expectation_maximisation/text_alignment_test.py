"""Tests of word pairs, of texts in chunks, and of the models of align.py."""

import tracemalloc

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.training.ways.expectation_maximisation import chunks, text_alignment
from tests.unit.training.expectation_maximisation import textbook


def test_words_of_large_vocabularies_are_told_apart():
    pairs = [([2**30, 7], [2**29 + 1, 9]), ([7, 7], [2**29 + 1])]
    words = textbook.index(textbook.corpus_of(pairs))
    assert sorted(set(words.pair_sources.tolist())) == [textbook.EOS, 7, 2**30]
    assert sorted(set(words.pair_targets.tolist())) == [textbook.EOS, 9, 2**29 + 1]


def test_train_py_trains_fertilities_as_align_py_does():
    recipe = options_of("hmm_fertility", "files", {})
    steps = text_alignment.ITERATIONS["fertility"]
    assert recipe["leave_one_out"] and recipe["alpha"] == text_alignment.COLLAPSED_PRIOR
    assert recipe["model1_steps"] == recipe["hmm_steps"] == steps


def test_words_of_raw_text_are_numbered_without_their_marks():
    raw = [["(läuft", "l'eau", "..."], ["eau.", "läuft!", "..."]]
    assert text_alignment.number_words(raw).ids.tolist() == [1, 2, 3, 0, 2, 1, 3, 0]
    in_words = text_alignment.number_words([*raw, *[["a", "."]] * 10]).ids.tolist()
    assert len({*in_words}) == 8  # Text that is tokenised keeps its words.


@pytest.mark.parametrize("model", ["ibm2", "fertility"])
def test_memory_grows_with_word_pairs_and_tokens_only(model, monkeypatch):
    """A text that is repeated has no other word pairs: of each sentence pair only tokens stay."""
    for name in ("_CHUNK_CELLS", "_WORD_PAIRS"):
        monkeypatch.setattr(chunks, name, 1 << 13)
    words = np.random.default_rng(2).integers(4, 44, (50, 2, 12)).tolist()
    peaks = []
    for times in (4, 8):
        corpus = textbook.corpus_of(words * times)
        tracemalloc.start()
        text_alignment.align_text(corpus, model, 1, threshold=0.4)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (4 * len(words)) < 5000  # 9,000 or more in one chunk.


def test_a_full_disk_is_one_line_and_no_file_is_left(monkeypatch, tmp_path, full_disk):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = r"temporary file of .*File too large.*TMPDIR"
    with full_disk(1000), pytest.raises(UserError, match=error):
        text_alignment.align_text(textbook.corpus_of(textbook.random_pairs(60, seed=1)))
    assert not list(tmp_path.iterdir())
