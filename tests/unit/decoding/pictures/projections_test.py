"""Tests principal components and t-SNE by their defining properties."""

import doctest
import sys

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.pictures import projections
from nmt_zoo.decoding.pictures.projections import principal_components, tsne


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def squared_distances(vectors):
    return ((vectors[:, None] - vectors[None]) ** 2).sum(-1)


def clusters(num_clusters=4, size=12, width=20):
    """Returns (vectors around some centres, the number of each vector's centre)."""
    names = np.repeat(np.arange(num_clusters), size)
    return 5 * random(num_clusters, width)[names] + random(len(names), width, seed=1), names


def test_principal_components_keep_the_largest_variances():
    vectors = random(30, 5) * [1, 9, 2, 0.1, 4] + 7
    found = principal_components(vectors, 2)
    variances, directions = np.linalg.eigh(np.cov(vectors.T))  # In rising order.
    np.testing.assert_allclose(np.cov(found.T), np.diag(variances[:-3:-1]), atol=1e-9)
    expected = (vectors - vectors.mean(0)) @ directions[:, :-3:-1]
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)


def test_principal_components_of_a_plane_are_the_plane():
    plane = random(10, 2)
    turned = plane @ np.linalg.qr(random(6, 6))[0][:2]
    found = principal_components(turned)
    np.testing.assert_allclose(squared_distances(found), squared_distances(plane), atol=1e-9)


def test_principal_components_do_not_depend_on_signs_of_directions():
    vectors = random(9, 4)
    found = principal_components(vectors)
    assert (np.abs(found).max(0) == found.max(0)).all()
    np.testing.assert_allclose(found, principal_components(vectors[::-1])[::-1])


def test_directions_that_are_not_there_are_zero():
    np.testing.assert_allclose(principal_components([[1.0], [3.0]]), [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(principal_components(np.ones((3, 4))), np.zeros((3, 2)))


def test_tsne_keeps_clusters_together_and_apart():
    pytest.importorskip("sklearn", reason="t-SNE needs scikit-learn, an optional package")
    vectors, names = clusters()
    points = tsne(vectors)
    assert points.shape == (48, 2)
    distances = squared_distances(points)
    same = names[:, None] == names[None]
    assert distances[same].max() < distances[~same].min()
    np.testing.assert_array_equal(tsne(vectors), points)


def test_tsne_of_vectors_on_one_line_or_in_one_place_is_finite():
    pytest.importorskip("sklearn", reason="t-SNE needs scikit-learn, an optional package")
    for vectors in (np.arange(8.0)[:, None], np.ones((8, 3)), random(4, 3)):
        assert np.isfinite(tsne(vectors)).all()


def test_tsne_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(UserError, match="pip install scikit-learn, or draw with projection=pca"):
        tsne(random(8, 3))


def test_examples_in_docstrings_run():
    found = doctest.testmod(projections, extraglobs={"np": np})
    assert found.failed == 0 and found.attempted
