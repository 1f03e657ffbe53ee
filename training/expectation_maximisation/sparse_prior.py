"""The Dirichlet prior of a table of probabilities, in its variational Bayes form."""

import numpy as np

_SHIFT = 8  # The series in `digamma` is exact to about 1e-13 for x of at least this.


def digamma(x):
    """Computes the derivative of the logarithm of the gamma function.

    Abramowitz and Stegun 1964, equations 6.3.5 (recurrence) and 6.3.18 (series).

    Args:
        x: float64 array, above 0.

    Returns:
        float64 array of the same shape.
    """
    x = np.asarray(x, np.float64)
    below = sum(1 / (x + k) for k in range(_SHIFT))
    x = x + _SHIFT
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return np.log(x) - 0.5 / x - series - below


def weights(counts, alpha):
    """Returns the weights that replace counts in a maximisation under a symmetric Dirichlet prior.

    A mean-field posterior of the table has the expected log-probabilities digamma(count + alpha)
    minus a constant (Johnson 2007, "Why Doesn't EM Find Good HMM POS-Taggers?", section 2.3). With
    a small alpha, a count of 10 hardly changes and a count of 0.1 vanishes: tables become sparse.

    Args:
        counts: float64 array, at least 0.
        alpha: at least 0; 0 is maximum likelihood, which leaves counts unchanged.

    Returns:
        float64 array of the same shape.
    """
    # Never 0: a target word all of whose weights vanish would have no possible source word.
    return np.maximum(np.exp(digamma(counts + alpha)), 1e-200) if alpha else counts
