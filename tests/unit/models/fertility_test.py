"""Alignments with fertilities; the laws of all models are in contract_test.py."""

import itertools

import numpy as np

from nmt_zoo import models
from nmt_zoo.models.fertility import MOST
from nmt_zoo.models.layers.masks import padding_mask
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


def posteriors(transitions, null_prior, translation):
    """Returns `[T, S]` posteriors by the sum over all alignments of a sentence pair.

    Args:
        transitions: `[S + 1, S]`, probability of each source word after each place.
        null_prior: probability of NULL, the last source position.
        translation: `[T, S]`.
    """
    found = np.zeros_like(translation)
    num_targets, num_sources = translation.shape
    for links in itertools.product(range(num_sources), repeat=num_targets):
        probability, place = 1.0, 0
        for i, j in enumerate(links):
            if j == num_sources - 1:
                probability *= null_prior
            else:
                probability *= transitions[place, j]
                place = j + 1
            probability *= translation[i, j]
        found[np.arange(num_targets), links] += probability
    return found / found.sum(axis=1, keepdims=True)


def test_links_are_weighed_by_the_expected_number_of_other_links_of_their_word():
    model, _ = random_models()
    model.log_ratios.assign(np.random.default_rng(2).normal(size=[11, MOST]) * 2)
    transitions, null_prior = model.positions.transitions(padding_mask(ids(SOURCE), 0))
    translation = model.table.look_up(ids(SOURCE), ids(TARGET)).numpy().astype(np.float64)
    alignments = model.align(ids(SOURCE), ids(TARGET)).numpy()
    crowded = 0
    for n, found in enumerate(alignments):
        t, s = np.count_nonzero(TARGET[n]), np.count_nonzero(SOURCE[n])
        of_sentence = transitions[n, : s + 1, :s].numpy(), null_prior[n, s - 1].numpy()
        weights = translation[n, :t, :s].copy()
        links = posteriors(*of_sentence, weights)
        for i, j in itertools.product(range(t), range(s - 1)):
            others = links[:, j].sum() - links[i, j]
            ratios = model.log_ratios.numpy()[SOURCE[n, j]]
            weights[i, j] *= np.exp(np.interp(others, np.arange(MOST), ratios))
            crowded += others > 1
        close(found[:t, :s], posteriors(*of_sentence, weights), 1e-4)
    assert crowded  # The slopes after the first are tested, too.


def test_before_fertilities_are_known_alignments_are_those_of_the_hidden_markov_model():
    fertile, plain = random_models()
    real = TARGET != 0
    found, expected = (model.align(ids(SOURCE), ids(TARGET))[real] for model in (fertile, plain))
    close(found, expected)


def test_scores_and_decoding_are_those_of_the_hidden_markov_model():
    fertile, plain = random_models()
    fertile.log_ratios.assign(np.full([11, MOST], 3.0))
    scores = [model.score(ids(SOURCE), ids(TARGET)).numpy() for model in (fertile, plain)]
    close(*scores)
    steps = []
    for model in (fertile, plain):
        context = model.encode(ids(SOURCE))
        tokens, state = ids([2, 2, 2]), model.initial_state(context)
        steps.append(model.decode_step(tokens, ids(0), state, context).logits)
    close(*steps)
