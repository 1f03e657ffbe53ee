"""What may be asked of translations, against brute force over all of them."""

import itertools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    EOS_ID,
    PAD_ID,
    SPECIALS,
    PieceVocabulary,
    WordVocabulary,
)
from nmt_zoo.decoding.search.banned import banned_phrases
from nmt_zoo.decoding.search.engine import GraphEngine, Sentence
from nmt_zoo.decoding.search.types import SearchOptions
from tests.tiny import SMALL

BOS, WORDS = 2, (4, 5)
VOCABULARY = WordVocabulary([*SPECIALS, "a", "b"])
SOURCES = [[5, 4, 4, EOS_ID], [4, EOS_ID], [5, 5, EOS_ID]]
LIMIT = 5
WIDE = 64  # More than there are extensions of all hypotheses of a step.
TINY = {"transformer_tiny": SMALL, "ibm2": {}}


@pytest.fixture(scope="module")
def model(request):
    """A model with large weights, so that no scores are equal."""
    keras.utils.set_random_seed(5)
    size, preset = len(VOCABULARY), getattr(request, "param", "ibm2")
    model = models.create(preset, size, size, **TINY[preset])
    model.score(tf.constant([[4, EOS_ID]]), tf.constant([[4, EOS_ID]]))
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.7 * rng.normal(size=weight.shape))
    return model


@pytest.fixture(autouse=True)
def eagerly(request):
    """Runs searches without making graphs, which takes longer, but for one with all requests."""
    parameters = {*re.split(r"[][-]", request.node.name)}
    tf.config.run_functions_eagerly(not {"transformer_tiny", "all"} <= parameters)
    yield
    tf.config.run_functions_eagerly(False)


def bodies(longest):
    return [b for n in range(longest + 1) for b in itertools.product(WORDS, repeat=n)]


def steps(model, source, targets):
    """Scores targets step by step: log-probabilities `[n, T, V]`."""
    ids = tf.ragged.constant(targets, tf.int32).to_tensor(PAD_ID)
    context = model.encode(tf.repeat([source], len(targets), axis=0))
    state, tokens, found = model.initial_state(context), tf.fill([len(targets)], BOS), []
    for step in range(ids.shape[1]):
        output = model.decode_step(tokens, tf.constant(step), state, context)
        log_probs = output.logits - model.log_normaliser(output.logits)
        found.append(log_probs.numpy())
        tokens, state = ids[:, step], output.state
    return np.stack(found, axis=1)


def scored(model, source, targets):
    """Returns (score, target) of every target, the best first; a score is a mean over tokens."""
    log_probs = steps(model, source, targets)
    found = []
    for row, target in enumerate(targets):
        found.append((log_probs[row, range(len(target)), target].mean(), tuple(target)))
    return sorted(found)[::-1]


def searcher_of(model, n_best=WIDE, vocabulary=VOCABULARY, **options):
    sizes = {"beam_size": n_best, "max_length_factor": 0.0, "max_length_extra": LIMIT}
    return GraphEngine(model, SearchOptions(**{**sizes, **options}), vocabulary)


def search(model, sentences, n_best=WIDE, vocabulary=VOCABULARY, **options):
    return searcher_of(model, n_best, vocabulary, **options).search(sentences, n_best)


def possible(found):
    """Returns the translations and their scores."""
    places = np.flatnonzero(found.log_probs > -1e8)
    targets = [tuple(i for i in found.ids[k].tolist() if i != PAD_ID) for k in places]
    return targets, found.scores[places]


def finished(found):
    """Returns the finished translations and their scores."""
    count = int(found.finished.sum())
    return [some[:count] for some in possible(found)]


def has(target, phrase):
    size = len(phrase)
    return any(target[i : i + size] == tuple(phrase) for i in range(len(target) - size + 1))


