"""Fixtures that tests of decoding share."""

import pytest
import tensorflow as tf

from tests.browser import chromium


@pytest.fixture
def graphs():
    """Makes graphs in a test of a module whose other tests run without them."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(before)


@pytest.fixture(scope="session")
def browser():
    with chromium() as driver:
        yield driver
