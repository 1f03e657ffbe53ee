"""The compiled search finds what the search in a graph of any size finds."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.decoding.search import compiled
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.compiled import Programs, can_compile, size_for
from nmt_zoo.decoding.search.engine import GraphEngine
from nmt_zoo.decoding.search.types import ALWAYS, AUTO, NEVER, SearchOptions, Sentence, padded

SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 2}
TRANSFORMER = {**SMALL, "width": 16, "num_heads": 2, "ffn_width": 16}
RECURRENT = {"embedding_width": 8, "encoder_units": 8, "decoder_units": 16}
CASES = [
    *(("transformer_tiny", {**TRANSFORMER, "positions": p}) for p in ("relative", "rotary")),
    ("transformer_simple", {**SMALL, "width": 16, "ffn_width": 16}),
    ("lstm_luong", RECURRENT),
]
OPTIONS = SearchOptions(beam_size=3)
# The limits of the first two are beyond the first room of their program.
SOURCES = [np.random.default_rng(n).integers(4, 60, n).tolist() for n in (17, 16, 9, 1)]


def assert_alike(found, expected, n_best=2):
    """Compares `Hypotheses` of which the first may have more rows and more padding."""
    count, _, length = expected.ids.shape
    ids = np.asarray(found.ids)
    np.testing.assert_array_equal(ids[:count, :n_best, :length], expected.ids[:, :n_best])
    assert not ids[:count, :n_best, length:].any()
    for name in ("scores", "log_probs", "finished"):
        both = (np.asarray(getattr(each, name))[:count, :n_best] for each in (found, expected))
        np.testing.assert_allclose(*both, rtol=1e-4)


@pytest.mark.parametrize(("preset", "settings"), CASES)
def test_both_ways_to_run_find_the_same(preset, settings):
    model = models.create(preset, 60, 60, **settings)
    programs = Programs(model, OPTIONS)
    expected = make_search(model, OPTIONS)(padded(SOURCES[:2]), 2)
    assert_alike(programs.run(size_for(2, 17), SOURCES[:2], 2), expected)


def test_a_first_token_is_as_a_prefix_of_every_translation():
    model = models.create("transformer_tiny", 60, 60, **TRANSFORMER)
    options, sources = OPTIONS._replace(first=7), SOURCES[1:3]
    found = make_search(model, options)(padded(sources), 2)
    given = {"prefix": tf.constant([[7]] * len(sources))}
    assert_alike(found, make_search(model, OPTIONS, ["prefix"])(padded(sources), 2, given))
    assert np.all(found.ids[:, :2, 0] == 7) and np.any(found.ids[:, :, 1:] != 7)
    programs = Programs(model, options)
    size = size_for(len(sources), max(map(len, sources)))
    assert_alike(programs.run(size, sources, 2), found)


def test_a_searcher_that_compiles_finds_what_others_find(monkeypatch):
    monkeypatch.setattr(compiled, "_PAYS", 1e-9)  # The first search pays for the program.
    model = models.create("transformer_tiny", 60, 60, **TRANSFORMER)
    sentences = [Sentence(source, number) for number, source in enumerate(SOURCES[:2])]
    plain, searcher = (
        GraphEngine(model, OPTIONS._replace(compile=when), None) for when in (NEVER, AUTO)
    )
    expected = plain.search(sentences, 1)
    size = size_for(2, 17)
    for _ in range(2):  # By the graph, then by the program.
        for found, other in zip(searcher.search(sentences, 1), expected, strict=True):
            assert_alike(*(type(one)(*(leaf[None] for leaf in one)) for one in (found, other)), 1)
        for thread in compiled.threading.enumerate():
            if thread.name == "compile":
                thread.join()
        assert searcher._programs.are_ready(size)


def test_a_program_that_is_slower_than_the_graph_is_given_up(monkeypatch):
    monkeypatch.setattr(compiled, "_TRIALS", 1)
    model = models.create("transformer_tiny", 60, 60, **TRANSFORMER)
    programs, size = Programs(model, OPTIONS), size_for(1, 16)
    programs.spend(size, 1e-9)
    programs._compile(size)
    assert programs.are_ready(size)
    programs.run(size, SOURCES[1:2], 1)
    assert not programs.are_ready(size)
    assert Programs(model, OPTIONS._replace(compile=ALWAYS)).are_ready(size)


def test_what_cannot_be_compiled():
    model = models.create("transformer_tiny", 60, 60, **TRANSFORMER)
    assert can_compile(model, OPTIONS)
    assert not can_compile(model, OPTIONS._replace(no_repeat_ngram=2))
    assert not can_compile(models.create("ibm1", 60, 60), OPTIONS)


def test_sizes():
    assert size_for(1, 10) == (1, 16)
    assert size_for(2, 33) == (2, 64)
    assert size_for(3, 10) is None
    assert size_for(1, 129) is None
