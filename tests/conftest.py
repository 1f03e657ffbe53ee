"""Fixtures that several rooms' tests share."""

from training import quiet  # before all that imports TensorFlow

# isort: split

import keras
import pytest
import tensorflow as tf


def _two_devices():
    """Shares out the processor, for tests of replicas; all others run on the first part."""
    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)


quiet.start(before=_two_devices)


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    keras.utils.set_random_seed(7)
