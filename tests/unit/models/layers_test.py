"""Layers against NumPy transcriptions of their papers' equations, in float64."""

import doctest
import functools
import importlib
import pkgutil
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.models.layers.attention import (
    MaskedMultiHeadAttention,
    MultiHeadAttention,
    RelativeAttention,
    ScaledDotProductAttention,
)
from nmt_zoo.models.layers.basic import Dropout
from nmt_zoo.models.layers.embeddings import TokenEmbedding, rotate, sinusoidal_positions
from nmt_zoo.models.layers.transformer_layers import DecoderLayer, EncoderLayer, LayerNorm
from nmt_zoo.models.transformer_settings import layer_order

B, T, S, D, H, F = 2, 4, 5, 8, 2, 12
# Sentence 0 has no padding, sentence 1 has two positions of padding.
SOURCE_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
BLOCK = {
    "width": D,
    "num_heads": H,
    "ffn_width": F,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "ffn_dropout": 0.1,
    "positions": "sinusoidal",
    "max_distance": 16,
    "scale_scores": True,
    "ssru": False,
    "activation": "relu",
    "norm_epsilon": 1e-6,
}


# The papers' equations, transcribed. `w` maps weight paths to arrays.


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_equation(query, key, value, mask=True):
    """Equation 1 of Vaswani et al. 2017."""
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights = softmax(np.where(mask, scores, -np.inf))
    return weights @ value, weights


def dense(w, name, x):
    return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]


def relative_equation(w, query, key, value, mask):
    """Equations 3 and 4 of Shaw et al. 2018, one query after the other."""
    longest, outputs, weights = 2, [], []
    for t in range(query.shape[1]):
        clipped = np.clip(np.arange(key.shape[1]) - t, -longest, longest) + longest
        clipped = np.minimum(clipped, len(w["key_vectors"]) - 1)  # The last ones are masked.
        keys, values = key + w["key_vectors"][clipped], value + w["value_vectors"][clipped]
        row = mask if mask.shape[-2] == 1 else mask[..., t : t + 1, :]
        output, weight = attention_equation(query[:, t : t + 1], keys, values, row)
        outputs.append(output), weights.append(weight)
    return np.concatenate(outputs, 1), np.concatenate(weights, 1)


def rotation_equation(x, first=0):
    """Equation 13 of Su et al. 2021; units i and i + d/2 are the two parts of a complex number."""
    a, b = np.split(x, 2, axis=-1)
    positions, i = first + np.arange(x.shape[-2])[:, None], np.arange(a.shape[-1])
    z = (a + 1j * b) * np.exp(1j * positions * 10000.0 ** (-2 * i / x.shape[-1]))
    return np.concatenate([z.real, z.imag], axis=-1)


def rotary_equation(query, key, value, mask):
    return attention_equation(rotation_equation(query), rotation_equation(key), value, mask)


