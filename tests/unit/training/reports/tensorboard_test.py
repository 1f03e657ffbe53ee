"""Tests of the event files for TensorBoard."""

import numpy as np
import tensorflow as tf

from nmt_zoo.training.reports.tensorboard import Board
from nmt_zoo.training.validation.evaluation import Evaluation


def values(path):
    """Returns (tag, step, tensor) of every value in the event files of a folder."""
    for file in path.glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                yield value.tag, event.step, tf.make_ndarray(value.tensor)


def test_translations_and_attention_are_shown_without_advice_on_fonts(tmp_path, capsys):
    weights = np.float32([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])
    attention = weights, ["▁\U00013000א", "b", "</s>"], ["▁c", "</s>"]
    board = Board(tmp_path)
    board.scalars({"train/loss": 2.5}, 7)
    board.samples(Evaluation(3.0, 12.0, [("ab", "x", "c")], attention), 7)
    board.samples(Evaluation(3.0, None, []), 8)
    board.close()
    assert capsys.readouterr().err == ""
    found = {tag: (step, tensor) for tag, step, tensor in values(tmp_path)}
    assert found.keys() == {"train/loss", "samples", "attention"}
    assert {step for step, _ in found.values()} == {7}
    assert found["samples"][1].item() == b"ab  \nc  \nx"
    width, height, png = found["attention"][1]
    image = tf.io.decode_png(png)
    assert image.shape == (int(height), int(width), 3)
    assert image.numpy().std() > 0
