"""The learning rate over time."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.training.ways.gradient.adam import (
    SCHEDULES,
    Constant,
    Cosine,
    InverseSquareRoot,
    Linear,
    Plateau,
)

WARMUP = 40


# Schedules that decay to 0 at a last step; all others need only a peak and a warm-up.
FALLING = (Linear, Cosine)
EVERY = [
    *(schedule for schedule in SCHEDULES.values() if schedule not in FALLING),
    *(functools.partial(schedule, decay_steps=WARMUP) for schedule in FALLING),
]


def rates(schedule, steps):
    """Returns the rates of updates 1, 2, ...; a schedule is called with the updates before."""
    return np.array([float(schedule(step)) for step in range(steps)])


def test_papers_peak_gives_the_papers_equation_3():
    width, warmup_steps = 512, 4000
    schedule = InverseSquareRoot((width * warmup_steps) ** -0.5, warmup_steps)
    for step in (1, 2, 10, 3999, 4000, 4001, 16_000, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
        assert np.isclose(float(schedule(step - 1)), paper)
    # The optimizer takes the rate of the update that it makes.
    optimizer, weight, values = keras.optimizers.SGD(schedule), keras.Variable([0.0]), [0.0]
    for _ in range(6):
        optimizer.apply([tf.ones(1)], [weight])
        values.append(weight.numpy().item())
    np.testing.assert_allclose(-np.diff(values), rates(schedule, 6), rtol=1e-4)


def test_constant_rate_stays_at_the_peak_after_the_same_warm_up_and_traces():
    schedule = InverseSquareRoot(3e-3, WARMUP)
    values, warming = rates(Constant(3e-3, WARMUP), 3 * WARMUP), rates(schedule, WARMUP)
    np.testing.assert_allclose(values[:WARMUP], warming, rtol=1e-6)
    np.testing.assert_allclose(values[WARMUP:], 3e-3, rtol=1e-6)
    for each in EVERY:  # A warm-up of one step begins at the peak.
        assert np.isclose(rates(each(0.5, 1), 1)[0], 0.5)
    traced = tf.function(schedule, input_signature=[tf.TensorSpec([], tf.int64)])
    value = traced(tf.constant(7, tf.int64))
    assert value.dtype == tf.float32 and np.isclose(float(value), float(schedule(7)))


@pytest.mark.parametrize("schedule", FALLING)
def test_a_falling_rate_has_its_peak_behind_the_warm_up_and_ends_at_zero(schedule):
    last = 5 * WARMUP
    values = rates(schedule(3e-3, WARMUP, last), last + 10)
    np.testing.assert_allclose(values[:WARMUP], rates(Constant(3e-3, WARMUP), WARMUP), rtol=1e-6)
    assert np.all(np.diff(values[WARMUP - 1 : last]) < 0)
    assert values[last - 1] > 0 and not values[last:].any()
    middle = values[(WARMUP + last + 1) // 2 - 1]
    assert middle == pytest.approx(1.5e-3, rel=0.02)


def test_linear_falls_by_equal_amounts_and_cosine_slowly_at_both_ends():
    linear, cosine = (rates(schedule(1.0, 1, 100), 100) for schedule in FALLING)
    np.testing.assert_allclose(np.diff(linear), -0.01, atol=1e-5)
    assert np.all(cosine[1:50] > linear[1:50]) and np.all(cosine[52:] < linear[52:])


def test_a_plateau_lowers_the_rate_each_time_its_patience_ends():
    schedule = Plateau(1.0, 1, patience=2, factor=0.5)
    values = []
    for evaluations_since_best in (0, 1, 2, 3, 4, 0, 1, 2):
        schedule.after_validation(evaluations_since_best)
        values.append(float(schedule(100)))
    assert values == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