def multi_head_equation(w, query, memory, mask=True, attention_equation=attention_equation):
    """`Concat(head_1, ..., head_H) W^O`, section 3.2.2, one head after the other."""
    q, k, v = dense(w, "query", query), dense(w, "key", memory), dense(w, "value", memory)
    parts = [slice(h * D // H, (h + 1) * D // H) for h in range(H)]
    heads = [attention_equation(q[..., p], k[..., p], v[..., p], mask) for p in parts]
    output = dense(w, "output", np.concatenate([output for output, _ in heads], -1))
    return output, np.stack([weights for _, weights in heads], axis=1)


def feed_forward_equation(w, x):
    """Equation 2 of Vaswani et al. 2017."""
    return dense(w, "outer", np.maximum(0, dense(w, "inner", x)))


# Helpers


def random(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def single(x):
    return tf.constant(x, tf.float32)


def randomised(layer):
    """Builds a layer and gives every weight, including biases, random values."""
    layer.build(None)
    for index, weight in enumerate(layer.weights):
        weight.assign(random(*weight.shape, seed=index) * 0.5)
    return layer


def weights_of(layer):
    """Maps weight paths below the layer -> float64 arrays."""
    return {w.path.split("/", 1)[1]: w.numpy().astype(np.float64) for w in layer.weights}


def part(w, name):
    return {k.removeprefix(f"{name}/"): v for k, v in w.items() if k.startswith(f"{name}/")}


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def ids(array):
    return tf.constant(array, tf.int32)


def random_model(preset, scale=0.5, **settings):
    """Makes a model of 11 source and 12 target words with every weight random."""
    model = models.create(preset, 11, 12, **settings)
    for index, weight in enumerate(model.trainable_variables):
        weight.assign(random(*weight.shape, seed=index) * scale)
    return model


def logits_of(model, source_ids, target_ids):
    inputs = {"source_ids": ids(source_ids)}
    inputs["target_in_ids"] = models.shift_right(ids(target_ids), 2)
    return model(inputs).numpy()


def stepped(model, source_ids, target_in_ids):
    """Feeds the given tokens one by one to a model; returns each `StepOutput`."""
    length = target_in_ids.shape[1]
    context = model.encode(ids(source_ids))
    state = model.initial_state(context)
    outputs = []
    for step in range(length):
        tokens = ids(target_in_ids[:, step])
        outputs.append(model.decode_step(tokens, ids(step), state, context))
        state = outputs[-1].state
    return outputs


# Scaled dot-product attention


@pytest.mark.parametrize("leading", [(), (B, H)])
def test_attention_is_equation_1(leading):
    query, key = random(*leading, T, D), random(*leading, S, D)
    value = random(*leading, S, 3)
    mask = np.random.default_rng(0).random((T, S)) < 0.6
    mask[:, 0] = True
    output, weights = ScaledDotProductAttention()(
        single(query), single(key), single(value), tf.constant(mask)
    )
    expected_output, expected_weights = attention_equation(query, key, value, mask)
    close(output, expected_output)
    close(weights, expected_weights)
    # Without scaling, a query counts as if it were sqrt(d) times as long.
    _, weights = ScaledDotProductAttention(scaled=False)(
        single(query), single(key), single(value), tf.constant(mask)
    )
    close(weights, attention_equation(query * np.sqrt(query.shape[-1]), key, value, mask)[1])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_hidden_keys_get_no_weight_and_visible_ones_all_of_it(dtype):
    layer = ScaledDotProductAttention(dtype=dtype)
    key = single(-np.abs(random(B, S, D)) * 10)  # All scores are far below 0.
    output, weights = layer(-key[:, :T], key, key, tf.constant(SOURCE_MASK[:, None]))
    assert weights.dtype == tf.float32
    assert output.dtype == layer.compute_dtype
    assert not weights.numpy()[1, :, 3:].any()
    close(tf.reduce_sum(weights, -1), np.ones((B, T)))
    with tf.GradientTape() as tape:  # A query without visible keys attends equally.
        tape.watch(key)
        output, weights = layer(-key[:, :T], key, key, tf.zeros((1, 1, S), tf.bool))
    close(weights, np.full((B, T, S), 1 / S))
    assert np.isfinite(tape.gradient(output, key).numpy()).all()
    output, weights = layer(key[:, :T], key[:, :1], key[:, :1])  # A single key gives no warning.
    close(weights, np.ones((B, T, 1)))
    close(output, np.repeat(tf.cast(key[:, :1], layer.compute_dtype), T, axis=1))


# Multi-head attention


@pytest.mark.parametrize("kind", [MultiHeadAttention, MaskedMultiHeadAttention])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_multi_head_attention_is_its_equation_with_the_positions_of_each_paper(kind, positions):
    layer = randomised(kind(D, H, positions=positions, max_distance=2))
    x, w = random(B, S, D), weights_of(layer)
    past = np.tri(S, dtype=bool)[None]
    mask = past if kind is MaskedMultiHeadAttention else SOURCE_MASK[:, None]
    inputs = (single(x),) if mask is past else (single(x), single(x), tf.constant(mask[:, None]))
    equation = rotary_equation if positions == "rotary" else attention_equation
    if positions == "relative":
        equation = functools.partial(relative_equation, part(w, "attention"))
        assert w["attention/key_vectors"].shape == (3 if mask is past else 5, D // H)
    expected = multi_head_equation(w, x, x, mask, equation)
    for found, wanted in zip(layer(*inputs), expected, strict=True):
        close(found, wanted)


def test_rotation_is_its_equation_and_products_depend_on_distances_only():
    query, key = random(B, T, 10), random(B, S, 10, seed=1)
    close(rotate(single(query), 7), rotation_equation(query, 7))
    here, there = (
        tf.matmul(rotate(single(query), first), rotate(single(key), first + 2), transpose_b=True)
        for first in (0, 300)
    )
    close(here, there, 1e-4)


# Embeddings and positions


def test_sinusoids_are_those_of_section_3_5():
    positions, width = np.array([0, 1, 2, 50, 300]), 10
    expected = np.empty((len(positions), width))
    for i in range(width // 2):
        angle = positions / 10000 ** (2 * i / width)
        expected[:, 2 * i], expected[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    close(sinusoidal_positions(tf.constant(positions, tf.int32), width), expected, 1e-4)


# Blocks


@pytest.mark.parametrize("shape", [(3, D), (B, T, D), (1, 1, D)])
def test_layer_norm_and_its_gradients_are_those_of_keras(shape):
    ours, keras_norm = LayerNorm(BLOCK), keras.layers.LayerNormalization(epsilon=1e-6)
    x, weight = (single(random(*shape, seed=i)) for i in (0, 1))
    results = []
    for layer in (ours, keras_norm):
        layer.build(shape)
        layer.gamma.assign(1 + random(D, seed=2))
        layer.beta.assign(random(D, seed=3))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(weight * y)
        results.append([y, *tape.gradient(loss, [x, layer.gamma.value, layer.beta.value])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("none", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("sequence", [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        ("cycle", [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        ("cycle_reversed", [0, 1, 2, 0, 1, 2, 2, 1, 0]),
    ],
)
def test_shared_layers_are_ordered_as_in_figure_2_of_takase_and_kiyono(order, expected):
    assert layer_order(9, 3, order) == expected
    for count in (1, 2, 3):  # Not more layers than sets of weights: nothing is shared.
        assert layer_order(count, 3, order) == list(range(count))


# Dropout

# setting: sub-layers inside which it acts; "dropout" acts on the output of each sub-layer.
DROPOUTS = {
    "dropout": ("self_attention", "cross_attention", "feed_forward"),
    "attention_dropout": ("self_attention", "cross_attention"),
    "ffn_dropout": ("feed_forward",),
}


@pytest.mark.parametrize("setting", DROPOUTS)
@pytest.mark.parametrize(
    ("kind", "sublayer"),
    [
        (EncoderLayer, "self_attention"),
        *((DecoderLayer, name) for name in ("self_attention", "cross_attention", "feed_forward")),
    ],
)
def test_each_dropout_alone_acts_on_its_sub_layers(kind, sublayer, setting):
    """The other sub-layers add nothing, so that a change can come only from this sub-layer."""
    rates = {name: 0.5 if name == setting else 0.0 for name in DROPOUTS}
    layer = randomised(kind({**BLOCK, **rates, "norm": "pre"}))
    for weight in layer.weights:
        if sublayer not in weight.path and re.search("/(output|outer)/", weight.path):
            weight.assign(tf.zeros_like(weight))
    x = random(8, T, D)
    memory = () if kind is EncoderLayer else (single(random(8, S, D)),)
    mask = tf.ones((8, 1, 1, T) if kind is EncoderLayer else (8, S), tf.bool)
    (added, weights, *_), (trained, trained_weights, *_) = (
        layer(single(x), *memory, mask, training=training) for training in (False, True)
    )
    close(trained_weights, weights)  # Those of self-attention, before dropout.
    added, trained = (y.numpy() - np.float32(x) for y in (added, trained))
    if sublayer not in DROPOUTS[setting]:
        close(trained, added)
    elif setting == "dropout":  # Applied before the addition; Vaswani et al. 2017, section 5.4.
        dropped = trained == 0
        assert 0.35 < dropped.mean() < 0.65
        close(trained[~dropped], 2 * added[~dropped])
    else:
        assert np.abs(trained - added).mean() > 0.1


@pytest.mark.parametrize(("rate", "dtype"), [(0.1, "float32"), (0.3, "bfloat16")])
def test_dropout_drops_its_share_and_scales_the_rest(rate, dtype):
    layer = Dropout(rate, dtype=dtype, seed=1)
    x = tf.ones((3, 101, 301), dtype)  # An odd number of units.
    np.testing.assert_array_equal(layer(x, training=False), x)
    first, second = (tf.cast(layer(x, training=True), tf.float32).numpy() for _ in range(2))
    kept = tf.cast(tf.cast(1 / (1 - rate), dtype), tf.float32)
    np.testing.assert_allclose(np.unique(first), [0, kept], rtol=1e-5)
    dropped = first == 0
    error = 4 * (rate * (1 - rate) / x.shape.num_elements()) ** 0.5
    assert abs(dropped.mean() - rate) < error
    # Both halves of a random number, and two calls, are independent.
    for pair in (dropped.ravel()[:-1].reshape(-1, 2), np.stack([dropped, second == 0], -1)):
        assert abs((pair[..., 0] & pair[..., 1]).mean() - rate**2) < 2 * error


def test_dropout_goes_on_from_the_state_of_its_generator():
    layer, x = Dropout(0.5), tf.ones((4, 8))
    traced = tf.function(
        lambda x: layer(x, training=True),
        input_signature=[tf.TensorSpec([None, None])],
        autograph=False,
    )
    (state,) = (variable.numpy() for variable in layer.variables)
    first, second = traced(x).numpy(), traced(x).numpy()
    assert (first != second).any()
    layer.variables[0].assign(state)
    np.testing.assert_array_equal(layer(x, training=True), first)


@pytest.mark.parametrize(
    "layer",
    [
        ScaledDotProductAttention(0.2, name="a"),
        MultiHeadAttention(D, H, 0.3, name="b", dtype="mixed_bfloat16"),
        MaskedMultiHeadAttention(D, H, 0.3, "relative", 5, name="c"),
        RelativeAttention(4, 3, sees_future=False, dropout=0.2, name="e"),
        TokenEmbedding(7, D, name="d"),
        Dropout(0.2, name="f"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_registered_layers_are_found_again_by_keras(layer):
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is type(layer)
    assert copy.get_config() == layer.get_config()
    assert copy.dtype_policy.name == layer.dtype_policy.name


MODULES = [m.name for m in pkgutil.walk_packages(models.__path__, "nmt_zoo.models.")]


@pytest.mark.parametrize("module", ["nmt_zoo.models", *MODULES])
def test_docstring_examples_do_what_they_say(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0
