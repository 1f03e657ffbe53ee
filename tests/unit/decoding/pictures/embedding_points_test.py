"""Tests of source and target words in one plane."""

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import WordVocabulary
from nmt_zoo.decoding.pictures.embedding_points import embedding_points
from tests.tiny import SMALL, WORDS, pairs

SOURCES, TARGETS = (list(side) for side in zip(*pairs(100), strict=True))
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
# Words sorted so that word n of the source is translated by word n of the target.
TOKENIZER = Tokenizer(
    "word", WordVocabulary([*SPECIALS, *WORDS]), WordVocabulary([*SPECIALS, *WORDS.values()])
)


@pytest.fixture
def model():
    """Each word's vector has the direction of its translation's, but is shifted and longer."""
    size = len(TOKENIZER.source)
    model = models.create("ibm1_factored", size, size, width=6)
    vectors = np.random.default_rng(1).normal(size=(size, 6))
    model.source_embedding.embeddings.assign(3 * vectors + 5.0)
    model.output_layer.kernel.assign((0.1 * vectors - 1.0).T)
    return model


@pytest.mark.parametrize("projection", ["pca", "tsne"])
@pytest.mark.parametrize("num_words", [5, 60])
def test_translations_lie_close_to_each_other(model, projection, num_words):
    if projection == "tsne":
        pytest.importorskip("sklearn")
    found = embedding_points(model, TOKENIZER, projection=projection, num_words=num_words)
    (words, source), (translations, target) = found["source"], found["target"]
    assert words == list(WORDS)[:num_words]
    assert translations == list(WORDS.values())[:num_words]
    distances = np.linalg.norm(source[:, None] - target[None], axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), np.arange(len(words)))


def test_without_centring_the_languages_lie_apart(model):
    found = embedding_points(model, TOKENIZER, centred=False)
    source, target = (points for _, points in found.values())
    between = np.linalg.norm(source.mean(axis=0) - target.mean(axis=0))
    assert between > 3 * max(source.std(), target.std())


def test_models_without_such_embeddings_are_refused(model):
    other = models.create("transformer_tiny", 20, 20, **SMALL)
    with pytest.raises(UserError, match=r"x: .* not embedded in one space; .*ibm1_factored"):
        embedding_points(other, TOKENIZER, name="x")
    bpe = train_tokenizer("bpe", SOURCES, TARGETS, vocab_size=300)
    with pytest.raises(UserError, match="x: trained with --tokenizer=bpe"):
        embedding_points(models.create("attention_ibm2", 300, 300), bpe, name="x")
    small = WordVocabulary([*SPECIALS, "a"])
    with pytest.raises(UserError, match="x: fewer than 4 words"):
        few = models.create("ibm1_factored", 5, 5)
        embedding_points(few, Tokenizer("word", small, small), name="x")
