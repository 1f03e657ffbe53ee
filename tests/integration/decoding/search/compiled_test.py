"""The compiled search finds what the search in a graph of any size finds."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, EOS_ID, PAD_ID
from nmt_zoo.decoding.search.beam_search import beam_search
from nmt_zoo.decoding.search.compiled import CompiledSearch, Size, size_for
from nmt_zoo.decoding.search.terms import SearchOptions, SpecialIds

SPECIAL_IDS = SpecialIds(PAD_ID, BOS_ID, EOS_ID)
SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 2}
TRANSFORMER = {**SMALL, "width": 16, "num_heads": 2, "ffn_width": 16}
RECURRENT = {"embedding_width": 8, "encoder_units": 8, "decoder_units": 16}
CASES = [
    *(("transformer_tiny", {**TRANSFORMER, "positions": p}) for p in ("relative", "rotary")),
    ("transformer_simple", {**SMALL, "width": 16, "ffn_width": 16}),
    ("lstm_luong", RECURRENT),
]


@pytest.mark.parametrize(("preset", "settings"), CASES)
def test_both_ways_to_run_find_the_same(preset, settings):
    model = models.create(preset, 60, 60, **settings)
    rng = np.random.default_rng(1)
    lengths = np.array([17, 3, 9, 5, 1])  # Of the first, the limit needs a second program.
    source = rng.integers(4, 60, (5, 17)).astype(np.int32)
    source[np.arange(17) >= lengths[:, None]] = PAD_ID
    limits = tf.constant(2 * lengths + 3, tf.int32)
    options = SearchOptions(beam_size=3)
    compiled = CompiledSearch(model, options, SPECIAL_IDS)
    found = tf.function(compiled, autograph=False)(source, limits, tf.constant(2))
    expected = beam_search(
        model, source, limits=limits, options=options, special_ids=SPECIAL_IDS, n_best=2
    )
    np.testing.assert_array_equal(found.ids[:, :2], expected.ids[:, :2])
    np.testing.assert_allclose(found.scores[:, :2], expected.scores[:, :2], rtol=1e-4)
    np.testing.assert_array_equal(found.finished[:, :2], expected.finished[:, :2])


def test_sizes():
    assert size_for(1, 10, 40) == Size(1, 16, 64)
    assert size_for(40, 33, 276) == Size(32, 64, 276)
    assert size_for(1, 129, 40) is None
    assert size_for(1, 10, 277) is None
    assert Size(4, 16, 64).programs() == [Size(r, 16, t) for t in (32, 64) for r in (4, 1)]
