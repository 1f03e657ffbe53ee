"""From alignment to attention; the laws of all models are in contract_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.models.word_attention import HIDDEN_SCORE, _log_mixture
from tests.unit.models.layers_test import close, ids, logits_of, random_model, softmax, weights_of

PAD, EOS = 0, 3
SOURCE = np.array([[5, 9, 4, 10, 3], [8, 6, 3, 0, 0], [3, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[6, 8, 4, 3], [7, 3, 0, 0], [6, 7, 7, 3]], np.int32)
AVERAGES = ("probabilities", "embeddings")
# Models 1 (no positions) and 2, each with the average outside the softmax and inside.
BOTH = [(average, max_positions) for average in AVERAGES for max_positions in (0, 3)]


def create(average="embeddings", max_positions=0, **settings):
    """A tiny model with every weight random."""
    sizes = {"width": 4, "average": average, "max_positions": max_positions, **settings}
    return random_model("attention_ibm1", 1, **sizes)


# The equations


def prior_equation(w, i, n):
    """`a(j | i)` over n source positions: uniform, or the softmax of `K_j . Q_i`."""
    if "target_positions/embeddings" not in w:
        return np.full(n, 1 / n)
    q, k = w["target_positions/embeddings"], w["source_positions/embeddings"]
    last = len(q) - 1
    return softmax(np.array([k[min(j, last)] @ q[min(i, last)] for j in range(n)]))


def distribution_equation(w, average, source, i):
    """Computes probabilities of target word i, `[V]`, one source word after the other."""
    a = prior_equation(w, i, len(source))
    u, v = w["output/kernel"].T, w["source_embedding/embeddings"]
    if average == "probabilities":
        return sum(a[j] * softmax(u @ v[source[j]]) for j in range(len(source)))
    return softmax(u @ sum(a[j] * v[source[j]] for j in range(len(source))))


@pytest.mark.parametrize(("average", "max_positions"), BOTH)
def test_probabilities_are_those_of_the_equations(average, max_positions):
    """Where positions beyond the last share its vector."""
    model = create(average, max_positions)
    w, logits = weights_of(model), logits_of(model, SOURCE, TARGET)
    if model.is_mixture:  # Its logits are log-probabilities.
        close(tf.reduce_logsumexp(logits, axis=-1), np.zeros(TARGET.shape))
    found = softmax(logits)
    for source, target, actual in zip(SOURCE, TARGET, found, strict=True):
        source = source[source != PAD]
        for i in range(len(target)):
            close(actual[i], distribution_equation(w, average, source, i))


@pytest.mark.parametrize("max_positions", [0, 3])
def test_alignment_of_a_mixture_is_the_posterior(max_positions):
    model = create("probabilities", max_positions)
    w = weights_of(model)
    u, v = w["output/kernel"].T, w["source_embedding/embeddings"]
    alignment = model.align(ids(SOURCE), ids(TARGET)).numpy()
    scores = model.score(ids(SOURCE), ids(TARGET)).numpy()
    for b, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        source = source[source != PAD]
        for i, word in enumerate(target):
            a = prior_equation(w, i, len(source))
            joint = [a[j] * softmax(u @ v[f])[word] for j, f in enumerate(source)]
            close(alignment[b, i, : len(source)], np.array(joint) / sum(joint))
            close(scores[b, i], np.log(sum(joint)))


def test_a_mixture_is_exact_where_its_terms_are_too_small_for_floats():
    terms = np.array([[[-1.0, -300.0, -200.0], [-2.0, -301.0, -100.0], [HIDDEN_SCORE] * 3]])
    weights = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])
    half = np.log(0.5)
    expected = [
        [half + np.logaddexp(-1, -2), half + np.logaddexp(-300, -301), half - 100],
        # In the last column, the only probable term has weight 0, which counts as 1e-30: the result
        # is not exact, but finite.
        [-1, -300, -100 + np.log(1e-30)],
    ]
    close(_log_mixture(np.float32(weights), np.float32(terms))[0], expected)


@pytest.mark.parametrize("average", AVERAGES)
def test_no_tensor_has_both_lengths_and_the_vocabulary(average):
    """So a mixture needs memory like S additional target words, and not S times as much."""
    model = create(average, 3)

    @tf.function(autograph=False)
    def gradient(source_ids, target_ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model.score(source_ids, target_ids))
        return tape.gradient(loss, model.trainable_variables)

    graph = gradient.get_concrete_function(ids(SOURCE), ids(TARGET)).graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    largest = max(np.prod(shape) for shape in shapes if shape.is_fully_defined())
    assert largest <= 12 * max(SOURCE.size, TARGET.size)


def test_maps_are_the_alignment_and_only_equal_weights_inside_the_softmax_tell_none():
    for average, max_positions in BOTH:
        model = create(average, max_positions)
        assert model.has_alignment == ((average, max_positions) != ("embeddings", 0))
        maps = model.attention_maps(ids(SOURCE), ids(TARGET))
        assert list(maps) == ["decoder/0/cross"]
        close(maps["decoder/0/cross"][:, 0], model.align(ids(SOURCE), ids(TARGET)), 0)
