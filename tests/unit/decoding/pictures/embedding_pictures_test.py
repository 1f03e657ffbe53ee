"""Tests of pictures of source and target words in one plane."""

import sys

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import WordVocabulary
from nmt_zoo.decoding.pictures.embedding_pictures import embedding_points, save_points
from tests.tiny import SMALL, WORDS, pairs
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

pytest.importorskip("sklearn", reason="scikit-learn is an optional package")
pytest.importorskip("adjustText", reason="adjustText is an optional package")

SOURCES, TARGETS = (list(side) for side in zip(*pairs(100), strict=True))
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
# Words sorted so that word n of the source is translated by word n of the target.
TOKENIZER = Tokenizer(
    "word", WordVocabulary([*SPECIALS, *WORDS]), WordVocabulary([*SPECIALS, *WORDS.values()])
)
TWO = {
    "Spanish": (["por", "qué\x00"], np.array([[0, 0], [1, 2]])),
    "English": (["for", "$5_0 what" + "t" * 99], np.array([[0, 0.2], [1, 1.9]])),
}


@pytest.fixture(scope="module")
def model():
    """Each word's vector has the direction of its translation's, but is shifted and longer."""
    size = len(TOKENIZER.source)
    model = models.create("ibm1_factored", size, size, width=6)
    vectors = np.random.default_rng(1).normal(size=(size, 6))
    model.source_embedding.embeddings.assign(3 * vectors + 5.0)
    model.output_layer.kernel.assign((0.1 * vectors - 1.0).T)
    return model


def test_translations_lie_close_to_each_other(model):
    points = embedding_points(model, TOKENIZER, num_words=5)
    (words, source), (translations, target) = points["source"], points["target"]
    assert words == list(WORDS)[:5] and translations == list(WORDS.values())[:5]
    distances = np.linalg.norm(source[:, None] - target[None], axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), np.arange(len(words)))


def test_without_centring_the_languages_lie_apart(model):
    points = embedding_points(model, TOKENIZER, centred=False)
    source, target = (places for _, places in points.values())
    between = np.linalg.norm(source.mean(axis=0) - target.mean(axis=0))
    assert between > 3 * max(source.std(), target.std())


def test_models_without_such_embeddings_are_refused(model, monkeypatch):
    other = models.create("transformer_tiny", 20, 20, **SMALL)
    with pytest.raises(UserError, match=r"x: .* not embedded in one space; .*ibm1_factored"):
        embedding_points(other, TOKENIZER, name="x")
    bpe = train_tokenizer("bpe", SOURCES, TARGETS, vocab_size=300)
    with pytest.raises(UserError, match="x: trained with --tokenizer=bpe"):
        embedding_points(model, bpe, name="x")
    small = WordVocabulary([*SPECIALS, "a"])
    with pytest.raises(UserError, match="x: fewer than 4 words"):
        embedding_points(model, Tokenizer("word", small, small), name="x")
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(UserError, match="needs scikit-learn: pip install scikit-learn"):
        embedding_points(model, TOKENIZER)


def test_the_same_points_give_the_same_bytes(same_bytes):
    same_bytes(lambda path: save_points(TWO, path))


def test_every_label_and_group_is_written(tmp_path, monkeypatch):
    save_points(TWO, tmp_path / "a.svg")
    long = "$5_0 what" + "t" * 30 + "…"
    expected = ["Spanish", "English", "por", r"qué\x00", "for", long]
    assert sorted(svg_texts(tmp_path / "a.svg")) == sorted(expected)
    monkeypatch.setitem(sys.modules, "adjustText", None)
    with pytest.raises(UserError, match="needs adjustText: pip install adjustText"):
        save_points(TWO, tmp_path / "b.svg")
