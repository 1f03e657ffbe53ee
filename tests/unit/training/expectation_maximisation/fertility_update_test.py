"""Training of the hidden Markov model with fertilities, in one direction and in two."""

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.model_directory.directory import restore
from nmt_zoo.training.ways.expectation_maximisation.agreement import index_directions
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    MOST,
    agree,
    collapsed_step,
    fertilities,
    first_collapsed,
)
from nmt_zoo.training.ways.expectation_maximisation.em_update import (
    Agreement,
    ExpectationMaximisation,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.preparation import WordTable
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.em_update_test import padded

OPTIONS = {"alpha": 0.01, "model1_steps": 1, "hmm_steps": 2, "leave_one_out": True}
STAGES = ["Model 1", *["positions: jumps"] * 2, *["HMM with fertilities"] * 2]


def text(seed=3):
    return textbook.corpus_of(textbook.random_pairs(40, seed=seed, longest=5, words=6))


def new_update(corpus, *, both=False):
    """Returns (update, the text that its steps are given)."""
    directions = index_directions(corpus)
    twins = []
    for words, way in zip(
        directions, (corpus, EncodedCorpus(corpus.target, corpus.source)), strict=True
    ):
        count = words.source_words.size
        twins.append(models.create("hmm_fertility", 40, 40, num_word_pairs=count))
        WordTable(way).fill(twins[-1])
    if both:
        return Agreement(twins[0], directions, twins[1], **OPTIONS), directions
    return ExpectationMaximisation(twins[0], directions.forward, **OPTIONS), directions.forward


def collapsed(directions):
    """Returns the `Collapsed` of each direction after the iterations of `STAGES`."""
    states = [first_collapsed(words) for words in directions]
    for number, stage in enumerate(STAGES):
        if number == OPTIONS["model1_steps"]:
            first = JumpsEstimate.first(null_probability=0.08)
            states = [state._replace(positions=first) for state in states]
        states = [
            collapsed_step(words, state, alpha=0.01, fertile=stage.endswith("fertilities"))
            for words, state in zip(directions, states, strict=True)
        ]
        states = agree(directions, states) if len(states) > 1 else states
    return states


def log_ratios(words, posteriors):
    """Returns source word -> log n(c + 1) - log n(c) for c below `MOST`, None for other words."""
    found = {None: np.zeros(MOST + 1)}
    for block in words.blocks:
        rows = posteriors[block.cells].reshape(-1, block.source_length)
        first = words.cell_pairs[block.cells].reshape(rows.shape)[: block.pairs.size]
        expected = fertilities(block, rows)
        for sentence, position in np.ndindex(*expected.shape[1:]):
            word = int(words.source_words[first[sentence, position]])
            found[word] = found.get(word, 0) + expected[:, sentence, position]
    every = sum(found.values()) + 0.5
    found = {word: counts + every / every.sum() for word, counts in found.items()}
    return {word: np.diff(np.log(counts)) for word, counts in found.items()}


@pytest.mark.parametrize("both", [False, True])
def test_iterations_are_those_of_the_numeric_core_and_the_model_has_their_fertilities(both):
    update, given = new_update(text(), both=both)
    for number, stage in enumerate(STAGES):
        assert update.stage(number).name == stage
        values = update.step(given)
        line = update.progress_line(number + 1, {n: total / c for n, (total, c) in values.items()})
        # The likelihood with fertilities is known up to a factor only.
        assert ("perplexity" in line) == (not stage.endswith("fertilities"))
    twins = (update, update.reverse) if both else (update,)
    directions = given if both else [given]
    for twin, words, state in zip(twins, directions, collapsed(directions), strict=True):
        np.testing.assert_allclose(twin.posteriors, state.posteriors, atol=1e-5)
        ratios = log_ratios(words, state.posteriors)
        found = twin.model.log_ratios.numpy()
        for word in range(40):
            expected = ratios.get(word, ratios[None])
            np.testing.assert_allclose(found[word], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("both", [False, True])
def test_a_restored_update_goes_on_bit_for_bit(both):
    whole, given = new_update(text(5), both=both)
    saved = {}
    for step in range(5):
        saved[step] = {name: np.array(value) for name, value in whole.variables().items()}
        whole.step(given)
    for stop in (2, 4):
        again, _ = new_update(text(5), both=both)
        restore(again.variables(), saved[stop], "checkpoint")
        for _ in range(stop, 5):
            again.step(given)
        for name, value in whole.variables().items():
            np.testing.assert_array_equal(again.variables()[name], value, err_msg=name)


def test_a_word_that_becomes_two_is_linked_to_two_unknown_words():
    """Word 9 always becomes two words, others one; words 30 and 31 are not in the training text."""
    rng = np.random.default_rng(1)
    sources = [rng.permutation([4, 5, 6, 7, 8, 9])[:4].tolist() for _ in range(200)]
    two = {9: [19, 20]}
    pairs = [(s, [e for f in s for e in two.get(f, [f + 10])]) for s in sources]
    update, words = new_update(textbook.corpus_of(pairs))
    for _ in STAGES:
        update.step(words)
    new = textbook.corpus_of([([4, 9, 5], [14, 30, 31, 15]), ([9, 4, 5], [30, 31, 14, 15])])
    links = update.model.align(padded(new.source), padded(new.target)).numpy().argmax(axis=2)
    assert links[:, :4].tolist() == [[0, 1, 1, 2], [0, 0, 1, 2]]
