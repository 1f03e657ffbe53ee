"""The search against brute force, against greedy decoding and against the model's own scores."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions, length_normaliser
from tests.tiny import Echo, Markov, echo_batch, traced_search

PAD, UNK, BOS, EOS = range(4)
TINY = {"num_encoder_layers": 1, "num_decoder_layers": 1, "width": 16, "num_heads": 2}


@pytest.fixture(autouse=True, scope="module")
def without_graphs():
    """Runs the searches without making graphs, which takes longer than their few steps."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    model = models.create("transformer_tiny", 8, 8, ffn_width=16, **TINY)
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


def test_log_prob_is_the_models_own_score_of_the_output(model, found):
    for row, source in enumerate(SOURCE.numpy()):
        targets = [tokens(ids) for ids in found.ids[row]]
        expected = log_probs(model, source, targets)
        np.testing.assert_allclose(found.log_probs[row], expected, atol=1e-4)
        expected /= length_normaliser(np.array([*map(len, targets)]), 0.6)
        np.testing.assert_allclose(found.scores[row], expected, atol=1e-4)


def test_hypotheses_of_a_sentence_are_distinct_and_ranked(found):
    assert found.finished.any()
    for row in range(3):
        finished = found.finished[row]
        assert (np.diff(found.scores[row][finished]) <= 0).all()
        assert (np.diff(finished.astype(int)) <= 0).all()
        assert len({tokens(i) for i in found.ids[row]}) == 5


def test_never_emits_padding_start_or_forbidden_ids(model):
    found = search(model, beam_size=5, limit=6, forbidden=5)
    for row in found.ids.reshape(-1, found.ids.shape[-1]):
        assert not {PAD, BOS, UNK, 5} & set(tokens(row))


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


class Scripted(models.Searchable):
    """A model that prefers a fixed token at each step; its state records every input token."""

    def __init__(self, preferences, **kwargs):
        super().__init__(8, 8, **kwargs)
        self.preferences = preferences  # [steps][V] logits
        self.built = True

    def encode(self, source_ids, training=False):
        return {"mask": source_ids != PAD}

    def initial_state(self, context):
        return {"seen": tf.zeros([tf.shape(context["mask"])[0], 0], tf.int32)}

    def decode_step(self, token_ids, step, state, context):
        seen = tf.concat([state["seen"], token_ids[:, None]], axis=1)
        logits = tf.gather(tf.constant(self.preferences, tf.float32), step)
        # Logits depend on the history, so the search must keep each state with its ids.
        history = tf.cast(tf.reduce_sum(tf.where(seen > 3, seen, 0), axis=1), tf.float32)
        logits = logits[None, :] + tf.sin(history[:, None] * tf.range(8, dtype=tf.float32))
        attention = tf.zeros([tf.shape(token_ids)[0], tf.shape(context["mask"])[1]])
        return models.StepOutput(logits, {"seen": seen}, attention)


def scripted_log_prob(model, target):
    """Computes the log-probability of a target token by token, without a beam."""
    state = model.initial_state({"mask": tf.ones([1, 1], tf.bool)})
    total, token = 0.0, BOS
    for step, following in enumerate(target):
        output = model.decode_step(
            tf.constant([token]), tf.constant(step), state, {"mask": tf.ones([1, 1], tf.bool)}
        )
        total += float(tf.nn.log_softmax(output.logits)[0, following])
        state, token = output.state, following
    return total


def test_state_follows_its_hypothesis():
    rng = np.random.default_rng(0)
    preferences = rng.normal(size=(7, 8)) * 2
    preferences[:4, EOS] -= 6
    preferences[4:, EOS] += 4
    model = Scripted(preferences)
    found = search(model, SOURCE[:1], beam_size=4, limit=7, alpha=0.0)
    assert found.finished[0, 0]
    for k in np.flatnonzero(found.finished[0]):
        target = tokens(found.ids[0, k])
        assert found.log_probs[0, k] == pytest.approx(scripted_log_prob(model, target), abs=1e-4)


def test_end_of_sentence_first_gives_an_empty_translation():
    preferences = np.zeros((4, 8))
    preferences[:, EOS] = 30.0
    found = search(Scripted(preferences), beam_size=2, limit=4)
    assert [tokens(i) for i in found.ids[:, 0]] == [(EOS,)] * 3
    assert found.finished[:, 0].all()


def test_unfinished_hypotheses_are_returned_and_marked():
    preferences = np.zeros((4, 8))
    preferences[:, EOS] = -1e8
    options = SearchOptions(2, max_length_factor=1.0, max_length_extra=0)
    found = make_search(Scripted(preferences), options)(SOURCE, 2)
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
