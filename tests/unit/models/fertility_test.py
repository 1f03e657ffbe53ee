"""Alignments with fertilities; the laws of all models are in contract_test.py."""

import numpy as np

from nmt_zoo import models
from nmt_zoo.models.ibm import MOST
from tests.unit.models.layers_test import close, ids

SOURCE = np.array([[5, 9, 5, 3], [8, 6, 3, 0], [3, 0, 0, 0]], np.int32)
TARGET = np.array([[6, 8, 6, 4, 3], [7, 7, 3, 0, 0], [6, 3, 0, 0, 0]], np.int32)


def random_models():
    """Returns (a model with fertilities, the hidden Markov model with the same other weights)."""
    plain = models.create("hmm_alignment", 11, 12, null_probability=0.08, max_jump=2)
    fertile = models.create("hmm_fertility", 11, 12, max_jump=2)
    rng = np.random.default_rng(1)
    values = {weight.path: weight for weight in plain.trainable_variables}
    for weight in values.values():
        weight.assign(rng.normal(size=weight.shape) * 2)
    for weight in fertile.trainable_variables:
        weight.assign(values.pop(weight.path.replace(fertile.name, plain.name)))
    assert not values
    return fertile, plain


def test_links_are_weighed_by_the_expected_number_of_other_links_of_their_word():
    model, _ = random_models()
    model.log_ratios.assign(np.random.default_rng(2).normal(size=[11, MOST]) * 2)
    source, target = ids(SOURCE), ids(TARGET)
    translation = model.table.look_up(source, target).numpy()
    links = model._posteriors(source, target, translation).numpy()
    weights, crowded = translation.copy(), 0
    for n, i, j in np.ndindex(*translation.shape):
        if TARGET[n, i] and j < np.count_nonzero(SOURCE[n]) - 1:
            others = links[n, TARGET[n] > 0, j].sum() - links[n, i, j]
            ratios = model.log_ratios.numpy()[SOURCE[n, j]]
            weights[n, i, j] *= np.exp(np.interp(others, np.arange(MOST), ratios))
            crowded += others > 1
    expected, real = model._posteriors(source, target, weights), TARGET > 0
    close(model.align(source, target)[real], expected[real], 1e-4)
    assert crowded  # The slopes after the first are tested, too.


def test_before_fertilities_are_known_all_is_as_in_the_hidden_markov_model():
    """And scores and decoding steps are so with any fertilities."""
    fertile, plain = random_models()
    real = TARGET != 0
    links, expected = (model.align(ids(SOURCE), ids(TARGET))[real] for model in (fertile, plain))
    close(links, expected)
    fertile.log_ratios.assign(np.full([11, MOST], 3.0))
    results = []
    for model in (fertile, plain):
        context = model.encode(ids(SOURCE))
        step = model.decode_step(ids([2, 2, 2]), ids(0), model.initial_state(context), context)
        results.append((model.score(ids(SOURCE), ids(TARGET)), step.logits))
    for found, wanted in zip(*results, strict=True):
        close(found, wanted)
