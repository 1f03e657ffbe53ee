"""Changes of token scores, each against its definition."""

import numpy as np
import pytest

from decoding.search import constraints

VOCAB = 6


def scores(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, VOCAB)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
def test_a_token_that_would_repeat_an_ngram_is_impossible(n, length):
    ids = np.random.default_rng(n).integers(0, 3, size=(20, length)).astype(np.int32)
    before = scores(20)
    found = constraints.bar_repeated_ngrams(before, ids, n).numpy()
    for row in range(20):
        past = [tuple(ids[row, i : i + n]) for i in range(length - n + 1)]
        for token in range(VOCAB):
            ngram = (*ids[row, length - n + 1 :], token) if n > 1 else (token,)
            barred = len(ngram) == n and ngram in past
            expected = constraints.IMPOSSIBLE if barred else before[row, token]
            assert found[row, token] == np.float32(expected)


def test_coverage_is_the_sum_of_logarithms_over_words():
    attended = np.array([[0.5, 2.0, 0.25], [1.0, 0.0, 3.0]], np.float32)
    mask = np.array([[True, True, False], [True, True, True]])
    found = constraints.coverage_penalty(attended, mask).numpy()
    np.testing.assert_allclose(found, [np.log(0.5), np.log(1e-9)], rtol=1e-5)


def shares(log_probs, temperature, top_k, top_p):
    """Returns the probabilities of draws by their definition."""
    order = np.argsort(-log_probs, kind="stable")[: top_k or None]
    values = np.exp(log_probs[order] / temperature)
    values /= values.sum()
    nucleus = next(n for n in range(1, len(order) + 1) if values[:n].sum() >= top_p - 1e-6)
    found = np.zeros(VOCAB)
    found[order[:nucleus]] = values[:nucleus] / values[:nucleus].sum()
    return found


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.3, 0, 1.0), (2.0, 3, 1.0), (1.0, 0, 0.6), (1.5, 4, 0.8), (1.0, 99, 0.01)],
)
def test_draws_have_their_shares_of_the_unit_interval(temperature, top_k, top_p):
    count = 2000
    uniform = ((np.arange(count) + 0.5) / count).astype(np.float32)
    for seed in range(3):
        one = scores(1, seed)
        drawn = constraints.draw(
            np.repeat(one, count, axis=0),
            uniform,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        found = np.bincount(drawn, minlength=VOCAB) / count
        expected = shares(one[0], temperature, top_k, top_p)
        np.testing.assert_allclose(found, expected, atol=2 / count)
        assert not found[expected == 0].any()


def test_an_impossible_token_is_never_drawn():
    before = scores(5)
    before[:, 1:] = constraints.IMPOSSIBLE
    uniform = np.array([0.0, 0.5, 0.999, 1 - 2.0**-24, 1 - 2.0**-23], np.float32)
    drawn = constraints.draw(before, uniform, temperature=1.0, top_k=0, top_p=1.0)
    assert not drawn.numpy().any()
