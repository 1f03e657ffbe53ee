"""Recurrent cells, layers and score functions against NumPy transcriptions of their equations."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.models.layers.attention_scores import SCORES, SourceAttention
from nmt_zoo.models.layers.recurrent import (
    CELLS,
    BidirectionalLayer,
)
from tests.unit.models.layers_test import (
    close,
    part,
    random,
    randomised,
    single,
    softmax,
    weights_of,
)

B, T, S, E, U, F = 2, 3, 5, 3, 4, 2
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)


# The papers' equations, one vector at a time. `w` maps weight names to arrays.


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gates_of(w, names, x, h, fed):
    """Maps gate -> (pre-activation from the inputs, pre-activation from the state)."""
    known = x @ w["kernel"] + w["bias"] + (fed @ w["fed_kernel"] if fed is not None else 0)
    pairs = zip(
        np.split(known, len(names), -1),
        np.split(h @ w["recurrent_kernel"], len(names), -1),
        strict=True,
    )
    return dict(zip(names, pairs, strict=True))


def rnn_equation(w, x, state, fed=None):
    """Elman 1990."""
    return [np.tanh(sum(gates_of(w, "h", x, state[0], fed)["h"]))]


def relu_equation(w, x, state, fed=None):
    """h = ReLU(W_h h' + W_e e + b)."""
    return [np.maximum(sum(gates_of(w, "h", x, state[0], fed)["h"]), 0)]


def gru_equation(w, x, state, fed=None):
    """Cho et al. 2014 with the reset gate applied after the product."""
    gates = gates_of(w, "rzn", x, state[0], fed)
    r, z = sigmoid(sum(gates["r"])), sigmoid(sum(gates["z"]))
    n = np.tanh(gates["n"][0] + r * (gates["n"][1] + w["recurrent_bias"]))
    return [(1 - z) * n + z * state[0]]


def lstm_equation(w, x, state, fed=None):
    """Gers et al. 2000."""
    gates = {k: sum(v) for k, v in gates_of(w, "ifog", x, state[0], fed).items()}
    c = sigmoid(gates["f"]) * state[1] + sigmoid(gates["i"]) * np.tanh(gates["g"])
    return [sigmoid(gates["o"]) * np.tanh(c), c]


EQUATIONS = {"rnn": rnn_equation, "relu": relu_equation, "gru": gru_equation, "lstm": lstm_equation}


def sequence_equation(cell, w, x, reverse=False):
    """Returns the states after each token of one sentence `[T, E]`, in the order of the tokens."""
    state = [np.zeros(U)] * CELLS[cell].num_states
    states = []
    for token in reversed(x) if reverse else x:
        state = EQUATIONS[cell](w, token, state)
        states.append(state)
    return states[::-1] if reverse else states, state


def score_equation(score, w, h, m):
    """Returns the score of a query and a vector of the memory, a number."""
    if score == "dot":
        return h @ m
    if score == "multiplicative":
        return h @ (m @ w["memory/kernel"])
    query, memory = h @ w["query/kernel"], m @ w["memory/kernel"]
    if score == "reduced_rank":
        return query @ memory
    return np.tanh(query + memory) @ w["vector/kernel"][:, 0]


# Cells


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("fed_width", [0, F])
def test_cell_is_its_equations(cell, fed_width):
    layer = randomised(CELLS[cell](E, U, fed_width))
    state = [random(B, U, seed=i) for i in range(layer.num_states)]
    x, fed = random(B, E), random(B, fed_width, seed=5) if fed_width else None
    expected = EQUATIONS[cell](weights_of(layer), x, state, fed)
    actual = layer.step(
        layer.project(single(x)),
        [single(leaf) for leaf in state],
        None if fed is None else single(fed),
    )
    for a, e in zip(actual, expected, strict=True):
        close(a, e)


@pytest.mark.parametrize("cell", CELLS)
def test_fresh_gates_are_orthogonal_and_glorot_each_by_itself(cell):
    layer = CELLS[cell](30, 20)
    layer.build()
    w = weights_of(layer)
    for gate in np.split(w["recurrent_kernel"], layer.num_gates, axis=1):
        close(gate @ gate.T, np.eye(20))
    for gate in np.split(w["kernel"], layer.num_gates, axis=1):
        limit = np.sqrt(6 / (30 + 20))
        assert 0.9 * limit < np.abs(gate).max() <= limit
    assert len(np.unique(w["kernel"])) > 0.99 * w["kernel"].size


# Layers


@pytest.mark.parametrize("cell", CELLS)
def test_two_directions_stand_side_by_side_and_no_padding_changes_them(cell):
    layer = randomised(BidirectionalLayer(cell, E, U))
    x = random(B, S, E)
    outputs, last = layer(single(x), step_mask=tf.constant(MASK))
    for row, length in enumerate(MASK.sum(1)):
        (forward, forward_last), (backward, backward_last) = (
            sequence_equation(cell, part(weights_of(layer), f"{name}/cell"), x[row, :length], turn)
            for name, turn in (("forward", False), ("backward", True))
        )
        close(
            outputs[row, :length],
            [np.concatenate([f[0], b[0]]) for f, b in zip(forward, backward, strict=True)],
        )
        for leaf, *both in zip(last, forward_last, backward_last, strict=True):
            close(leaf[row], np.concatenate(both))
    other = np.concatenate([np.where(MASK[..., None], x, 7.0), np.full((B, 2, E), -9.0)], 1)
    padded, padded_last = layer(
        single(other), step_mask=tf.constant(np.pad(MASK, ((0, 0), (0, 2))))
    )
    close(padded[:, :S].numpy()[MASK], outputs.numpy()[MASK], 1e-6)
    for a, e in zip(padded_last, last, strict=True):
        close(a, e, 1e-6)


# Scores


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("value_width", [0, 7])
def test_attention_is_the_softmax_of_its_score_and_the_mean_under_it(score, value_width):
    memory_width = U if score == "dot" else 6
    layer = randomised(SourceAttention(score, U, memory_width, 2, value_width))
    w = weights_of(layer)
    query, memory = random(B, T, U), random(B, S, memory_width)
    keys, values = layer.project_memory(single(memory))
    mean, weights = layer(single(query), keys, values, tf.constant(MASK[:, None]))
    scores = np.array(
        [
            [[score_equation(score, w, h, m) for m in ms] for h in hs]
            for hs, ms in zip(query, memory, strict=True)
        ]
    )
    expected = softmax(np.where(MASK[:, None], scores, -np.inf))
    close(weights, expected)
    close(mean, expected @ (memory @ w["value/kernel"] if value_width else memory))
    assert not weights.numpy()[1, :, 3:].any()


def test_scores_of_reduced_rank_start_small_by_both_matrices():
    layer = SourceAttention("reduced_rank", 256, 256)
    layer.build()
    keys, _ = layer.project_memory(random(1, 40, 256, seed=1))
    close(np.std(layer.scores(random(1, 40, 256, seed=2), keys)), 1, 0.2)
    query, memory = layer.query.kernel.numpy(), layer.memory.kernel.numpy()
    close(np.std(query), np.std(memory), 0.01)
    assert abs(np.corrcoef(query.ravel(), memory.ravel())[0, 1]) < 0.1


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="query_width=4, memory_width=6"):
        SourceAttention("dot", 4, 6)
    with pytest.raises(ValueError, match=r"dot, multiplicative, reduced_rank, additive.*'cosine'"):
        SourceAttention("cosine", 4, 4)
