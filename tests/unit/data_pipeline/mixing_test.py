"""Several corpora as one mixture: shares as asked for, and no pair left out."""

import itertools

import numpy as np
import pytest

from nmt_zoo.data_pipeline.mixing import mixture

SIZES = (10, 300, 40)


@pytest.mark.parametrize(
    ("weights", "shares"),
    [("1,1,2", [0.25, 0.25, 0.5]), ("0,1,1", [0, 0.5, 0.5]), ("3,2,1", [1 / 2, 1 / 3, 1 / 6])],
)
def test_an_epoch_has_the_shares_asked_for_and_several_have_all_pairs_equally_often(
    weights, shares
):
    assert mixture(SIZES) is None and mixture(SIZES, "1,30,4") is None  # By their sizes.
    found, seen = mixture(SIZES, weights), np.zeros(sum(SIZES), int)
    bounds = np.cumsum([0, *SIZES])
    for epoch in range(7):
        rows = found.rows(seed=1, epoch=epoch)
        assert rows.size == sum(SIZES)
        counts = np.histogram(rows, bounds)[0]
        np.testing.assert_array_equal(counts, found.counts())
        np.testing.assert_allclose(counts / sum(SIZES), shares, atol=1 / sum(SIZES))
        seen += np.bincount(rows, minlength=seen.size)
        assert all(np.ptp(seen[a:b]) <= 1 for a, b in itertools.pairwise(bounds))
    one = found.rows(1, 2)
    np.testing.assert_array_equal(one, found.rows(1, 2))
    for other in (found.rows(1, 3), found.rows(2, 2)):
        assert sorted(one.tolist()) != sorted(other.tolist())
