"""Vectors of many dimensions as points in the plane, for pictures of embeddings."""

import numpy as np

_EXAGGERATED_STEPS = 250
_EXAGGERATION = 12.0


def principal_components(vectors: np.ndarray, count: int = 2) -> np.ndarray:
    """Projects onto the orthogonal directions of the largest variance.

    Args:
        vectors: `[n, d]`.
        count: number of directions.

    Returns:
        `[n, count]` float64 with mean 0, the direction of the largest variance first; 0 in
        directions that the vectors do not have. Directions point to where the vector farthest
        from the mean along them is positive, so the result does not depend on the machine.

    Example:
        >>> principal_components(np.array([[1.0, 1.0], [3.0, 3.0], [8.0, 8.0]]), 1).round(2)
        array([[-4.24],
               [-1.41],
               [ 5.66]])
    """
    vectors = np.asarray(vectors, np.float64)
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    found = (left * sizes)[:, :count]
    farthest = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    found = found * np.where(farthest < 0, -1.0, 1.0)
    return np.pad(found, ((0, 0), (0, count - found.shape[1])))


def tsne(vectors: np.ndarray, perplexity: float | None = None, steps: int = 750) -> np.ndarray:
    """Points in the plane whose near neighbours are those of the vectors.

    Exact t-SNE, van der Maaten and Hinton 2008, "Visualizing Data using t-SNE", algorithm 1: every
    pair counts, so time and memory grow with n^2: some seconds for n = 500. It begins at the
    principal components, so the same vectors give the same points.

    Args:
        vectors: `[n, d]`, n at least 4. Divide each by its length where angles are what counts.
        perplexity: about how many neighbours count for a point, from 1 to less than n - 1;
            None: 30, or a third of the others where that is less.
        steps: of gradient descent.

    Returns:
        `[n, 2]` float64 with mean 0. Only what lies close together means something; distances
        between groups and the axes do not.

    Raises:
        ValueError: too few vectors, or a perplexity out of its range.
    """
    vectors = np.asarray(vectors, np.float64)
    count = len(vectors)
    if count < 4:
        raise ValueError(f"t-SNE needs at least 4 vectors, found {count}")
    if perplexity is None:
        perplexity = min(30.0, (count - 1) / 3)
    if not 1 <= perplexity < count - 1:
        raise ValueError(
            f"perplexity must be at least 1 and below {count - 1} for {count} vectors, "
            f"found {perplexity}"
        )
    near = neighbour_probabilities(_squared_distances(vectors), perplexity)
    near = (near + near.T) / (2 * count)
    points = principal_components(vectors)
    points = 1e-4 * points / max(points.std(), 1e-300)
    # Vectors on one line would stay on it.
    points += np.random.default_rng(0).normal(size=points.shape) * 1e-6
    change, gains = np.zeros_like(points), np.ones_like(points)
    rate = max(count / _EXAGGERATION / 4, 50.0)
    for step in range(steps):
        early = step < _EXAGGERATED_STEPS
        gradient = _tsne_gradient(points, near * _EXAGGERATION if early else near)
        # Coordinates that keep their direction go faster (Jacobs 1988), as the authors do.
        gains = np.maximum(np.where(change * gradient < 0, gains + 0.2, gains * 0.8), 0.01)
        change = (0.5 if early else 0.8) * change - rate * gains * gradient
        points = points + change
        points -= points.mean(axis=0)
    return points


def neighbour_probabilities(squared_distances: np.ndarray, perplexity: float) -> np.ndarray:
    """Normal distributions around every point, each as wide as the perplexity says.

    Equation 1 of van der Maaten and Hinton 2008, the variances found by bisection.

    Args:
        squared_distances: `[n, n]`.
        perplexity: exp of the entropy that every row shall have, below n - 1.

    Returns:
        `[n, n]` float64; rows sum to 1, the diagonal is 0.
    """
    count = len(squared_distances)
    others = ~np.eye(count, dtype=bool)
    # Relative to the nearest neighbour, which no row can then lose to rounding.
    distances = squared_distances - np.where(others, squared_distances, np.inf).min(1)[:, None]
    precision = np.full(count, 1 / max(distances[others].mean(), 1e-300))
    low, high = np.zeros(count), np.full(count, np.inf)
    for _ in range(100):
        near = np.where(others, np.exp(-precision[:, None] * np.where(others, distances, 0)), 0.0)
        sums = near.sum(axis=1)
        entropy = np.log(sums) + precision * (near * distances).sum(axis=1) / sums
        too_wide = entropy > np.log(perplexity)
        low, high = np.where(too_wide, precision, low), np.where(too_wide, high, precision)
        # Doubled until it is too narrow, at most to where only the nearest are left.
        bounded = np.isfinite(high)
        middle = (low + np.where(bounded, high, 0)) / 2
        precision = np.where(bounded, middle, np.minimum(2 * precision, 1e300))
    return near / sums[:, None]


def _tsne_gradient(points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Equation 5: of the divergence of the neighbours in the plane from those of the vectors."""
    closeness = 1 / (1 + _squared_distances(points))
    np.fill_diagonal(closeness, 0.0)
    pull = (near - closeness / closeness.sum()) * closeness
    return 4 * (pull.sum(axis=1)[:, None] * points - pull @ points)


def _squared_distances(vectors: np.ndarray) -> np.ndarray:
    """`[n, d]` -> `[n, n]`, none below 0."""
    squares = (vectors**2).sum(axis=1)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * vectors @ vectors.T, 0.0)
