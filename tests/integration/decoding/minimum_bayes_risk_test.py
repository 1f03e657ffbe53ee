"""Minimum Bayes risk against sacreBLEU's chrF and a sum over all pairs."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from nmt_zoo.decoding.minimum_bayes_risk import chrf_of_pairs, expected_utilities

TEXTS = ["Ein Hund läuft.", "Ein Hund läuft .", "Der Hund", "Katze", "", "ein", "  ", "läuft läuft"]


def random_texts(seed, count=12):
    rng = random.Random(seed)
    return ["".join(rng.choices("ab cß漢🙂 ", k=rng.randint(0, 14))) for _ in range(count)]


@pytest.mark.parametrize("texts", [TEXTS, *(random_texts(seed) for seed in range(2))])
def test_every_pair_has_the_chrf_of_sacrebleu(texts):
    chrf = CHRF()
    expected = [[chrf.sentence_score(h, [r]).score for r in texts] for h in texts]
    np.testing.assert_allclose(chrf_of_pairs(texts), expected, atol=1e-9)


def test_the_utility_is_the_weighted_mean_over_all_texts():
    texts = random_texts(9) + random_texts(9)[:4]
    weights = np.random.default_rng(9).random(len(texts))
    chrf = CHRF()
    expected = [
        sum(w * chrf.sentence_score(h, [r]).score for r, w in zip(texts, weights, strict=True))
        for h in texts
    ]
    np.testing.assert_allclose(expected_utilities(texts, weights), expected / weights.sum())
