"""Batches under a budget of tokens: complete, within it, well mixed and repeatable."""

import itertools

import numpy as np
import pytest

from data_pipeline.batching import EpochPlan, padding_share, plan_epoch

BUDGET = 59  # One more has many divisors: batches that just do not fit.


@pytest.fixture(params=[(0, 500, 20), (1, 300, BUDGET), (2, 1, 5), (3, 200, 1)])
def lengths(request):
    """Lengths of both sides: many, up to the budget itself, a single pair, all equal."""
    seed, count, longest = request.param
    return np.random.default_rng(seed).integers(1, longest + 1, (2, count)).astype(np.int32)


@pytest.fixture
def many():
    return np.random.default_rng(9).integers(1, 31, (2, 1000))


def batches_of(plan):
    return np.split(plan.rows, np.cumsum(plan.batch_sizes)[:-1])


def same(one, other):
    return all(map(np.array_equal, one, other))


@pytest.mark.parametrize("seed", [None, 0, 5])
@pytest.mark.parametrize("epoch", [0, 3])
def test_every_pair_is_in_an_epoch_once(lengths, seed, epoch):
    plan = plan_epoch(*lengths, BUDGET, seed=seed, epoch=epoch)
    assert sorted(plan.rows) == list(range(lengths.shape[1]))
    assert plan.batch_sizes.sum() == lengths.shape[1]
    assert plan.batch_sizes.min() >= 1


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_rows_times_longest_side_never_exceed_the_budget(lengths, seed):
    for rows in batches_of(plan_epoch(*lengths, BUDGET, seed=seed)):
        assert rows.size * lengths[:, rows].max() <= BUDGET


def test_batch_takes_all_pairs_that_fit(lengths):
    batches = batches_of(plan_epoch(*lengths, BUDGET))
    for rows, following in itertools.pairwise(batches):
        one_more = [*rows, following[0]]
        assert len(one_more) * lengths[:, one_more].max() > BUDGET


@pytest.mark.parametrize("seed", [None, 1])
def test_batch_has_no_more_sentences_than_allowed_and_as_many_where_tokens_allow(many, seed):
    def sizes(**limit):
        return plan_epoch(*many, 100, seed=seed, **limit).batch_sizes

    assert sizes().max() > 7
    assert sizes(max_sentences=7).max() == 7
    assert sizes(max_sentences=7).sum() == many.shape[1]
    np.testing.assert_array_equal(sizes(max_sentences=10_000), sizes())
    # A budget that never binds: batches of 7, and one that is left over.
    free = plan_epoch(*many, 30 * 7, max_sentences=7, seed=seed).batch_sizes
    assert sorted(free)[0] == many.shape[1] % 7 and sorted(free)[1] == 7


def test_seed_and_epoch_fix_all_batches(many):
    assert same(
        plan_epoch(*many, BUDGET, seed=3, epoch=2), plan_epoch(*many, BUDGET, seed=3, epoch=2)
    )


@pytest.mark.parametrize("other", [{"seed": 3, "epoch": 1}, {"seed": 4, "epoch": 0}])
def test_other_seed_or_epoch_orders_and_groups_otherwise(many, other):
    many = many // 10 + 1  # Many pairs of equal lengths, which can change places.
    one, two = plan_epoch(*many, BUDGET, seed=3, epoch=0), plan_epoch(*many, BUDGET, **other)
    assert not np.array_equal(one.rows, two.rows)
    groups, other_groups = ({frozenset(rows) for rows in batches_of(p)} for p in (one, two))
    assert len(groups & other_groups) < len(groups) / 10


def test_epoch_and_seed_do_not_stand_for_each_other(many):
    assert not same(
        plan_epoch(*many, BUDGET, seed=3, epoch=4), plan_epoch(*many, BUDGET, seed=4, epoch=3)
    )


def test_batches_come_by_length_without_a_seed(many):
    longest = [many[:, rows].max() for rows in batches_of(plan_epoch(*many, BUDGET))]
    assert longest == sorted(longest)


def test_batches_come_in_random_order_of_length_with_a_seed(many):
    longest = [many[:, rows].max() for rows in batches_of(plan_epoch(*many, BUDGET, seed=1))]
    # Independent of time: neighbours rise about as often as they fall, the halves are alike.
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3
    steps = np.sign(np.diff(longest))
    assert (steps > 0).sum() > len(steps) / 4
    assert (steps < 0).sum() > len(steps) / 4


def test_batches_hold_neighbours_in_length(many):
    plan = plan_epoch(*many, 600, seed=1)
    unsorted = EpochPlan(np.arange(many.shape[1]), plan.batch_sizes)
    assert padding_share(plan, *many) < padding_share(unsorted, *many) / 2


def test_pairs_of_equal_longest_side_are_grouped_by_the_other():
    source, target = np.full(400, 20), np.random.default_rng(0).permutation(np.arange(400) % 20 + 1)
    plan = plan_epoch(source, target, 20 * 20, seed=1)
    assert padding_share(plan, source, target) == 0


@pytest.mark.parametrize("side", [0, 1])
def test_sentence_longer_than_the_budget_is_refused(side):
    lengths = [[3, 4], [3, 4]]
    lengths[side][1] = BUDGET + 1
    with pytest.raises(ValueError, match=rf"{BUDGET + 1} tokens.*{BUDGET}"):
        plan_epoch(*lengths, BUDGET)
    lengths[side][1] = BUDGET
    assert plan_epoch(*lengths, BUDGET).rows.size == 2


@pytest.mark.parametrize("seed", [None, 0])
def test_nothing_makes_no_batches(seed):
    plan = plan_epoch([], [], BUDGET, seed=seed)
    assert plan.rows.size == 0 and plan.batch_sizes.size == 0
    assert plan.batches(0)[0].size == 0
    assert padding_share(plan, [], []) == 0


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_from_a_number_on_are_the_tail(many, seed):
    plan = plan_epoch(*many, BUDGET, seed=seed)
    whole = batches_of(plan)
    for first in (0, 1, 7, len(whole) - 1):
        tail = batches_of(EpochPlan(*plan.batches(first)))
        assert len(tail) == len(whole) - first
        assert same(tail, whole[first:])
    rows, sizes = plan.batches(len(whole))
    assert rows.size == 0 and sizes.size == 0


@pytest.mark.parametrize("seed", [None, 0])
def test_padding_share_is_what_counting_cells_gives(lengths, seed):
    plan = plan_epoch(*lengths, BUDGET, seed=seed)
    cells = padding = 0
    for rows in batches_of(plan):
        for side in lengths:
            width = max(side[row] for row in rows)
            for row in rows:
                cells += width
                padding += width - side[row]
    assert padding_share(plan, *lengths) == pytest.approx(padding / cells, abs=1e-12)


def test_types_of_a_plan_hold_large_corpora(lengths):
    plan = plan_epoch(*lengths, BUDGET, seed=0)
    assert plan.rows.dtype == plan.batch_sizes.dtype == np.int64
