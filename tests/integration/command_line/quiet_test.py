"""Scripts start without messages from their libraries."""

import subprocess
import sys

import pytest

from tests.running import ROOT

PROGRAM = """
from nmt_zoo.common import process
process.start()
import sys

import pytest

process.start_tensorflow()
assert "matplotlib" not in sys.modules  # Nobody has asked for a picture.
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.graph_tokenizers import graph_vocabulary
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer

lines = ["a b c d e f g h"] * 20
tokenizer = train_tokenizer("bpe", lines, lines, vocab_size=290)
with process.silence():
    graph = graph_vocabulary(tokenizer.source)
ids = tokenizer.source.encode(["a b"])
assert graph.encode(tf.constant(["a b"])).numpy().tolist() == ids
import matplotlib.pyplot
"""


@pytest.mark.slow
def test_importing_and_starting_tensorflow_and_sentencepiece_prints_nothing():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
