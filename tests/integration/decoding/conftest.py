"""Fixtures that tests of decoding share."""

import keras
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.translator import Translator
from tests.tiny import SMALL, pairs

LONGEST = "cat sees big house two three"
LINES = ["one dog", "", LONGEST, "zebra", "  ", "dog dog dog dog dog"]
SEARCH = {"beam_size": 3, "max_length_factor": 1.0, "max_length_extra": 2}
TEXT = [list(side) for side in zip(*pairs(100), strict=True)]


@pytest.fixture(scope="session")
def words():
    return train_tokenizer("word", *TEXT)


@pytest.fixture(scope="session")
def pieces():
    return train_tokenizer("bpe", *TEXT, vocab_size=300)


@pytest.fixture(scope="module")
def parts(words):
    """A model and its tokenizer."""
    keras.utils.set_random_seed(7)
    sizes = len(words.source), len(words.target)
    model = models.create("transformer_tiny", *sizes, tie_embeddings="target", **SMALL)
    for weight in model.trainable_variables:  # Larger weights, so that no scores are equal.
        weight.assign(weight * 1.5)
    return model, words


@pytest.fixture(scope="module")
def at_once(parts):
    """The 3 best translations of `LINES`."""
    return Translator.of(*parts, **SEARCH, batch_size=3, num_threads=2).translate(LINES, 3)


@pytest.fixture
def graphs():
    """Makes graphs in a test of a module whose other tests run without them."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(before)
