"""The largest numbers of rows, against TensorFlow's own search for them."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.decoding.search.largest import PART, largest


@pytest.mark.parametrize("length", [5, 100, 2000, 2003, 4096])
def test_finds_what_top_k_finds_of_equal_numbers_too(length):
    values = tf.constant(np.random.default_rng(1).integers(0, 300, (7, length)), tf.float32)
    for count in (1, 4, 11):
        if count <= length:
            for found, expected in zip(
                largest(values, count), tf.math.top_k(values, count), strict=True
            ):
                np.testing.assert_array_equal(found, expected)


def test_rows_whose_length_is_not_static_are_searched_alike():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def search(rows):
        return largest(rows, 11)

    values = np.random.default_rng(1).integers(0, 300, (7, 30 * PART))
    for parts in (11, 12, 30):
        rows = tf.constant(values[:, : parts * PART], tf.float32)
        for found, expected in zip(search(rows), tf.math.top_k(rows, 11), strict=True):
            np.testing.assert_array_equal(found, expected)
