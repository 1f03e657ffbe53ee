"""Tests of lexicons: counted, read from a table, written, read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, SPECIALS, UNK_ID
from nmt_zoo.decoding.alignment import lexicons
from nmt_zoo.decoding.alignment.lexicons import lexicon_entries, table_entries, write_lexicon
from nmt_zoo.decoding.unknowns import read_lexicon
from tests.tiny import SMALL, WORDS


def test_a_probability_is_the_share_of_a_source_words_links():
    alignments = [[(0, 0), (1, 1)], [(0, 0)], [(0, 0), (0, 1)], []]
    source = [["Haus", "da"], ["Haus"], ["Haus"], ["Hund"]]
    target = [["house", "there"], ["home"], ["house", "there"], ["dog"]]
    assert lexicon_entries(alignments, source, target) == [
        ("Haus", "house", 2 / 4),
        ("Haus", "home", 1 / 4),
        ("Haus", "there", 1 / 4),
        ("da", "there", 1.0),
    ]


def test_a_lexicon_is_read_as_it_was_written(tmp_path, capsys):
    path = tmp_path / "lexicon.txt"
    entries = [("Haus", "house", 0.75), ("Haus", "home", 0.25), ("10\u00a0000", "10,000", 1.0)]
    assert write_lexicon(path, entries) == 2
    assert capsys.readouterr().err.startswith("word pairs left out: 1 (a lexicon")
    assert write_lexicon(path, entries[:2]) == 2 and not capsys.readouterr().err
    assert path.read_text() == "Haus house 0.75\nHaus home 0.25\n"
    assert read_lexicon(path) == {"Haus": "house"}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("word", list(WORDS), list(WORDS.values()), min_word_count=1)


def make_model(preset, tokenizer, **settings):
    """Makes a model with random weights."""
    keras.utils.set_random_seed(1)
    model = models.create(preset, len(tokenizer.source), len(tokenizer.target), **settings)
    for weight in model.trainable_variables:
        weight.assign(weight * 10)
    return model


TABLES = ("ibm1", "hmm_alignment", "ibm1_factored")


@pytest.mark.parametrize("preset", TABLES)
def test_a_table_has_the_probabilities_of_the_model(preset, tokenizer, monkeypatch):
    """A sentence is one word and NULL; in Model 1 its likelihood is the mean of their entries."""
    monkeypatch.setattr(lexicons, "_CELLS", 3 * len(tokenizer.target))  # Three rows at a time.
    model = make_model(preset, tokenizer)
    entries = table_entries(model, tokenizer, threshold=0.0)
    even = 1 / len(tokenizer.target)
    for threshold, given in ((even, {"threshold": even}), (0.01, {})):  # Best words first.
        found = table_entries(model, tokenizer, **given)
        assert found == sorted(found, key=lambda entry: (entry[0], -entry[2]))
        assert found == [entry for entry in entries if entry[2] > threshold]
        assert found and (len(found) < len(entries) or not given)
    end = SPECIALS[EOS_ID]
    assert [entry[0] for entry in entries[:: len(WORDS) + 1]] == [end, *sorted(WORDS)]
    assert len(entries) == (len(WORDS) + 1) ** 2
    assert {*SPECIALS} & {word for entry in entries for word in entry[:2]} == {end}
    entries = [entry for entry in entries if end not in entry]
    sources, targets, found = zip(*entries, strict=True)
    pairs = tokenizer.source.encode(sources), tokenizer.target.encode(targets)
    pairs = [tf.constant(ids) for ids in pairs]
    null = model.translations(tf.constant([[EOS_ID]])).numpy()[0, 0]
    rows = model.translations(pairs[0][:, :1]).numpy()[:, 0]
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    target_ids = pairs[1].numpy()[:, 0]
    np.testing.assert_allclose(rows[np.arange(len(found)), target_ids], found, rtol=1e-5)
    if preset != "hmm_alignment":
        means = np.exp(model.score(*pairs).numpy()[:, 0])
        np.testing.assert_allclose((found + null[target_ids]) / 2, means, rtol=1e-4)


def test_a_word_that_was_not_there_in_training_is_left_out(tokenizer, capsys):
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create("ibm1", *sizes, num_word_pairs=2)
    dog, hund = tokenizer.source.index["dog"], tokenizer.target.index["Hund"]
    model.table.set_word_pairs([dog, dog], [UNK_ID, hund])
    model.table.set_probabilities(np.array([0.25, 0.75]))
    ((source, target, probability),) = table_entries(model, tokenizer, threshold=0.1)
    assert (source, target) == ("dog", "Hund") and probability == pytest.approx(0.75, abs=0.02)
    assert (
        "10 of 11 source words have no translation of probability above 0.1 and"
        in capsys.readouterr().err
    )


def test_a_model_without_a_table_of_words_is_refused(tokenizer):
    for preset, settings in (("attention_ibm1", {}), ("transformer_tiny", SMALL)):
        model = models.create(preset, len(tokenizer.source), len(tokenizer.target), **settings)
        with pytest.raises(UserError, match=r"^the x of y has no table of word translations"):
            table_entries(model, tokenizer, name="the x of y")


def test_a_table_of_pieces_is_refused_and_one_of_listed_words_is_not(tmp_path):
    def listed(*pieces):
        path = tmp_path / "vocab"
        path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
        return train_tokenizer("pretokenized", [], [], vocab_file=str(path))

    learnt = train_tokenizer("bpe", list(WORDS), list(WORDS.values()), vocab_size=290)
    for pieces in (learnt, listed("d@@", "og", "Hund"), listed("▁do", "g", "▁Hund")):
        with pytest.raises(UserError, match="the model translates pieces of words"):
            table_entries(make_model("ibm1", pieces), pieces)
    words = listed("dog", "Hund")
    assert len(table_entries(make_model("ibm1", words), words, threshold=0.0)) == 9


def test_a_threshold_that_nothing_reaches_is_named(tokenizer):
    with pytest.raises(UserError, match="no word pair of probability above 1; lower --threshold"):
        table_entries(make_model("ibm1", tokenizer), tokenizer, threshold=1.0)
