"""Compares the models of align.py with those of train.py, and its chunks with the whole text."""

import contextlib
import resource
import tracemalloc

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation import chunks, text_alignment
from nmt_zoo.training.ways.expectation_maximisation.agreement import index_directions
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText, TemporaryArrays
from nmt_zoo.training.ways.expectation_maximisation.collapsed import expected_translation
from nmt_zoo.training.ways.expectation_maximisation.em_update import (
    Agreement,
    ExpectationMaximisation,
)
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import train
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import index_word_pairs
from nmt_zoo.training.ways.preparation import WordTable
from tests.unit.training.expectation_maximisation import textbook

# Model of align.py -> the same model of train.py, its settings and its iterations of Model 1.
TWINS = {
    "ibm1": ("ibm1", {}, 0),
    "ibm2": ("ibm2", {"positions": "diagonal"}, 3),
    "hmm": ("hmm_alignment", {}, 3),
}


@pytest.fixture(params=[None, 30], ids=["whole", "chunks"])
def pieces(request, monkeypatch):
    """Works on chunks and tables in pieces of so few cells and word pairs."""
    if request.param:
        monkeypatch.setattr(chunks, "_CHUNK_CELLS", request.param)
        monkeypatch.setattr(chunks, "_WORD_PAIRS", request.param)


@contextlib.contextmanager
def chunked(corpus, **options):
    with TemporaryArrays() as file:
        yield ChunkedText(corpus, file, **options)


def new_model(preset, corpus, words, settings):
    sizes = [int(side.ids.max()) + 1 for side in corpus]
    model = models.create(preset, *sizes, num_word_pairs=words.source_words.size, **settings)
    WordTable(corpus).fill(model)
    return model


def new_update(preset, settings, options, *, corpus, both):
    """Returns (training in one direction or both, what its `step` takes, the models)."""
    ways = (corpus, EncodedCorpus(corpus.target, corpus.source))[: 1 + both]
    directions = index_directions(corpus)
    twins = [
        new_model(preset, way, words, settings)
        for way, words in zip(ways, directions, strict=False)
    ]
    if both:
        return Agreement(twins[0], directions, twins[1], **options), directions, twins
    return (
        ExpectationMaximisation(twins[0], directions.forward, **options),
        directions.forward,
        twins,
    )


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", TWINS)
def test_a_text_gives_the_same_table_as_in_train_py(name, both, pieces):
    preset, settings, before = TWINS[name]
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=7, words=12))
    options = {"alpha": 0.1, "model1_steps": before}
    update, given, twins = new_update(preset, settings, options, corpus=corpus, both=both)
    for _ in range(before + 3):
        update.step(given)
    with chunked(corpus, both=both, target_end=True) as text:
        tables = train(text, name, 3).tables
    for model, words, table in zip(twins, index_directions(corpus), tables, strict=False):
        pairs = words.source_words[:, None], words.target_words[:, None]
        found = np.asarray(model.table.look_up(*pairs)).ravel()
        np.testing.assert_allclose(table, found, rtol=1e-4)


@pytest.mark.parametrize("both", [False, True])
def test_fertilities_of_a_text_are_those_of_the_recipe_of_train_py(both, pieces):
    """With the probability of NULL, the prior and the iterations of both."""
    names = ("alpha", "model1_steps", "hmm_steps", "leave_one_out")
    recipe = options_of("hmm_fertility", "files", {})
    options = {name: recipe[name] for name in names}
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=7, words=12))
    update, given, _ = new_update("hmm_fertility", {}, options, corpus=corpus, both=both)
    iterations = text_alignment.ITERATIONS["fertility"]
    for _ in range(3 * iterations):
        update.step(given)
    with chunked(corpus, both=both, target_end=True) as text:
        state = train(text, "fertility", iterations)
    trained = [update, update.reverse] if both else [update]
    for side, twin in enumerate(trained):
        jumps = twin.estimate(index_directions(corpus)[side]).positions
        np.testing.assert_allclose(state.positions[side].widths, jumps.widths, rtol=1e-3)
        assert state.positions[side].null_probability == jumps.null_probability
        words = index_directions(corpus)[side]
        table = expected_translation(words, twin.counted.numpy(), recipe["alpha"])
        found = state.counts[side] + recipe["alpha"]
        np.testing.assert_allclose(found / words.spread(words.source_sums(found)), table, rtol=1e-3)


@pytest.mark.parametrize("target_end", [True, False])
def test_word_pairs_of_chunks_are_numbered_as_those_of_the_text(target_end, monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_CELLS", 50)
    monkeypatch.setattr(chunks, "_WORD_PAIRS", 7)
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=1, words=9))
    ways = (corpus, EncodedCorpus(corpus.target, corpus.source))
    with chunked(corpus, target_end=target_end) as text:
        results = list(text.each(lambda _, parts: parts))
        assert len(results) > 10
        for side, direction in enumerate(text.directions):
            words = index_word_pairs(ways[side], target_end=target_end)
            assert direction.rows.num_pairs == words.num_pairs
            assert direction.num_tokens == words.num_tokens
            np.testing.assert_array_equal(direction.rows.first_pairs, words.first_pairs)
            found = []
            for parts in results:
                part = parts[side]
                sources = part.cells.spread(part.source_words)
                np.testing.assert_array_equal(words.source_words[part.numbers], sources)
                found.append(words.target_words[part.numbers[part.cells.cell_pairs]])
            targets = words.target_words[words.cell_pairs]
            assert sorted(np.concatenate(found)) == sorted(targets)


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
        if model == "fertility":
            text_alignment.align_with_fertilities(corpus, 1, threshold=0.5)
        else:
            text_alignment.align_agreeing(corpus, model, 1, 0.4)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (8 * len(words)) < 2000


def test_a_full_disk_is_one_line_and_no_file_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"temporary file of .*File too large.*TMPDIR"):
            text_alignment.align_with_fertilities(
                textbook.corpus_of(textbook.random_pairs(60, seed=1)), 1
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
