"""Projects vectors of many dimensions into the plane, for pictures of embeddings."""

import numpy as np

from nmt_zoo.common.errors import UserError


def principal_components(vectors: np.ndarray, count: int = 2) -> np.ndarray:
    """Projects `[n, d]` onto the orthogonal directions of the largest variance, the largest first.

    Returns `[n, count]` float64 with mean 0. If the vectors have fewer directions, the others are
    0. The sign of each direction is such that the vector farthest from the mean is positive, so the
    result does not depend on the machine.

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


def tsne(vectors: np.ndarray) -> np.ndarray:
    """Maps vectors to points in the plane so that near neighbours stay near.

    van der Maaten and Hinton 2008, "Visualizing Data using t-SNE", by scikit-learn, an optional
    package. It starts at the principal components with a fixed seed, so the same vectors give the
    same points. `vectors` are `[n, d]`, n at least 4; divide each by its length if only angles
    matter. In the result, `[n, 2]` float64, only small distances have a meaning; distances between
    groups and the axes have none. Raises UserError if scikit-learn is not installed.
    """
    try:
        from sklearn.manifold import TSNE  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(
            "projection=tsne needs scikit-learn: pip install scikit-learn, or draw with "
            "projection=pca"
        ) from None
    vectors = np.asarray(vectors, np.float64)
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    # Not init="pca", which divides by the spread of the points, which is 0 if all are equal.
    start = principal_components(vectors)
    start = 1e-4 * start / max(start.std(), 1e-300)
    start += np.random.default_rng(0).normal(size=start.shape) * 1e-6
    found = TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=0)
    return found.fit_transform(vectors).astype(np.float64)
