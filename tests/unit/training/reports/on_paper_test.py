"""Tests of predictions on paper."""

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import EpochPlan
from nmt_zoo.training.reports import on_paper
from nmt_zoo.training.reports.accelerators import ACCELERATORS, Accelerator, parse
from nmt_zoo.training.reports.here import Here
from nmt_zoo.training.reports.work import Operation, Work

DEVICE = Accelerator({"float32": 100.0}, moved=10.0, memory=1000.0, link=5.0)
PRODUCT = Operation("MatMul", 2, 400, 10, 8, "float32", (1, 5, 5, 8), (False, True))
SUM = Operation("AddV2", 3, 5, 20, 8, "float32")


def test_operation_is_bound_by_what_takes_longer():
    assert DEVICE.seconds(PRODUCT) == (4.0, 0.0, 0.0)
    assert DEVICE.seconds(PRODUCT._replace(moved=50)) == (0.0, 5.0, 0.0)
    assert DEVICE.seconds(SUM) == (0.0, 0.0, 2.0)
    assert DEVICE.seconds(SUM._replace(kind="ResourceApplyAdam")) == (0.0, 2.0, 0.0)


def test_update_takes_its_operations_or_the_exchange():
    done = Work([(PRODUCT), (SUM)], 0)
    alone = on_paper.predict(done, DEVICE, 1, 100)
    assert alone == (8.0, 0.0, 6.0, 0.0) and alone.bound == "arithmetic"
    assert (alone.seconds(), alone.seconds(0.5), alone.seconds_apart()) == (8.0, 16.0, 14.0)
    four = on_paper.predict(done, DEVICE, 4, 100)
    assert four.exchange == 2 * 3 / 4 * 100 / 5 and four.bound == "exchange"
    assert four.seconds() == four.exchange


def test_mean_batch_has_the_mean_work():
    sizes = np.array([[4, 10, 6], [2, 20, 30]])
    plan = EpochPlan(np.arange(6), sizes[:, 0], sizes)
    rows, source, target = on_paper.mean_batch(plan, np.ones(6), np.ones(6))
    assert (rows, source, target) == (3, 15, 16)
    assert rows * source**2 == pytest.approx((sizes[:, 0] * sizes[:, 1] ** 2).mean(), rel=0.15)


@pytest.mark.parametrize(
    ("name", "found"),
    [("h100", ("h100", 1)), ("tpu_v5ex64", ("tpu_v5e", 64)), ("here", ("here", 1))],
)
def test_name_of_a_device(name, found):
    assert parse(name) == found


@pytest.mark.parametrize("name", ["", "h200", "h100x0", "h100x", "herex2", "x8", "H100"])
def test_name_of_no_device_is_refused(name):
    with pytest.raises(UserError, match=r"expected here, or one of p100, .* such as h100x8"):
        parse(name)


def test_sixteen_bits_are_never_slower():
    for device in ACCELERATORS.values():
        assert device.floats["float32"] == min(device.floats.values())


def test_this_processor_is_measured_once_for_each_size():
    here = Here()
    first = here.seconds(PRODUCT), here.seconds(SUM)
    assert first[0][0] > 0 == first[0][1] and first[1][1] > 0 == first[1][0]
    assert (here.seconds(PRODUCT), here.seconds(SUM)) == first
