"""Tests of the report on the memory of updates, before training."""

import math

from nmt_zoo import models
from nmt_zoo.training.reports import memory
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import Gradient


def test_a_batch_that_will_not_fit_is_not_tried():
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "width": 64, "ffn_width": 256}
    model = models.create("transformer_tiny", 5000, 5000, **sizes)
    update = Gradient(model, adam(learning_rate=1e-3, warmup_steps=10))
    *measured, conclusion = memory.report(update, (64, 32, 32), available=1)
    assert len(measured) == 2  # The growth of memory can be estimated only from two updates.
    assert conclusion.endswith("THE LARGEST BATCH DOES NOT FIT")


def test_the_end_of_memory_is_where_rows_have_used_it_up():
    measured = {10: 2_000, 20: 3_000}
    assert memory.rows_that_fit(measured, 10_000) == 90
    assert memory.rows_that_fit(measured, 2_500) == 15
    assert memory.rows_that_fit({10: 2_000}, 10_000) == math.inf
