"""Fixtures that several rooms' tests share."""

from training import quiet  # before all that imports TensorFlow

# isort: split

import keras
import pytest

quiet.start()


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    keras.utils.set_random_seed(7)
