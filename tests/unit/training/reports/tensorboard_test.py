"""Tests of the event files for TensorBoard."""

import tensorflow as tf

from nmt_zoo.training.loop.log import Board


def values(path):
    """Returns (tag, step, number) of every value in the event files of a folder."""
    for file in path.glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                yield value.tag, event.step, float(tf.make_ndarray(value.tensor))


def test_curves_have_the_points_of_their_steps(tmp_path):
    board = Board(tmp_path)
    board.scalars({"train/loss": 2.5, "valid/bleu": 12.0}, 7)
    board.close()
    assert {*values(tmp_path)} == {("train/loss", 7, 2.5), ("valid/bleu", 7, 12.0)}
