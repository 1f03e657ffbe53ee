"""A text and a trained model that the tests of several scripts share."""

import pytest
import tensorflow as tf

from tests.running import train
from tests.tiny import SMALL_FLAGS, corpus_flags

# Trained until translations end: a search that never finds `</s>` takes seconds.
TRANSFORMER = [*SMALL_FLAGS, "--num_pieces=300", "--max_tokens_per_batch=256", "--bleu_lines=0"]
TRANSFORMER += ["--set=dropout=0.0", "--bpe_dropout=0", "--noise=none", "--schedule=constant"]
TRANSFORMER += ["--learning_rate=0.01", "--warmup_steps=5", "--average_checkpoints=1"]
TRANSFORMER += ["--log_every_steps=50", "--eval_every_steps=150", "--max_steps=150"]


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A folder with a text of a few words: train.source, train.target, valid.source and so on."""
    folder = tmp_path_factory.mktemp("text")
    corpus_flags(folder)
    return folder


@pytest.fixture(scope="session")
def corpus(text):
    """The flags of train.py that name the text, and a folder for its caches."""
    return [*corpus_flags(text), f"--data_dir={text / 'data'}"]


@pytest.fixture(scope="session")
def transformer(text, corpus):
    """The directory of a Transformer that was trained by `TRANSFORMER`; tests do not change it."""
    eagerly = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    train(text, "transformer", *corpus, *TRANSFORMER)
    tf.config.run_functions_eagerly(eagerly)
    return text / "transformer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the models of a file of tests."""
    return tmp_path_factory.mktemp("models")