def repeats(target, n):
    ngrams = [target[i : i + n] for i in range(len(target) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


def test_division_by_the_length_ranks_every_translation(model):
    alpha, source = 0.8, SOURCES[0]
    options = {"length_penalty": alpha}
    (found,) = search(model, [Sentence(source)], **options)
    targets = [(*body, EOS_ID) for body in bodies(LIMIT - 1)]
    log_probs = steps(model, source, targets)
    expected = []
    for row, target in enumerate(targets):
        length = len(target)
        total = log_probs[row, range(length), target].sum()
        expected.append((total / length**alpha, total, target))
    expected.sort(reverse=True)
    assert finished(found)[0] == [target for *_, target in expected[: len(finished(found)[0])]]
    for column, values in enumerate((found.scores, found.log_probs)):
        best = [one[column] for one in expected[:10]]
        np.testing.assert_allclose(values[:10], best, rtol=1e-4, atol=1e-5)
    (greedy,) = search(model, [Sentence(source)], n_best=1, beam_size=4, **options)
    assert greedy.scores[0] <= expected[0][0] + 1e-5


def asks(is_allowed, prefix=(), required=(), **options):
    """Returns options, prefix, phrases, and which translations `t` of `s` they allow."""
    return options, prefix, required, is_allowed


REQUESTS = {
    "least": asks(lambda t, s: len(t) >= len(s), min_length_factor=1.0),
    "ngram": asks(lambda t, s: not repeats(t, 2), no_repeat_ngram=2),
    "banned": asks(
        lambda t, s: not has(t, (4, 5)) and not has(t, (5, 5, 5)),
        banned=banned_phrases(["a b", "b b b"], VOCABULARY),
    ),
    "prefix": asks(lambda t, s: t[:2] == (5, 4), (5, 4), max_length_extra=3),
    "required": asks(
        lambda t, s: has(t, (5, 5)) and has(t, (4,)), (), ([5, 5], [4]), max_length_extra=2
    ),
    "all": asks(
        lambda t, s: t[0] == 5 and has(t, (4, 4)) and not repeats(t, 3) and len(t) >= len(s),
        (5,),
        ([4, 4],),
        **{"min_length_factor": 1.0, "no_repeat_ngram": 3, "max_length_extra": 2},
    ),
}


@pytest.mark.parametrize(
    ("model", "name"),
    [("transformer_tiny", "all"), *(("ibm2", name) for name in REQUESTS)],
    indirect=["model"],
)
def test_a_full_width_finds_the_best_of_all_allowed_translations(model, name):
    options, prefix, required, is_allowed = REQUESTS[name]
    asked = [Sentence(source, 1, prefix, required) for source in SOURCES[:2]]
    # A sentence of the same batch that asks for nothing is not concerned.
    sentences = [*asked, Sentence(SOURCES[0])] if prefix or required else asked
    found = search(model, sentences, **options)
    for sentence, hypotheses in zip(sentences, found, strict=True):
        source = sentence.source_ids
        limit = options.get("max_length_extra", LIMIT)
        limit += len(sentence.prefix) + sum(map(len, sentence.required))
        every = [(*body, EOS_ID) for body in bodies(limit - 1)]
        if sentence in asked or not (prefix or required):
            every = [target for target in every if is_allowed(target, source)]
        elif name == "all":
            every = [t for t in every if not repeats(t, 3) and len(t) >= min(len(source), limit)]
        expected = scored(model, source, every)
        targets, scores = finished(hypotheses)
        assert targets == [target for _, target in expected]
        np.testing.assert_allclose(scores, [s for s, _ in expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("pieces", "prefix", "required", "word"),
    [
        (["a@@", "b"], (), ([5], [4, 5]), "(?:a@@)*b"),
        # Nor where a prefix makes it one, which no other request may change.
        (["▁a", "b"], (4, 5), ([4],), "▁ab*"),
    ],
)
def test_a_phrase_is_not_met_by_a_part_of_a_longer_word(model, pieces, prefix, required, word):
    vocabulary = PieceVocabulary([*SPECIALS, *pieces])
    sentence = Sentence(SOURCES[0], 1, prefix, required)
    (found,) = search(model, [sentence], vocabulary=vocabulary, max_length_extra=2)
    phrases = {"".join(vocabulary.pieces(phrase)) for phrase in required}

    def is_allowed(target):
        words = re.findall(word, "".join(vocabulary.pieces(t for t in target if t != EOS_ID)))
        return phrases <= {*words} and target[: len(prefix)] == prefix

    longest = 1 + len(prefix) + sum(map(len, required))
    every = [(*body, EOS_ID) for body in bodies(longest) if is_allowed(body)]
    assert 1 < len(every) < len(bodies(longest))
    assert finished(found)[0] == [target for _, target in scored(model, SOURCES[0], every)]
    assert all(map(is_allowed, possible(found)[0]))  # Also what is cut at its limit.


@pytest.mark.parametrize(
    ("model", "beam_size"), [("transformer_tiny", 3), ("ibm2", 1)], indirect=["model"]
)
def test_a_narrow_beam_keeps_to_what_is_asked_and_to_each_sentence(model, beam_size):
    banned = banned_phrases(["b b b b"], VOCABULARY)
    options = {"beam_size": beam_size, "banned": banned}
    sentences = [
        Sentence(SOURCES[0], 1, (5, 4), ([5, 5], [4, 5, 5, 4])),
        Sentence(SOURCES[1], 2, (), ([4, 4, 5],)),
    ]
    together = search(model, sentences, beam_size, **options)
    for sentence, hypotheses in zip(sentences, together, strict=True):
        (alone,) = search(model, [sentence], beam_size, **options)
        targets, scores = possible(hypotheses)
        assert targets and targets == possible(alone)[0]
        np.testing.assert_allclose(scores, possible(alone)[1], atol=1e-5)
        for target in targets:  # Also of translations that are cut at their limit.
            assert target[: len(sentence.prefix)] == tuple(sentence.prefix)
            assert all(has(target, phrase) for phrase in sentence.required)
            assert not has(target, (5, 5, 5, 5))


def test_the_length_limit_of_a_sentence_is_that_of_its_row():
    sizes = list(range(1, 400))
    for factor in (1.15, 2.0, 2.3):
        options = SearchOptions(max_length_factor=factor)
        found = options.length_limit(tf.constant(sizes)).numpy().tolist()
        assert found == [options.length_limit(size) for size in sizes]


def test_what_cannot_be_met_gives_no_translation(model):
    sentence = Sentence(SOURCES[0], 1, (), ([4, 5],))
    (found,) = search(model, [sentence], 4, banned=banned_phrases(["a b"], VOCABULARY))
    assert not possible(found)[0]


def test_draws_at_temperature_0_are_the_greedy_translation(model):
    sentences = [Sentence(source, number) for number, source in enumerate(SOURCES)]
    greedy = search(model, sentences, 1)
    drawn = search(model, sentences, 2, beam_size=1, sample=True, temperature=0.0)
    for one, some in zip(greedy, drawn, strict=True):
        for k in range(2):
            assert (some.ids[k] == one.ids[0]).all()
            np.testing.assert_allclose(some.log_probs[k], one.log_probs[0], rtol=1e-5)


def test_draws_depend_on_the_line_and_on_nothing_else_of_the_batch(model):
    searcher = searcher_of(model, sample=True, beam_size=1, max_length_extra=8)
    sentences = [Sentence(source, number) for number, source in enumerate([*SOURCES, SOURCES[0]])]
    together = searcher.search(sentences, 6)
    for sentence, hypotheses in zip(sentences, together, strict=True):
        (alone,) = searcher.search([sentence], 3)
        np.testing.assert_array_equal(alone.ids, hypotheses.ids[:3])
    assert (together[0].ids != together[3].ids).any()
