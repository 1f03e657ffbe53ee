"""Tests of what the explorer's page is told of a model and a sentence."""

import base64

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.explorer.sentence import SentenceExplorer
from tests.tiny import pairs, small_settings

SOURCE, TARGET = "one big dog", "eins groß Hund"


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("word", *map(list, zip(*pairs(100), strict=True)), min_word_count=1)


def explorer_of(preset, tokenizer, **more):
    """Returns the `SentenceExplorer` of a preset, with more settings and random weights."""
    keras.utils.set_random_seed(3)
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create(preset, *sizes, pad_id=0, bos_id=2, **small_settings(preset), **more)
    model.attention_maps(*[tf.constant([[3]])] * 2)
    return SentenceExplorer(model, tokenizer, preset, temperature=1.0, beam_size=3)


@pytest.fixture(scope="module")
def transformer(tokenizer):
    return explorer_of("transformer_tiny", tokenizer)


def weights_of(data, name):
    """Returns the weights of a map of the page."""
    packed = data["maps"][name]
    found = np.frombuffer(base64.b64decode(packed["weights"]), np.uint8)
    return (found.reshape(packed["shape"]) / 255.0) ** 2


def test_maps_are_those_of_the_model(transformer, tokenizer):
    data = transformer.explore(SOURCE, TARGET)
    ids = [side.encode([x]) for side, x in zip(tokenizer[1:], (SOURCE, TARGET), strict=True)]
    maps = transformer.model.attention_maps(*map(tf.constant, ids))
    maps["alignment"] = transformer.model.align(*map(tf.constant, ids))[None]
    assert set(data["maps"]) == {"encoder/0/self", "decoder/0/self", "decoder/0/cross", "alignment"}
    for name, expected in maps.items():
        np.testing.assert_allclose(weights_of(data, name), expected[0], atol=0.004)
    assert data["target"]["tokens"] == [*TARGET.split(), "</s>"]


def test_each_step_has_the_probability_of_its_token_and_of_the_best_ones(transformer):
    data = transformer.explore(SOURCE)
    best, *_ = transformer.translator.translate([SOURCE], 3)[0]
    rows = data["translations"]
    assert [row["shown"] for row in rows] == [True, *[False] * (len(rows) - 1)] and len(rows) == 3
    assert rows[0]["logProb"] == pytest.approx(best.log_prob, abs=2e-3)
    assert rows[0]["score"] == pytest.approx(best.score, abs=2e-3)
    for row in rows:
        assert sum(step["logProb"] for step in row["steps"]) == pytest.approx(
            row["logProb"], abs=0.02
        )
        for step in row["steps"]:
            names, values = zip(*step["best"], strict=True)
            assert list(values) == sorted(values, reverse=True) and len(values) == 5
            if step["token"] in names:
                assert step["logProb"] == values[names.index(step["token"])]
            else:
                assert step["logProb"] <= values[-1]


def test_the_confidence_is_that_of_the_tokens_shown(transformer):
    for target in ("", TARGET):
        data = transformer.explore(SOURCE, target)
        expected = np.exp([step["logProb"] for step in data["translations"][0]["steps"]])
        np.testing.assert_allclose(data["confidence"], expected, atol=1e-3)
        assert len(data["confidence"]) == len(data["target"]["tokens"])


def test_a_given_translation_comes_first_and_is_not_repeated(transformer):
    found = next(row["text"] for row in transformer.explore(SOURCE)["translations"] if row["text"])
    for target in (TARGET, found):
        rows = transformer.explore(SOURCE, target)["translations"]
        assert [row["given"] for row in rows] == [True, *[False] * (len(rows) - 1)]
        assert rows[0]["text"] == target
        assert [row["text"] for row in rows].count(found) == 1


@pytest.mark.parametrize(
    ("preset", "more", "maps"),
    [
        ("ibm2", {}, {"posterior"}),
        ("lstm_luong", {"score": "none", "initial_state": "projected"}, set()),
    ],
)
def test_every_kind_of_model_can_be_explored(preset, more, maps, tokenizer):
    data = explorer_of(preset, tokenizer, **more).explore(SOURCE, TARGET)
    assert set(data["maps"]) == maps and data["translations"][0]["steps"]


@pytest.mark.parametrize("source", ["", " ", "dog " * 300])
def test_a_sentence_that_cannot_be_shown_says_why(transformer, source):
    with pytest.raises(UserError, match=r"line 7.*(empty|tokens)"):
        transformer.explore(source, name="line 7")
