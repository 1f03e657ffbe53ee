"""Sentences of similar length are searched together, as many as memory allows."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.decoding.search import groups
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import Hypotheses, SearchOptions
from tests.tiny import Echo, echo_batch


def groups_of(lengths, beam_size=2):
    """Runs a search that returns each sentence's length; gives (shapes of the groups, result)."""
    shapes = []

    def search(source_ids, limits, rows):
        assert rows.shape == limits.shape
        shapes.append(tuple(source_ids.shape))
        sizes = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
        ids = tf.repeat(sizes[:, None, None], beam_size, axis=1)
        scores = tf.cast(ids[:, :, 0], tf.float32)
        return Hypotheses(ids, scores, scores, scores > 0, tf.zeros_like(ids, tf.float32))

    limits = 2 * tf.constant(lengths) + 20
    ids = tf.constant(echo_batch(lengths))
    return shapes, groups.search_in_groups(search, ids, limits, beam_size)


def test_a_long_sentence_is_searched_apart_and_without_its_padding_the_others():
    lengths = [5, 300, 7, 9, 2, 290]
    shapes, found = groups_of(lengths)
    assert shapes == [(2, 300), (4, 9)]
    assert found.ids[:, 1, 0].numpy().tolist() == lengths
    assert found.ids.shape == (6, 2, 620) and not found.ids[:, :, 1:].numpy().any()
    assert found.scores.numpy()[:, 0].tolist() == lengths


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_group_is_no_larger_than_memory_allows(beam_size):
    lengths = [1000] * 5 + [100] * 500
    shapes, _ = groups_of(lengths, beam_size)
    assert sum(rows for rows, _ in shapes) == len(lengths)
    for rows, width in shapes:
        assert rows == 1 or rows * width**2 <= groups.MAX_SOURCE_WEIGHTS
        positions = rows * beam_size * (2 * width + 20)
        assert rows == 1 or positions <= groups.MAX_TARGET_POSITIONS
    assert len(shapes) < 40


def test_a_group_of_a_sentence_whose_square_is_beyond_int32_is_that_sentence():
    shapes, _ = groups_of([1 << 16, (1 << 16) - 1, 5])
    assert shapes == [(1, 1 << 16), (1, (1 << 16) - 1), (1, 5)]


def test_a_search_in_a_graph_finds_every_sentence_of_a_mixed_batch_and_of_none():
    lengths = [3, 90, 2, 1, 40, 6]
    source = echo_batch(lengths)
    search = make_search(Echo(8), SearchOptions(2))
    found = search(tf.constant(source), 1)
    assert found.ids.shape == (6, 2, 200)
    np.testing.assert_array_equal(found.ids[:, 0, :90], source)
    assert found.finished.numpy()[:, 0].all()
    assert search(tf.zeros([0, 0], tf.int32), 1).scores.shape == (0, 2)
