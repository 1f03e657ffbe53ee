"""The digamma function, for tables of probabilities under a Dirichlet prior."""

import numpy as np

_SHIFT = 8  # The series in `digamma` is exact to about 1e-13 for x of at least this.


def digamma(x: np.ndarray) -> np.ndarray:
    """Computes the derivative of the logarithm of the gamma function, for float64 x above 0.

    Abramowitz and Stegun 1964, equations 6.3.5 (recurrence) and 6.3.18 (series).
    """
    x = np.asarray(x, np.float64)
    below = sum(1 / (x + k) for k in range(_SHIFT))
    x = x + _SHIFT
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return np.log(x) - 0.5 / x - series - below
