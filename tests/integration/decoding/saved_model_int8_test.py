"""A SavedModel in 8 bits: its programs, of a few sizes, and what it stores."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.decoding.translator import Translator
from nmt_zoo.serving.export import saved_model_client
from nmt_zoo.serving.export.saved_model import SearchModule
from tests.integration.decoding.conftest import LINES, SEARCH


@pytest.fixture(scope="module")
def rounded(parts):
    """The same model in 8 bits, and its tokenizer."""
    model, tokenizer = parts
    copy = keras.models.clone_model(model)
    for weight, value in zip(copy.weights, model.weights, strict=True):
        weight.assign(value)
    copy.quantise()
    copy.precompute()
    return copy, tokenizer


@pytest.fixture(scope="module")
def saved(rounded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    SearchModule(*rounded, **SEARCH).save(folder)
    return folder


def test_only_vectors_are_stored_in_float32(saved, rounded):
    variables = tf.train.load_checkpoint(str(saved / "variables" / "variables"))
    types = variables.get_variable_to_dtype_map()
    shapes = variables.get_variable_to_shape_map()
    assert {types[name] for name, shape in shapes.items() if len(shape) > 1} == {tf.int8}
    # Every matrix once, and the embeddings and the output layer, which share one, in two layouts.
    matrices = [shape for shape in shapes.values() if len(shape) > 1]
    assert sum(map(np.prod, matrices)) < 1.6 * rounded[0].count_params()


def test_sizes_of_programs_change_nothing(saved, rounded):
    expected = Translator.of(*rounded, **SEARCH).translate(LINES, n_best=3)
    text = [line for line in LINES if line.strip()] * 2  # A program of 8, and one of 1.
    by_line = dict(zip(LINES, expected, strict=True))
    with saved_model_client.loaded(saved) as answer:
        for lines in (text, text[:1], []):
            options = {"beam_size": -1, "length_penalty": -1.0, "n_best": 3}
            options = {name: [value] * len(lines) for name, value in options.items()}
            found = answer("translate", {"text": np.array(lines, object), **options})
            plain = answer("serving_default", {"text": np.array(lines, object)})
            assert len(found["count"]) == len(plain["translation"]) == len(lines)
            for row, line in enumerate(lines):
                best = by_line[line]
                texts = [text.decode() for text in found["translation"][row]]
                assert texts[: found["count"][row]] == [t.text for t in best]
                scores = [t.score for t in best]
                np.testing.assert_allclose(found["score"][row, : len(best)], scores, atol=1e-3)
                assert plain["translation"][row].decode() == best[0].text
                tokens, log_probs = found["target_tokens"][row], found["token_log_probs"][row]
                assert np.count_nonzero(tokens != b"") == len(best[0].ids)
                assert log_probs.sum() == pytest.approx(best[0].log_prob, abs=1e-3)


def test_damaged_scales_are_found(saved):
    (path,) = (saved / "variables").glob("*.data-*")
    whole = path.read_bytes()
    try:
        for damaged in (whole[:-4], whole[:-4] + b"\x7f" * 4):
            path.write_bytes(damaged)
            with (
                pytest.raises((tf.errors.DataLossError, tf.errors.OutOfRangeError)),
                saved_model_client.loaded(saved) as answer,
            ):
                answer("serving_default", {"text": ["one dog"]})
    finally:
        path.write_bytes(whole)
