"""Tests of training that starts from a model with another vocabulary."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.corpus.texts import PairText
from nmt_zoo.training.fine_tuning import mapping, start, vocabulary_axes
from tests.tiny import save_model, small_settings

OLD, NEW = ["a", "b", "ab", "c", "zz"], ["c", "abc", "b", "qa", "a", "q"]


def vocabulary(words):
    return WordVocabulary([*SPECIALS, *words])


def test_entries_keep_their_place_or_start_from_their_longest_parts():
    found = mapping(vocabulary(NEW), vocabulary(OLD))
    a, b, ab, c = range(4, 8)
    assert found.parts[4:] == [[c], [ab, c], [b], [a], [a], []]
    assert found.parts[:4] == [[0], [1], [2], [3]]
    assert found.unknown == [9]
    assert str(found) == (
        "7 of 9 entries kept, 3 new ones, of which 2 start from their parts and 1 at random"
    )
    rows = np.arange(18.0).reshape(9, 2)
    np.testing.assert_array_equal(found.apply(rows, 0)[5], (rows[ab] + rows[c]) / 2)
    np.testing.assert_array_equal(found.apply(rows.T, 1), found.apply(rows, 0).T)


@pytest.mark.parametrize("preset", ["transformer_tiny", "lstm_luong", "lstm_lexical"])
def test_sentences_of_kept_words_get_the_scores_that_they_had(preset, tmp_path):
    settings = small_settings(preset)
    if preset == "transformer_tiny":
        settings["tie_embeddings"] = "target"
    source, target = [[*OLD, "s"], [*OLD, "t"]], [[*NEW, "s"], [*reversed(NEW), "t"]]
    old, new = (Tokenizer("word", *map(vocabulary, side)) for side in (source, target))
    config, saved = {"model": preset, "settings": settings}, []
    save_model(tmp_path / "old", preset, settings, old, saved.append)
    (trained,) = saved
    model = models.create(preset, len(new.source), len(new.target), **settings)
    fresh = [weight.numpy() for weight in model.weights]
    start(model, new, tmp_path / "old")
    for weight, value, axes in zip(model.weights, fresh, vocabulary_axes(config), strict=True):
        for axis, side in axes.items():  # Entries without known parts stay as they were.
            unknown = mapping(getattr(new, side), getattr(old, side)).unknown
            assert unknown
            one, other = (np.take(array, unknown, axis) for array in (weight.numpy(), value))
            np.testing.assert_array_equal(one, other)
    lines = ["a b c", "c b a b"]
    target_ids = [tf.ragged.constant(t.target.encode(lines)).to_tensor() for t in (old, new)]
    logits = [
        m(
            {
                "source_ids": tf.ragged.constant(t.source.encode(lines)).to_tensor(),
                "target_in_ids": y,
            }
        )
        for m, t, y in zip((trained, model), (old, new), target_ids, strict=True)
    ]
    shared = [*SPECIALS, "a", "b", "c", "t"]
    places = [[t.target.words.index(word) for word in shared] for t in (old, new)]
    found = [tf.gather(x, p, axis=2) for x, p in zip(logits, places, strict=True)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


def test_the_axes_of_vocabularies_are_found_by_what_they_count():
    config = {"model": "transformer_tiny", "settings": {"tie_embeddings": "none"}}
    axes = vocabulary_axes(config)
    assert sorted(str(each) for each in axes if each) == [
        *("{0: 'source'}", "{0: 'target'}", "{1: 'target'}")
    ]
    shared = vocabulary_axes({"model": "transformer_tiny", "settings": {}})
    assert [each for each in shared if each] == [{0: "target"}]


def test_the_record_of_the_training_text_includes_that_of_the_first_model(tmp_path):
    first, second = (TrainingText.of([line]) for line in ("a dog", "ein Hund"))
    text = PairText((SimpleNamespace(plain=["ein Hund"]), ["ein Hund"]), ())
    options = {"init_from": str(tmp_path), "context_sentences": 0}
    assert text.record(options) is None  # It is not known what the first model has seen.
    ModelDirectory(tmp_path).training_text_path.write_text(first.text())
    assert {*"dogHund"} <= {*text.record(options).characters}
    assert text.record({**options, "init_from": ""}) == second
