"""Tests of the digamma function."""

import math

import numpy as np
import pytest

from nmt_zoo.training.ways.expectation_maximisation.sparse_prior import digamma

EULER = 0.57721566490153286


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (1, -EULER),
        (2, 1 - EULER),
        (0.5, -EULER - 2 * math.log(2)),
        (1 / 3, -EULER - math.pi / (2 * math.sqrt(3)) - 1.5 * math.log(3)),
        (0.25, -EULER - math.pi / 2 - 3 * math.log(2)),
        (10, sum(1 / k for k in range(1, 10)) - EULER),
        (1000, sum(1 / k for k in range(1, 1000)) - EULER),
    ],
)
def test_digamma_has_its_known_values(x, value):
    assert digamma(np.array([x]))[0] == pytest.approx(value, abs=1e-11, rel=1e-12)


def test_digamma_keeps_its_recurrence_over_many_magnitudes():
    x = np.geomspace(1e-6, 1e12, 1000).reshape(10, 100)
    assert digamma(x).shape == x.shape
    np.testing.assert_allclose(digamma(x + 1), digamma(x) + 1 / x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(digamma(x)[-1], np.log(x)[-1], rtol=1e-9)
