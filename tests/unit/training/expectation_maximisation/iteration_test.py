"""Compares expectation maximisation with textbook loops."""

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.training.ways.expectation_maximisation import iteration
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    maximise_translation,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
)
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.textbook import (
    Estimate,
    expect,
    first_estimate,
    index,
)

WORD_PAIRS = "nmt_zoo.training.ways.expectation_maximisation.word_pairs"

POSITIONS = {name: kind.first(sizes=(9, 9)) for name, kind in iteration.POSITIONS.items()}


def random_index(seed=1, count=40, target_end=True, **sizes):
    corpus = textbook.corpus_of(textbook.random_pairs(count, seed, **sizes))
    words = index(corpus, target_end=target_end)
    return words, textbook.sentences_of(corpus, target_end)


def begin(words, positions):
    """Returns the `first_estimate` with the parameters of another position model."""
    return first_estimate(words)._replace(positions=positions)


def random_estimate(words, positions, seed=1):
    values = np.random.default_rng(seed).random(words.num_pairs) + 0.05
    return Estimate(maximise_translation(words, values), positions)


def table_of(words, values):
    """Returns (source word, target word) -> value."""
    keys = zip(words.pair_sources.tolist(), words.pair_targets.tolist(), strict=True)
    return dict(zip(keys, values.tolist(), strict=True))


def assert_same_counts(words, counts, wanted):
    found = table_of(words, counts)
    assert found.keys() == wanted.keys()
    for key, count in wanted.items():
        assert found[key] == pytest.approx(count, abs=1e-9)


def random_jumps(seed=1, widest=6):
    rng = np.random.default_rng(seed)
    return JumpsEstimate(rng.random(2 * widest + 1) + 0.1, rng.random(widest) + 0.1, 0.3)


@pytest.mark.parametrize("name", ["uniform", "table", "diagonal"])
@pytest.mark.parametrize("target_end", [True, False])
def test_models_1_and_2_are_the_textbook_loop(target_end, name):
    words, sentences = random_index(target_end=target_end)
    estimate = random_estimate(words, POSITIONS[name])
    if name == "uniform":
        estimate = first_estimate(words)
        size = len({e for _, target in sentences for e in target})
        np.testing.assert_allclose(estimate.translation, 1 / size)
    elif name == "diagonal":
        estimate = estimate._replace(positions=DiagonalEstimate(tension=3.0, null_probability=0.15))
    t, positions = table_of(words, estimate.translation), textbook.uniform
    for _ in range(6):
        if name == "diagonal":
            positions = textbook.diagonal(estimate.positions.tension, 0.15)
        counts, places, log_likelihood = textbook.counts_of_model_1_or_2(sentences, t, positions)
        t = textbook.normalised(counts, lambda key: key[0])
        estimate, found_likelihood = textbook.em_step(words, estimate)
        assert found_likelihood == pytest.approx(log_likelihood, rel=1e-9)
        assert_same_counts(words, estimate.translation, t)
        if name == "table":
            a = textbook.normalised(places, lambda key: key[1:])
            positions = textbook.table(a)
            for (j, i, n), probability in a.items():
                assert estimate.positions.table[n - 1, i, j] == pytest.approx(probability, abs=1e-9)


def shared_positions(weights):
    return lambda i, m, n: weights[i, :n] / weights[i, :n].sum()


@pytest.mark.parametrize(
    ("name", "form", "changes"),
    [
        ("shared", shared_positions, np.exp(np.random.default_rng(0).normal(0, 0.1, (20, 9, 9)))),
        ("diagonal", lambda tension: textbook.diagonal(tension, 0.08), (0.99, 1.01)),
    ],
)
def test_positions_are_the_best_for_the_expected_alignments(name, form, changes):
    """Slightly different weights or tensions have a lower expected log-probability."""
    words, sentences = random_index(count=60)
    estimate = random_estimate(words, POSITIONS[name])
    t = table_of(words, estimate.translation)
    before, after = estimate.positions, textbook.em_step(words, estimate)[0].positions
    before, after = (p.weights if name == "shared" else p.tension for p in (before, after))
    counts = defaultdict(float)  # Keyed by target length, too.
    for pair in sentences:
        _, places, _ = textbook.counts_of_model_1_or_2([pair], t, form(before))
        for (j, i, n), count in places.items():
            counts[j, i, n, len(pair[1])] += count

    def value(found):
        positions = form(found)
        return sum(c * math.log(positions(i, m, n)[j]) for (j, i, n, m), c in counts.items())

    assert all(value(after * change) < value(after) + 1e-3 for change in changes)
    assert value(after) > value(before)


def hmm_by_enumeration(words, sentences, estimate):
    """Returns word counts, jump counts, start counts and log-likelihood, from every alignment."""
    jumps, t = estimate.positions, table_of(words, estimate.translation)
    widest = jumps.starts.size
    widths = {d: jumps.widths[d + widest] for d in range(-widest, widest + 1)}
    word_counts, moves, log_likelihood = defaultdict(float), defaultdict(float), 0.0
    for source, target in sentences:
        joints = list(
            textbook.hmm_alignments(
                source,
                target,
                t,
                lambda d: widths[max(-widest, min(widest, d))],
                lambda j: jumps.starts[min(j, widest - 1)],
                jumps.null_probability,
            )
        )
        total = sum(joint for _, joint in joints)
        log_likelihood += math.log(total)
        for alignment, joint in joints:
            last = 0
            for e, j in zip(target, alignment, strict=True):
                word_counts[source[j], e] += joint / total
                if j >= 0:
                    moves[len(source) - 1, last, j] += joint / total
                    last = j + 1
    return word_counts, moves, log_likelihood


