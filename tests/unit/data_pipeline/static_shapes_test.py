"""A few batch shapes for a corpus: complete, within the budget, with little padding."""

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import Batching, padding_share, plan_epoch
from nmt_zoo.data_pipeline.static_shapes import choose_shapes

BUDGET = 600


def sentence_lengths(count, seed=0, longest=80):
    """Draws lengths like those of real pairs: a long tail, and sides that differ by about 20%."""
    rng = np.random.default_rng(seed)
    source = rng.gamma(3.0, 8.0, count) + 2
    lengths = np.rint([source, source * rng.normal(1.05, 0.2, count)])
    return np.clip(lengths, 2, longest).astype(np.int32)


LENGTHS = [
    sentence_lengths(3000),
    sentence_lengths(200, seed=1),
    np.array([[7], [3]]),
    np.full((2, 50), 9),
    np.array([[2, 100], [100, 2]]),
]


@pytest.fixture(params=range(len(LENGTHS)))
def lengths(request):
    return LENGTHS[request.param]


def batches_of(plan):
    return np.split(plan.rows, np.cumsum(plan.batch_sizes)[:-1])


@pytest.mark.parametrize("max_shapes", [1, 5, 24])
def test_every_pair_fits_into_its_batch_and_is_in_the_epoch_once(lengths, max_shapes):
    shapes = choose_shapes(*lengths, BUDGET, max_shapes=max_shapes)
    assert 1 <= len(shapes) <= max_shapes
    plan = plan_epoch(*lengths, Batching(BUDGET, shapes=shapes), seed=1)
    assert sorted(plan.rows) == list(range(lengths.shape[1]))
    for numbers, shape in zip(batches_of(plan), plan.shapes, strict=True):
        assert shape.tolist() in shapes.tolist()
        assert 1 <= numbers.size <= shape[0]
        assert (lengths[:, numbers].max(axis=1) <= shape[1:]).all()


@pytest.mark.parametrize("max_sentences", [0, 4])
def test_shapes_take_all_the_rows_that_the_budget_allows(lengths, max_sentences):
    for rows, *tokens in choose_shapes(*lengths, BUDGET, max_sentences=max_sentences):
        most = BUDGET // max(tokens)
        assert rows == (min(most, max_sentences) if max_sentences else most)


def test_same_lengths_in_another_order_have_the_same_shapes(lengths):
    shapes = choose_shapes(*lengths, BUDGET)
    other = lengths[:, np.random.default_rng(0).permutation(lengths.shape[1])]
    np.testing.assert_array_equal(choose_shapes(*other, BUDGET), shapes)


def test_few_shapes_leave_little_padding_on_a_large_corpus():
    lengths = sentence_lengths(60_000)
    shares = {}
    for max_shapes in (1, 8, 24):
        shapes = choose_shapes(*lengths, 2048, max_shapes=max_shapes)
        plan = plan_epoch(*lengths, Batching(2048, shapes=shapes), seed=1)
        shares[max_shapes] = padding_share(plan, *lengths)
    assert shares[24] < 0.12 < shares[8] < 0.25 < shares[1]
    assert padding_share(plan_epoch(*lengths, Batching(2048), seed=1), *lengths) < 0.03


def test_two_sided_shapes_beat_a_ladder_of_equal_sides():
    lengths = sentence_lengths(10_000)
    found = choose_shapes(*lengths, 1024)
    longest = lengths.max(axis=0)
    ladder = np.unique(np.quantile(longest, np.arange(1, 25) / 24, method="higher"))
    ladder = np.stack([1024 // ladder, ladder, ladder], axis=1)
    shares = [
        padding_share(plan_epoch(*lengths, Batching(1024, shapes=shapes), seed=1), *lengths)
        for shapes in (found, ladder)
    ]
    assert shares[0] < 0.9 * shares[1]


def test_small_corpus_fills_its_batches_too():
    lengths = sentence_lengths(1000)
    shares = []
    for max_shapes in (1, 4, 24):
        shapes = choose_shapes(*lengths, 2048, max_shapes=max_shapes)
        plan = plan_epoch(*lengths, Batching(2048, shapes=shapes), seed=1)
        shares.append(padding_share(plan, *lengths))
        assert plan.batch_sizes.sum() > 0.9 * plan.shapes[:, 0].sum()
    assert shares == sorted(shares, reverse=True)


def test_pair_that_fits_into_no_shape_is_refused():
    shapes = np.array([[10, 5, 9], [10, 9, 5]])
    with pytest.raises(ValueError, match="none of the shapes"):
        plan_epoch([9], [9], Batching(90, shapes=shapes))
    with pytest.raises(ValueError, match="10 tokens, shapes take 9"):
        plan_epoch([10], [3], Batching(90, shapes=shapes))


@pytest.mark.parametrize("num_workers", [2, 3, 8])
def test_workers_have_equally_many_batches_of_equal_shapes(num_workers):
    for lengths in (LENGTHS[0], LENGTHS[1], LENGTHS[3]):
        shapes = choose_shapes(*lengths, BUDGET)
        plan = plan_epoch(
            *lengths, Batching(BUDGET, shapes=shapes, num_workers=num_workers), seed=1
        )
        first = plan.shapes[::num_workers]  # The shapes of the first worker, step by step.
        np.testing.assert_array_equal(plan.shapes, np.repeat(first, num_workers, axis=0))
        assert plan.batch_sizes.min() >= 1
        assert sorted(plan.rows) == list(range(lengths.shape[1]))


def test_too_few_pairs_for_the_workers_are_refused():
    lengths = LENGTHS[3][:, :5]
    shapes = choose_shapes(*lengths, BUDGET)
    with pytest.raises(UserError, match="8 workers"):
        plan_epoch(*lengths, Batching(BUDGET, shapes=shapes, num_workers=8), seed=1)
