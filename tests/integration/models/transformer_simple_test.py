"""The simple Transformer against its equations; the laws of all models are in contract_test.py."""

import numpy as np

from nmt_zoo import models
from tests.unit.models.layers_test import (
    close,
    feed_forward_equation,
    ids,
    logits_of,
    part,
    random_model,
    softmax,
    stepped,
    weights_of,
)

BOS = 2
TINY = {"width": 6, "ffn_width": 5, "dropout": 0.0, "max_length": 8}
SOURCE = np.array([[5, 9, 4, 3]], np.int32)
TARGET = np.array([[6, 8, 4, 7, 3]], np.int32)


def create(**settings):
    return random_model("transformer_simple", **{**TINY, **settings})


def attention_equation(w, queries, memory):
    """`sum_j softmax_j(K q) V_j` with `q = W_Q y`, `K_j = W_K x_j`, `V_j = W_V x_j`."""
    q, k = queries @ w["query/kernel"], memory @ w["memory/kernel"]
    return softmax(q @ k.T) @ (memory @ w["value/kernel"])


def model_equation(w, source_ids, target_in_ids):
    """Computes logits `[T, V]` of one sentence, one target position after the other."""
    words, places = w["source_embedding/embeddings"], w["source_positions/embeddings"]
    h = words[source_ids] + places[: len(source_ids)]
    for i in range(2):
        layer = part(w, f"encoder_{i}")
        h = attention_equation(part(layer, "self_attention"), h, h)
        h = feed_forward_equation(part(layer, "feed_forward"), h) + h
    words, places = w["target_embedding/embeddings"], w["target_positions/embeddings"]
    u = words[target_in_ids] + places[: len(target_in_ids)]
    for i in range(2):
        layer = part(w, f"decoder_{i}")
        g = np.stack(
            [
                attention_equation(part(layer, "self_attention"), u[t], u[: t + 1])
                for t in range(len(u))
            ]
        )
        u = feed_forward_equation(part(layer, "feed_forward"), g) + g
    o = attention_equation(part(w, "cross_attention"), u, h) + u
    return o @ w["output/kernel"] + w["output/bias"]


def test_logits_are_those_of_the_equations():
    model = create()
    target_in_ids = models.shift_right(ids(TARGET), BOS).numpy()
    expected = model_equation(weights_of(model), SOURCE[0], target_in_ids[0])
    close(logits_of(model, SOURCE, TARGET)[0], expected, 1e-4)


def test_positions_beyond_the_last_share_its_vector():
    model = create(max_length=3)
    longest = create(max_length=8)
    for short, long in zip(model.weights, longest.weights, strict=True):
        values = short.numpy()
        if "positions" in short.path:
            values = np.concatenate([values, values[-1:].repeat(5, axis=0)])
        long.assign(values)
    close(logits_of(model, SOURCE, TARGET), logits_of(longest, SOURCE, TARGET))
    output = stepped(model, SOURCE, models.shift_right(ids(TARGET), BOS))[-1]
    close(output.logits, logits_of(model, SOURCE, TARGET)[:, -1])


def test_fresh_query_and_key_matrices_are_equal_in_a_layer_and_differ_between_layers():
    model = models.create("transformer_simple", 11, 12, **{**TINY, "width": 64})
    w = weights_of(model)
    layers = [f"{side}_{i}/self_attention" for side in ("encoder", "decoder") for i in range(2)]
    queries, keys = (
        np.stack([w[f"{layer}/{name}/kernel"] for layer in layers]) for name in ("query", "memory")
    )
    np.testing.assert_array_equal(queries, keys)
    assert len(np.unique(queries[:, 0, 0])) == len(layers)
    close(queries.std(axis=(1, 2)) * 64, np.ones(len(layers)), 0.1)