@pytest.mark.parametrize("widest", [1, 2, 6])
@pytest.mark.parametrize("target_end", [True, False])
def test_the_hmm_sums_over_every_alignment(target_end, widest):
    """If `widest` is below the length of sentences, far jumps share a weight."""
    words, sentences = random_index(count=20, longest=4, target_end=target_end)
    estimate = random_estimate(words, random_jumps(widest=widest))
    wanted, moves, log_likelihood = hmm_by_enumeration(words, sentences, estimate)
    word_counts, statistics, found_likelihood = expect(words, estimate)
    assert found_likelihood == pytest.approx(log_likelihood, rel=1e-9)
    assert_same_counts(words, word_counts, wanted)
    found = defaultdict(float)
    for (counts,) in filter(None, statistics):
        for (last, j), count in np.ndenumerate(counts):
            found[counts.shape[1], last, j] += count
    for key in found.keys() | moves.keys():
        assert found[key] == pytest.approx(moves[key], abs=1e-9)


@pytest.mark.parametrize("widest", [2, 6])
def test_new_jump_weights_are_the_best_for_the_expected_jumps(widest):
    words, _ = random_index(count=60)
    estimate = random_estimate(words, random_jumps(widest=widest))
    _, statistics, _ = expect(words, estimate)
    new = estimate.positions
    for _ in range(20):  # Each call makes a limited number of steps.
        new = new.maximise(statistics)

    def value(jumps):
        tables = {c.shape[1]: jumps.transitions(c.shape[1]) for (c,) in filter(None, statistics)}
        return sum((c * np.log(tables[c.shape[1]])).sum() for (c,) in filter(None, statistics))

    best = value(new)
    assert best > value(estimate.positions.maximise(statistics)) - 1e-9 > value(estimate.positions)
    for name in ("widths", "starts"):
        weights = getattr(new, name)
        for place, factor in itertools.product(range(weights.size), (0.97, 1.03)):
            changed = weights.copy()
            changed[place] *= factor
            assert value(replace(new, **{name: changed})) <= best + 1e-9


def slope_of_lgamma(x):
    """Returns the derivative of math.lgamma, by a difference quotient."""
    return (math.lgamma(x * (1 + 1e-6)) - math.lgamma(x * (1 - 1e-6))) / (2e-6 * x)


@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e-3, 0.3])
def test_a_row_under_a_sparse_prior_has_the_means_of_its_logarithms(alpha):
    """Johnson 2007, section 2.3. However small the prior is, rows sum to at most one."""
    words, _ = random_index(words=12)
    counts = np.random.default_rng(2).random(words.num_pairs) ** 9 * 5
    counts[: words.first_pairs[1]] = 0  # A word that explains nothing.
    found = maximise_translation(words, counts, alpha)
    totals = words.source_sums(found)
    assert np.all(found > 0) and np.all(totals <= 1 + 1e-9)
    assert totals[0] < 1e-9 or alpha == 0.3
    assert np.median(totals) > (0.5 if alpha < 0.3 else 0)
    rows = (np.split(x, words.first_pairs[1:]) for x in (found, counts + alpha))
    for row, of_row in zip(*rows, strict=True):
        expected = [math.exp(slope_of_lgamma(x) - slope_of_lgamma(of_row.sum())) for x in of_row]
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("name", POSITIONS)
def test_neither_order_nor_blocks_change_anything_and_the_likelihood_never_falls(name, monkeypatch):
    """Not even if a position table has no room for the longest sentences."""
    pairs = textbook.random_pairs(80, seed=4, longest=11)
    results = []
    for order, cells in ((pairs, 1 << 17), (pairs, 40), (pairs[::-1], 40)):
        monkeypatch.setattr(f"{WORD_PAIRS}._BLOCK_CELLS", cells)
        words = index(textbook.corpus_of(order))
        estimate, history = textbook.fit(words, begin(words, POSITIONS[name]), 6)
        results.append((len(words.blocks), estimate.translation, history))
    assert results[1][0] > 2 * results[0][0]
    for _, translation, history in results:
        np.testing.assert_allclose(translation, results[0][1], atol=1e-12)
        assert history == pytest.approx(results[0][2])
        assert np.all(np.diff(history) >= -1e-9 * abs(history[0])) and history[-1] > history[0]


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("pairs", [[], [([], [])], [([5], [])], [([], [5, 6])]])
def test_corpora_of_next_to_nothing_are_no_error(name, pairs):
    sides = [textbook.side(s) for s in zip(*pairs, strict=True)] or [textbook.side([])] * 2
    for target_end in (True, False):
        words = index(EncodedCorpus(*sides), target_end=target_end)
        estimate, history = textbook.fit(words, begin(words, POSITIONS[name]), 2, alpha=0.1)
        assert estimate.translation.size == words.num_pairs
        assert np.all(np.isfinite(history))
