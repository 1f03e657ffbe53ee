"""Tests of the count of an update's work."""

import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.training.reports import work
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import GradientUpdate
from tests.tiny import small_settings

WIDTH, INNER, VOCABULARY = 32, 64, 50


def update_of(preset, **settings):
    model = models.create(preset, VOCABULARY, VOCABULARY, **settings)
    return GradientUpdate(model, adam(learning_rate=1e-3, warmup_steps=4))


@pytest.fixture(scope="module")
def transformer():
    sizes = {"width": WIDTH, "ffn_width": INNER, "num_heads": 2, "dropout": 0.1}
    return update_of(
        "transformer_base", num_encoder_layers=2, num_decoder_layers=1, positions="rotary", **sizes
    )


def graph_of(function, *shapes):
    signature = [tf.TensorSpec(shape) for shape in shapes]
    return tf.function(function, input_signature=signature).get_concrete_function().graph


def test_products_of_a_transformer_are_those_of_the_closed_formula(transformer):
    rows, source, target = 4, 9, 7
    attention, inner = 4 * WIDTH**2, 2 * WIDTH * INNER
    of_source = 2 * (attention + inner) + attention / 2  # Keys and values for the decoder.
    of_target = attention + attention / 2 + inner + VOCABULARY * WIDTH
    weights = 6 * rows * (source * of_source + target * of_target)
    pairs = 2 * source**2 + target**2 + target * source
    expected = weights + 12 * rows * WIDTH * pairs
    found = work.of_update(transformer, rows, source, target)
    assert found.floats_of_products == pytest.approx(expected, rel=0.01)
    assert found.floats > found.floats_of_products


def test_twice_the_rows_are_twice_the_work(transformer):
    one, two = (work.of_update(transformer, rows, 8, 8) for rows in (8, 16))
    assert two.floats_of_products == pytest.approx(2 * one.floats_of_products, rel=0.01)
    kept = 4 * transformer.model.count_params()  # Adam and the gradients need as much for any rows.
    assert one.moved + kept < two.moved < 2 * one.moved
    assert one.most_alive < two.most_alive < 2 * one.most_alive + kept


def test_loop_counts_as_often_as_it_runs():
    update = update_of("lstm_luong", **small_settings("lstm_luong"))
    short, long = (work.of_update(update, 4, length, length) for length in (5, 10))
    assert long.floats_of_products > 1.9 * short.floats_of_products


def test_loop_without_a_limit_is_refused():
    graph = graph_of(lambda x: tf.while_loop(lambda y: y[0] < 9, lambda y: y + 1, [x])[0], [3])
    with pytest.raises(UserError, match="only running the model tells how often its loop"):
        work.of_graph(graph)


@pytest.mark.parametrize(
    ("function", "shapes", "product"),
    [
        (lambda a, b: tf.matmul(a, b, transpose_a=True), ([3, 2], [3, 5]), (1, 2, 3, 5)),
        (lambda a, b: tf.matmul(a, b, transpose_b=True), ([7, 2, 3], [7, 5, 3]), (7, 2, 3, 5)),
        (tf.matmul, ([7, 2, 3], [3, 5]), (1, 14, 3, 5)),
        (lambda a, b: tf.einsum("bhtd,tsd->bhts", a, b), ([2, 3, 4, 6], [4, 5, 6]), (4, 6, 6, 5)),
        (lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"), ([2, 1, 9, 4], [1, 3, 4, 5]), (1, 18, 12, 5)),
    ],
)
def test_sizes_of_a_product(function, shapes, product):
    found = work.of_graph(graph_of(function, *shapes))
    assert product in [each.product for each in found.operations]


def test_results_that_are_needed_at_the_same_time_are_added():
    def chain(x):
        y = tf.reshape(x * 2.0, [10])  # Moves nothing.
        return tf.exp(y) + tf.sin(y)

    assert work.of_graph(graph_of(chain, [2, 5])).most_alive == 3 * 40
