"""The search against brute force, against greedy decoding and against the model's own scores."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions, length_normaliser
from tests.tiny import SMALL, Echo, Markov, echo_batch, traced_search

PAD, UNK, BOS, EOS = range(4)


# Making graphs takes longer than the few steps of the searches.
pytestmark = pytest.mark.usefixtures("all_eagerly")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    model = models.create("transformer_tiny", 8, 8, **SMALL)
    for weight in model.trainable_variables:  # Larger weights, so that no scores are equal.
        weight.assign(weight * 1.5)
    return model


SOURCE = tf.constant([[5, 6, 4, EOS], [7, EOS, PAD, PAD], [4, 4, EOS, PAD]])


def search(model, source_ids=SOURCE, limit=5, **options):
    return traced_search(model, limit, **options)(source_ids)


def tokens(ids):
    ids = list(ids)
    return tuple(ids[: ids.index(EOS) + 1] if EOS in ids else [i for i in ids if i != PAD])


def log_probs(model, source, targets):
    """Computes the log-probability of every target, in one batch to save time."""
    ids = tf.ragged.constant(targets, tf.int32).to_tensor(PAD)
    scores = model.score(tf.repeat([source], len(targets), axis=0), ids)
    return tf.reduce_sum(tf.where(ids == PAD, 0.0, scores), axis=1).numpy().tolist()


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_equals_brute_force_at_full_width(model, alpha):
    limit, words = 3, [4, 5, 6, 7]
    found = search(model, SOURCE, beam_size=100, limit=limit, alpha=alpha)
    for row, source in enumerate(SOURCE.numpy()):
        every = [
            (*body, EOS)
            for length in range(limit)
            for body in itertools.product(words, repeat=length)
        ]
        scored = sorted(
            ((log_prob / float(length_normaliser(len(e), alpha)), e))
            for log_prob, e in zip(log_probs(model, source, every), every, strict=True)
        )[::-1]
        assert found.finished[row, : len(every)].all()
        assert [tokens(i) for i in found.ids[row, : len(every)]] == [e for _, e in scored]
        np.testing.assert_allclose(
            found.scores[row, : len(every)], [s for s, _ in scored], rtol=1e-4
        )


def test_beam_of_one_is_the_arg_max_of_every_step(model):
    found = search(model, beam_size=1, limit=8)
    for row, source in enumerate(SOURCE.numpy()):
        prefix = []
        while len(prefix) < 8 and EOS not in prefix:
            logits = model(
                {"source_ids": source[None], "target_in_ids": np.array([[BOS, *prefix]])}
            )
            logits = logits[0, -1].numpy()
            logits[[PAD, UNK, BOS]] = -np.inf
            prefix.append(int(logits.argmax()))
        assert tokens(found.ids[row, 0]) == tuple(prefix)


@pytest.fixture(scope="module")
def found(model):
    return search(model, beam_size=5, limit=6)


def test_hypotheses_are_distinct_ranked_and_have_the_models_own_scores(model, found):
    assert found.finished.any()
    for row, source in enumerate(SOURCE.numpy()):
        targets, finished = [tokens(ids) for ids in found.ids[row]], found.finished[row]
        expected = log_probs(model, source, targets)
        np.testing.assert_allclose(found.log_probs[row], expected, atol=1e-4)
        expected /= length_normaliser(np.array([*map(len, targets)]), 0.6)
        np.testing.assert_allclose(found.scores[row], expected, atol=1e-4)
        assert len(set(targets)) == 5 and not {PAD, BOS, UNK} & {*itertools.chain(*targets)}
        assert (np.diff(found.scores[row][finished]) <= 0).all()
        assert (np.diff(finished.astype(int)) <= 0).all()


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_leaving_early_never_changes_the_translations_asked_for(alpha):
    find, which = traced_search(Markov(1), limit=8, alpha=alpha), tf.range(1000)[:, None]
    all_of_them = find(which)
    for n_best in (1, 2):
        asked_for = find(which, n_best)
        np.testing.assert_array_equal(
            asked_for.ids[:, :n_best][all_of_them.finished[:, :n_best]],
            all_of_them.ids[:, :n_best][all_of_them.finished[:, :n_best]],
        )


def test_a_sentence_that_waits_for_others_is_translated_as_if_it_were_alone(graphs):
    which = tf.range(32)[:, None]
    found = traced_search(Markov(1), limit=8, alpha=3.0)
    together = found(which)
    for row in range(32):
        alone = found(which[row : row + 1])
        np.testing.assert_array_equal(together.ids[row], alone.ids[0])
        np.testing.assert_array_equal(together.finished[row], alone.finished[0])


def test_each_sentence_may_have_a_beam_and_a_length_penalty_of_its_own():
    asked = [(1, 0.6, 1), (3, 0.0, 2), (5, 3.0, 5)]
    which = np.arange(1000, dtype=np.int32)[:, None]
    of_rows = [np.resize(values, 1000) for values in zip(*asked, strict=True)]
    dtypes = np.int32, np.float32, np.int32
    each = SentenceOptions(*(v.astype(d) for v, d in zip(of_rows, dtypes, strict=True)))
    together = traced_search(Markov(1), limit=8, beam_size=5, each=True)(which, each)
    for place, (beam_size, alpha, n_best) in enumerate(asked):
        rows = which[place :: len(asked)]
        alone = traced_search(Markov(1), 8, beam_size, alpha)(rows, n_best)
        found = [values[rows[:, 0]] for values in together]
        for here, expected in zip(found, alone, strict=True):
            np.testing.assert_allclose(here[:, :n_best], expected[:, :n_best], rtol=1e-5)
        assert (found[1][:, beam_size:] <= -1e8).all()
        assert (found[1][:, :n_best] > -1e8).all()


class Endless(Echo):
    def decode_step(self, *arguments):
        output = super().decode_step(*arguments)
        return output._replace(logits=output.logits - 1e8 * tf.one_hot(EOS, 8))


def test_unfinished_hypotheses_are_returned_and_marked():
    options = SearchOptions(2, max_length_factor=1.0, max_length_extra=0)
    found = make_search(Endless(8), options)(SOURCE, 2)
    assert not found.finished.numpy().any()
    assert [len(tokens(i)) for i in found.ids[:, 0].numpy()] == [4, 2, 3]


def test_a_sentence_that_is_done_costs_nothing_more():
    model = Echo(8)
    lengths = [2, 40, 3, 2, 5, 2]
    source = echo_batch(lengths)
    found = traced_search(model, limit=50, beam_size=1)(source)
    assert model.hypotheses.numpy() == sum(lengths)
    for row, length in enumerate(lengths):
        assert tokens(found.ids[row, 0]) == tuple(source[row, :length])
        assert (found.ids[row, 0, length:] == PAD).all()


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_that_are_not_numbers_are_told_for_their_sentence_alone(score):
    class Broken(Echo):
        def decode_step(self, token_ids, step, state, context):
            output = super().decode_step(token_ids, step, state, context)
            is_broken = (context["source_ids"][:, 0] == 7) & (step == 1)
            broken = tf.repeat(is_broken, tf.size(token_ids) // tf.size(is_broken))
            one = tf.cast(tf.one_hot(4, 8), tf.bool) & broken[:, None]
            return output._replace(logits=tf.where(one, score, output.logits))

    source = tf.constant([[5, 6, EOS], [7, 6, EOS], [4, EOS, PAD]])
    found = search(Broken(8), source, limit=6)
    assert np.isnan(found.log_probs[1]).all() and np.isnan(found.scores[1]).all()
    for row in (0, 2):
        assert np.isfinite(found.log_probs[row, 0])
        assert tokens(found.ids[row, 0]) == tokens(source[row].numpy())
