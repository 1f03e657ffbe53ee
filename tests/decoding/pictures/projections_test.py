"""Principal components and t-SNE against what defines them."""

import doctest

import numpy as np
import pytest

from decoding.pictures import projections
from decoding.pictures.projections import neighbour_probabilities, principal_components, tsne


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def squared_distances(vectors):
    return ((vectors[:, None] - vectors[None]) ** 2).sum(-1)


def clusters(num_clusters=4, size=12, width=20):
    """(vectors around some centres, the number of each one's centre)"""
    names = np.repeat(np.arange(num_clusters), size)
    return 5 * random(num_clusters, width)[names] + random(len(names), width, seed=1), names


def test_principal_components_keep_the_largest_variances():
    vectors = random(30, 5) * [1, 9, 2, 0.1, 4] + 7
    found = principal_components(vectors, 2)
    variances, directions = np.linalg.eigh(np.cov(vectors.T))  # The largest last.
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


@pytest.mark.parametrize("perplexity", [1.5, 5, 30, 38])
@pytest.mark.parametrize("scale", [1e-6, 1, 1e4])
def test_every_row_of_neighbours_has_the_perplexity(perplexity, scale):
    near = neighbour_probabilities(squared_distances(random(40, 6) * scale), perplexity)
    np.testing.assert_allclose(near.sum(1), 1)
    assert not near.diagonal().any()
    entropies = -(near * np.log(np.where(near > 0, near, 1))).sum(1)
    np.testing.assert_allclose(np.exp(entropies), perplexity, rtol=1e-6)


def test_neighbours_are_normal_distributions_around_each_point():
    squared = squared_distances(random(12, 3))
    near = neighbour_probabilities(squared, 4)
    for row, distances in zip(near, squared, strict=True):
        others = row > 0
        slope, _ = np.polyfit(distances[others], np.log(row[others]), 1)
        expected = np.exp(slope * distances) * others
        np.testing.assert_allclose(row, expected / expected.sum(), atol=1e-9)


def test_equal_vectors_have_neighbours_too():
    vectors = np.concatenate([np.ones((6, 3)), random(6, 3)])
    near = neighbour_probabilities(squared_distances(vectors), 2)
    assert np.isfinite(near).all()
    np.testing.assert_allclose(near.sum(1), 1)
    np.testing.assert_allclose(near[0, 1:6], 0.2, atol=1e-6)  # As few as there can be.


def test_the_gradient_is_that_of_the_divergence():
    near = neighbour_probabilities(squared_distances(random(7, 4)), 3)
    near = (near + near.T) / 14
    points = random(7, 2, seed=1)

    def divergence(points):
        closeness = 1 / (1 + squared_distances(points))
        np.fill_diagonal(closeness, 0)
        others = near > 0
        return (near * np.log(near, where=others, out=np.zeros_like(near)))[others].sum() - (
            near[others] * np.log((closeness / closeness.sum())[others])
        ).sum()

    found = projections._tsne_gradient(points, near)
    for i in range(7):
        for k in range(2):
            step = np.zeros_like(points)
            step[i, k] = 1e-5
            slope = (divergence(points + step) - divergence(points - step)) / 2e-5
            np.testing.assert_allclose(found[i, k], slope, rtol=1e-5, atol=1e-9)


def test_tsne_keeps_clusters_together_and_apart():
    vectors, names = clusters()
    points = tsne(vectors)
    assert points.shape == (48, 2)
    distances = squared_distances(points)
    same = names[:, None] == names[None]
    assert distances[same].max() < distances[~same].min()


def test_tsne_of_the_same_vectors_gives_the_same_points():
    vectors, _ = clusters(size=4)
    np.testing.assert_array_equal(tsne(vectors, steps=300), tsne(vectors, steps=300))


def test_tsne_of_vectors_on_one_line_or_in_one_place_is_finite():
    for vectors in (np.arange(8.0)[:, None], np.ones((8, 3))):
        points = tsne(vectors, steps=300)
        assert np.isfinite(points).all()


@pytest.mark.parametrize(
    ("count", "perplexity", "message"),
    [
        (3, None, "at least 4 vectors, found 3"),
        (8, 7, "below 7 for 8 vectors, found 7"),
        (8, 0.5, "at least 1 .*found 0.5"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(count, perplexity, message):
    with pytest.raises(ValueError, match=message):
        tsne(random(count, 3), perplexity)


def test_examples_in_docstrings_run():
    found = doctest.testmod(projections, extraglobs={"np": np})
    assert found.failed == 0 and found.attempted
