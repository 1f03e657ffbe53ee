"""The compiled search finds what the search in a graph of any size finds."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.search import compiled, precision_choice
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.compiled import Programs, can_compile
from nmt_zoo.decoding.search.engine import GraphEngine, make_engine
from nmt_zoo.decoding.search.types import ALWAYS, AUTO, Hypotheses, SearchOptions, Sentence, padded
from nmt_zoo.models.base import SettingError
from nmt_zoo.models.combination import Ensemble
from nmt_zoo.models.layers import products
from tests.running import eagerly

SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 1}
TRANSFORMER = {**SMALL, "width": 16, "num_heads": 2, "ffn_width": 16}
RECURRENT = {"embedding_width": 8, "encoder_units": 8, "decoder_units": 16}
OPTIONS = SearchOptions(beam_size=3, max_length_factor=1.0)
# The limit of the first is beyond the first room of its program.
SOURCES = [np.random.default_rng(n).integers(4, 60, n).tolist() for n in (16, 9)]
SIZE = (2, 16)


def assert_alike(found, expected, n_best=2):
    """Compares `Hypotheses` of which the first may have more rows and more padding."""
    count, _, length = expected.ids.shape
    ids = np.asarray(found.ids)
    np.testing.assert_array_equal(ids[:count, :n_best, :length], expected.ids[:, :n_best])
    assert not ids[:count, :n_best, length:].any()
    for name in ("scores", "log_probs", "finished"):
        both = (np.asarray(getattr(each, name))[:count, :n_best] for each in (found, expected))
        np.testing.assert_allclose(*both, rtol=1e-4)


def search(model, options, *given):
    return make_search(model, options, *map(list, given)).python_function(
        padded(SOURCES), 2, *given
    )


@pytest.fixture(scope="module")
def transformer():
    return models.create("transformer_tiny", 60, 60, **TRANSFORMER)


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("lstm_luong", RECURRENT),
        pytest.param(
            "transformer_tiny", {**TRANSFORMER, "positions": "rotary"}, marks=pytest.mark.slow
        ),
    ],
)
def test_both_ways_to_run_find_the_same_also_after_a_first_token(preset, settings):
    model, options = models.create(preset, 60, 60, **settings), OPTIONS._replace(first=7)
    found = Programs(model, options).run(SIZE, SOURCES, 2)
    assert_alike(found, search(model, options))
    assert np.all(found.ids[:, :2, 0] == 7) and np.any(found.ids[:, :, 1:] != 7)


def test_a_first_token_is_as_a_prefix_of_every_translation(transformer):
    options = OPTIONS._replace(max_length_extra=0)
    found = search(transformer, options._replace(first=7))
    prefix = {"prefix": tf.constant([[7]] * len(SOURCES))}
    assert_alike(found, search(transformer, options, prefix))


def test_a_searcher_that_compiles_finds_what_others_find_and_gives_up_what_is_slower(
    transformer, monkeypatch
):
    monkeypatch.setattr(compiled, "_PAYS", 1e-9)  # The first search pays for the program.
    searcher = GraphEngine(transformer, OPTIONS._replace(compile=AUTO), None)
    sentences = [Sentence(source, number) for number, source in enumerate(SOURCES)]
    expected = search(transformer, OPTIONS)
    programs = searcher._programs
    for _ in range(2):  # By the graph, then by the program.
        found = searcher.search(sentences, 2)
        assert_alike(Hypotheses(*map(np.stack, zip(*found, strict=True))), expected)
        for thread in compiled.threading.enumerate():
            if thread.name == "compile":
                thread.join()
        assert programs.are_ready(SIZE)
    # The second of those searches was a trial, too.
    for _ in range(compiled._TRIALS - 1):
        assert programs.are_ready(SIZE)
        programs.spend(SIZE, 1e-9)
        programs.run(SIZE, SOURCES, 1)
    assert not programs.are_ready(SIZE)
    assert Programs(transformer, OPTIONS._replace(compile=ALWAYS)).are_ready(SIZE)


def test_what_cannot_be_compiled(transformer):
    assert can_compile(transformer, OPTIONS)
    assert not can_compile(transformer, OPTIONS._replace(no_repeat_ngram=2))
    assert not can_compile(models.create("ibm1", 60, 60), OPTIONS)


@pytest.fixture(scope="module")
def many():
    generator = np.random.default_rng(5)
    return [Sentence(generator.integers(4, 60, n).tolist()) for n in (1, 2, 3, 5, 9, 11, 14)]


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_half_of_a_batch_may_leave(positions, many):
    tf.keras.utils.set_random_seed(2)
    model = models.create("transformer_tiny", 60, 60, **TRANSFORMER, positions=positions)
    for weight in model.weights:
        weight.assign(3 * weight)  # So that translations end at different steps.
    model.precompute()
    engines = (GraphEngine(model, OPTIONS._replace(compile=how), None) for how in (ALWAYS, "never"))
    of_program, of_graph = (engine.search(many, 2) for engine in engines)
    lengths = {np.count_nonzero(best.ids[0]) for best in of_graph}
    assert len(lengths) > 2
    for found, expected in zip(of_program, of_graph, strict=True):
        both = (Hypotheses(*(array[None] for array in each)) for each in (found, expected))
        assert_alike(*both)


def make(kind):
    """Makes a model, always the same one; kinds of Transformers share different weights."""
    tf.keras.utils.set_random_seed(2)
    if kind == "ensemble":
        return Ensemble([make("all"), make("lstm_lexical")])
    if kind == "lstm_lexical":
        return models.create(kind, 60, 60, **RECURRENT)
    tied = {"tie_embeddings": kind, "output_bias": kind != "none"}
    return models.create("transformer_tiny", 60, 60, **TRANSFORMER, **tied)


KINDS = ("all", "target", "none", "lstm_lexical", "ensemble")


@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
)
def test_a_translation_in_8_bits_does_not_depend_on_its_neighbours(kind, many):
    exact, model = make(kind), make(kind)
    model.quantise()
    model.precompute()
    # The first token may be that of a language.
    options = OPTIONS._replace(beam_size=1, first=7 if kind == "none" else None)
    engine = make_engine(model, options, None)
    assert engine._programs.size_for(1, 300) == (2, 512)
    expected = make_engine(exact, options, None).search(many[:3], 1)
    for sentence, found, of_exact in zip(many[:3], engine.search(many, 1), expected, strict=False):
        [alone] = engine.search([sentence], 1)
        assert found.ids[0].tolist()[: alone.ids.shape[1]] == alone.ids[0].tolist()
        np.testing.assert_allclose(found.scores[0], alone.scores[0], rtol=1e-5)
        np.testing.assert_allclose(found.scores[0], of_exact.scores[0], rtol=0.05)
    with pytest.raises(UserError, match="leave out --no_repeat_ngram"):
        make_engine(model, options._replace(no_repeat_ngram=2), None)
    assert "--prefix" in engine.refusal


@pytest.mark.parametrize("kind", KINDS)
def test_weights_in_8_bits_take_the_place_of_the_exact_ones(kind, tmp_path):
    exact, model = make(kind), make(kind)
    shapes = (60, 16), (16, 60), (8, 60)
    large = [weakref.ref(weight) for weight in model.weights if tuple(weight.shape) in shapes]
    model.quantise()
    gc.collect()
    assert large and not any(weight() for weight in large)
    rounded = [weight for weight in model.weights if weight.dtype == "int8"]
    assert rounded and not exact.is_quantised
    # There is a scale for each column besides.
    num_scales = sum(weight.shape[1] for weight in rounded)
    assert model.count_params() == exact.count_params() + num_scales
    for use in (
        lambda: model.trainable_variables,
        lambda: model.save(tmp_path / "model.keras"),
        lambda: model.save_weights(tmp_path / "model.weights.h5"),
    ):
        with pytest.raises(SettingError, match="neither be trained nor saved; load it in float32"):
            use()


@eagerly
def test_a_damaged_scale_is_found(many):
    model = make("all")
    model.quantise()
    scale = model.output_weights()[0].scale
    scale.assign(np.where(np.arange(60) == 5, np.nan, scale))
    for of_sentence in make_engine(model, OPTIONS, None).search(many[:2], 1):
        assert np.isnan(of_sentence.log_probs).any()  # `Translator` raises an error.


class Fake:
    """An engine that needs `seconds`, and whose translations all have one score."""

    options, refusal = OPTIONS, ""

    def __init__(self, seconds, score):
        self.seconds, self.score = seconds, score

    def search(self, sentences, n_best):
        precision_choice.time.sleep(self.seconds)
        return [SimpleNamespace(scores=np.array([self.score])) for _ in sentences]


@pytest.mark.parametrize("difference", [0.0, 1.0])
def test_8_bits_are_taken_where_they_are_faster_and_scores_agree(difference, monkeypatch, capsys):
    monkeypatch.setattr(precision_choice, "kernels_gain", lambda: 2.0)
    engines = {"exact": Fake(0.02, 1), "rounded": Fake(0.0, 1 + difference)}
    model = SimpleNamespace(takes_rounded=None, rounded=lambda: "rounded")
    first, second = (
        precision_choice.FasterEngine(
            model, lambda of: engines["rounded" if of == "rounded" else "exact"]
        )
        for _ in range(2)
    )
    for engine in (first, second, first):  # One choice, that of the model.
        [found] = engine.search([Sentence([3])], 1)
        assert found.scores[0] == 1
    engines["exact"].score = 9
    [constrained] = second.search([Sentence([3], prefix=(4,))], 1)
    assert constrained.scores[0] == 9
    assert (model.rounded is None) == bool(difference)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("precision: float32, as scores" if difference else "precision: int8")


def test_the_choice_of_a_search_that_is_not_compiled_is_float32(transformer, capsys, monkeypatch):
    monkeypatch.setattr(transformer, "rounded", lambda: transformer)
    engine = make_engine(transformer, OPTIONS._replace(no_repeat_ngram=2), None)
    assert isinstance(engine, GraphEngine)
    assert "precision: float32, as XLA compiles no searches with --no_repeat_ngram" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(("width", "spread"), [(1, 0.0), (40, 0.0), (300, 3.0)])
def test_the_error_of_a_product_in_8_bits_is_bounded(width, spread):
    generator = np.random.default_rng(width)
    x, rows = (generator.standard_normal((n, width)).astype("float32") for n in (5, 30))
    rows *= np.exp(spread * generator.standard_normal((30, 1))).astype("float32")
    rows[0] = 0
    kernel = products.Int8.of(rows.T)
    exact, rounded = x @ rows.T, np.asarray(products.product(x, kernel))
    # With half scales s of a row x and t of a column w, rounding makes x + e and w + f of them,
    # |e| <= s and |f| <= t in each of D numbers, and sums of whole numbers are exact. So the error
    # is |e w + x f + e f| <= s |w|_1 + t |x|_1 + D s t.
    s, t = np.abs(x).max(1, keepdims=True) / 254, np.abs(rows).max(1) / 254
    bound = s * np.abs(rows).sum(1) + t * np.abs(x).sum(1, keepdims=True) + width * s * t
    assert np.all(np.abs(exact - rounded) <= bound + 1e-5 * (1 + np.abs(exact)))
    assert np.abs(exact - rounded).max() > 0 or width == 1
    assert not rounded[:, 0].any()
