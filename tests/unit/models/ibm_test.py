"""The tables, priors and settings of the alignment models; their laws are in contract_test.py.

`tests/unit/training/expectation_maximisation/em_update_test.py` tests that their likelihood and
posteriors equal those of expectation maximisation.
"""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.layers.translation_table import TranslationTable
from tests.unit.models.layers_test import close, ids

PAD, BOS, EOS = 0, 2, 3
SOURCE = np.array([[5, 9, 4, 10, 3], [8, 6, 6, 3, 0], [3, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[6, 8, 4, 3], [7, 3, 0, 0], [6, 7, 7, 3]], np.int32)


def sparse_table(seed=1, *, sources=11, targets=12, share=0.3, smoothing=0.1):
    """Makes (table of random word pairs, (source, target) -> probability before smoothing)."""
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random([sources, targets]) < share)
    pairs = pairs[pairs[:, 0] != 7]  # Source word 7 has no pair.
    table = TranslationTable(sources, targets, num_word_pairs=len(pairs), smoothing=smoothing)
    table.build(None)
    table.set_word_pairs(*pairs.T)
    logits = rng.normal(size=len(pairs)) * 3
    table.logits.assign(logits)
    totals = {f: np.exp(logits[pairs[:, 0] == f]).sum() for f in pairs[:, 0]}
    return table, {
        (f, e): np.exp(x) / totals[f] for (f, e), x in zip(pairs.tolist(), logits, strict=True)
    }


# The table


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_a_table_is_a_softmax_over_the_word_pairs_of_each_source_word(share):
    table, known = sparse_table(share=share)
    with_pairs = {f for f, _ in known}
    everything = np.arange(11)[None], np.arange(12)[None]
    found = table.look_up(*map(ids, everything)).numpy()[0].T  # [source, target]
    for f in range(11):
        for e in range(12):
            expected = 0.9 * known.get((f, e), 0) + 0.1 / 12 if f in with_pairs else 1 / 12
            assert found[f, e] == pytest.approx(expected, abs=1e-6)
    close(found.sum(axis=1), np.ones(11))
    source_ids = np.array([[4, 4, 9, 7], [9, 4, 1, 0]])
    close(table.rows(ids(source_ids)), found[source_ids])


def test_a_precomputed_table_has_the_same_probabilities_and_sums_of_one():
    table, _ = sparse_table(share=0.1)
    everything = [ids(np.arange(size)[None]) for size in (11, 12)]
    expected = table.look_up(*everything), table.rows(everything[0])
    table.precompute()
    after = table.look_up(*everything), table.rows(everything[0])
    for found, before in zip(after, expected, strict=True):
        close(found, before)
    sums = np.bincount(table.source_words, np.exp(table.logits))
    close(sums[sums > 0], np.ones(np.count_nonzero(sums)))
    assert not table.trainable_variables


def test_the_gradient_of_a_table_is_that_of_its_softmax():
    table, known = sparse_table(smoothing=0.0)
    (f, e), probability = next(iter(known.items()))
    with tf.GradientTape() as tape:
        value = tf.math.log(table.look_up(ids([[f, 7]]), ids([[e, 0]]))[0, 0, 0])
    gradient = tf.convert_to_tensor(tape.gradient(value, table.logits)).numpy()
    row = table.source_words.numpy() == f
    expected = np.where(table.target_words.numpy() == e, 1.0, 0.0)[row]
    expected -= [p for (g, _), p in known.items() if g == f]
    close(gradient[row], expected)
    assert not gradient[~row].any() and probability > 0


def test_probabilities_survive_logits_of_any_size():
    table, known = sparse_table()
    words = table.source_words.numpy()
    table.logits.assign_add(np.where(words % 2, 300.0, -300.0))
    pairs = np.array(list(known))
    found = table.look_up(ids(pairs[:, :1]), ids(pairs[:, 1:])).numpy()[:, 0, 0]
    close(found, 0.9 * np.array(list(known.values())) + 0.1 / 12)


@pytest.mark.parametrize("positions", ["shared", "jumps"])
def test_score_and_align_never_have_the_vocabulary_as_a_dimension(positions):
    model = AlignmentModel(97, 89, positions=positions, num_word_pairs=50)
    model.table.set_word_pairs(np.repeat(np.arange(10), 5), np.tile(np.arange(5), 10))

    @tf.function(autograph=False)
    def gradient(source_ids, target_ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model.score(source_ids, target_ids))
        return model.align(source_ids, target_ids), tape.gradient(loss, model.table.logits)

    graph = gradient.get_concrete_function(ids(SOURCE), ids(TARGET)).graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    assert not any(shape.rank and 89 in shape.as_list() for shape in shapes)
    assert not any(shape.rank and shape.rank > 1 and 97 in shape.as_list() for shape in shapes)


# The priors


def prior_of(model, source, i, length):
    """Returns the prior of target position i in a decoding step, before any word is covered."""
    context_mask = tf.constant(np.array([source]) != PAD)
    return model.positions.prior(tf.constant([i]), context_mask, tf.constant([float(length)]))


def test_the_prior_on_the_diagonal_is_that_of_the_equation():
    model = AlignmentModel(11, 12, positions="diagonal", null_probability=0.3)
    model.positions.tension.assign(2.5)
    i, m, n = 1, 4, 5
    words = np.exp(-2.5 * np.abs((i + 1) / m - np.arange(1, n) / (n - 1)))
    expected = [*(0.7 * words / words.sum()), 0.3]
    close(prior_of(model, SOURCE[0], i, m)[0, 0], expected)
    close(prior_of(model, SOURCE[2], i, m)[0, 0], [1, 0, 0, 0, 0])  # The sentence has only NULL.


@pytest.mark.parametrize("positions", ["table", "shared"])
def test_a_table_of_positions_is_a_softmax_and_uniform_beyond_its_size(positions):
    """For each length n, or of the first n rows of one table."""
    shape = (4,) * (3 if positions == "table" else 2)
    model = AlignmentModel(11, 12, positions=positions, max_positions=4)
    logits = np.random.default_rng(1).normal(size=shape)
    model.positions.logits.assign(logits)
    for row, n in ((0, 5), (1, 4), (2, 1)):
        for i in range(6):
            weights = np.ones(n)
            if i < 4 and positions == "shared":  # Beyond the table, the last logit.
                weights = np.exp([*logits[i], logits[i, -1]][:n])
            elif i < 4 and n <= 4:
                weights = np.exp(logits[n - 1, i, :n])
            expected = [*(weights / weights.sum()), *np.zeros(5 - n)]
            close(prior_of(model, SOURCE[row], i, 9)[0, 0], expected)


@pytest.mark.parametrize("positions", ["diagonal", "jumps"])
def test_without_smoothing_a_word_that_nothing_explains_leaves_numbers(positions):
    model = AlignmentModel(11, 12, positions=positions, num_word_pairs=1, smoothing=0.0)
    model.table.set_word_pairs([5], [6])
    assert np.isfinite(model.score(ids(SOURCE), ids(TARGET))).all()
    close(tf.reduce_sum(model.align(ids(SOURCE), ids(TARGET)), axis=-1), np.ones(TARGET.shape))
    call = model({"source_ids": ids(SOURCE), "target_in_ids": ids(TARGET)})
    assert np.isfinite(call).all()
