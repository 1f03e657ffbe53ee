"""Several corpora as one mixture: shares as asked for, and no pair left out."""

import collections
import itertools

import numpy as np
import pytest

from nmt_zoo.data_pipeline.mixing import mixture

SIZES = (10, 300, 40)


def seen(found, epochs, seed=1):
    """Counts how often each pair occurs in the first epochs."""
    rows = np.concatenate([found.rows(seed, epoch) for epoch in range(epochs)])
    return np.bincount(rows, minlength=sum(found.sizes))


def test_corpora_by_their_sizes_need_no_mixture():
    assert mixture(SIZES) is None
    assert mixture(SIZES, "1,30,4") is None


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ("1,1,2", [0.25, 0.25, 0.5]),
        ("0,1,1", [0, 0.5, 0.5]),
    ],
)
def test_epoch_has_the_shares_asked_for(weights, shares):
    found = mixture(SIZES, weights)
    rows = found.rows(seed=1, epoch=0)
    assert rows.size == sum(SIZES)
    counts = np.bincount(np.searchsorted(np.cumsum(SIZES), rows, side="right"), minlength=3)
    np.testing.assert_array_equal(counts, found.counts())
    np.testing.assert_allclose(counts / sum(SIZES), shares, atol=1 / sum(SIZES))


def test_all_pairs_of_a_corpus_are_seen_equally_often_over_epochs():
    found = mixture(SIZES, "3,2,1")
    for epochs in (1, 2, 7):
        bounds = np.cumsum([0, *SIZES])
        counts = seen(found, epochs)
        for start, end in itertools.pairwise(bounds):
            assert np.ptp(counts[start:end]) <= 1


def test_seed_and_epoch_fix_the_pairs():
    found = mixture(SIZES, "3,2,1")
    one = found.rows(1, 2)
    np.testing.assert_array_equal(one, found.rows(1, 2))
    for other in (found.rows(1, 3), found.rows(2, 2)):
        assert collections.Counter(one.tolist()) != collections.Counter(other.tolist())
