"""Changes of token scores, each against its definition."""

import numpy as np
import pytest

from nmt_zoo.decoding.search import processors

VOCAB = 6


def scores(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, VOCAB)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
def test_a_token_that_would_repeat_an_ngram_is_impossible(n, length):
    ids = np.random.default_rng(n).integers(0, 3, size=(20, length)).astype(np.int32)
    before = scores(20)
    found = processors.bar_repeated_ngrams(before, ids, n).numpy()
    for row in range(20):
        past = [tuple(ids[row, i : i + n]) for i in range(length - n + 1)]
        for token in range(VOCAB):
            ngram = (*ids[row, length - n + 1 :], token) if n > 1 else (token,)
            barred = len(ngram) == n and ngram in past
            expected = processors.IMPOSSIBLE if barred else before[row, token]
            assert found[row, token] == np.float32(expected)


def shares(log_probs, temperature, top_k, top_p):
    """Returns the probabilities of draws by their definition."""
    order = np.argsort(-log_probs, kind="stable")[: top_k or None]
    values = np.exp(log_probs[order] / temperature)
    values /= values.sum()
    nucleus = next(n for n in range(1, len(order) + 1) if values[:n].sum() >= top_p - 1e-6)
    found = np.zeros(VOCAB)
    found[order[:nucleus]] = values[:nucleus] / values[:nucleus].sum()
    return found


def random_bits(count, seed=0):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, count, np.int32)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.3, 0, 1.0), (2.0, 3, 1.0), (1.0, 0, 0.6), (1.5, 4, 0.8), (1.0, 99, 0.01)],
)
def test_tokens_are_drawn_by_their_shares(temperature, top_k, top_p):
    count = 20_000
    for seed in range(3):
        one = scores(1, seed)
        drawn = processors.draw(
            np.repeat(one, count, axis=0),
            random_bits(count, seed),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        found = np.bincount(drawn, minlength=VOCAB) / count
        expected = shares(one[0], temperature, top_k, top_p)
        deviation = np.sqrt(expected * (1 - expected) / count)
        assert (np.abs(found - expected) <= 4 * deviation).all()
        assert not found[expected == 0].any()


def test_an_impossible_token_is_never_drawn():
    before = scores(5)
    before[:, 1:] = processors.IMPOSSIBLE
    noise = np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32)
    drawn = processors.draw(before, noise, temperature=1.0, top_k=0, top_p=1.0)
    assert not drawn.numpy().any()


@pytest.mark.parametrize("options", [(1.5, 0, 1.0), (1.0, 50, 1.0), (1.0, 0, 0.9)])
def test_rounding_changes_hardly_any_draw_from_a_large_vocabulary(options):
    temperature, top_k, top_p = options
    rng = np.random.default_rng(0)
    log_probs = rng.normal(size=(1000, 3000)).astype(np.float32) * 3
    rounded = log_probs + rng.normal(size=log_probs.shape).astype(np.float32) * 2e-6
    drawn = [
        processors.draw(
            some, random_bits(1000), temperature=temperature, top_k=top_k, top_p=top_p
        ).numpy()
        for some in (log_probs, rounded)
    ]
    assert len(np.unique(drawn[0])) > 100
    assert (drawn[0] != drawn[1]).sum() <= 1
