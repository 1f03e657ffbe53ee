"""The noisy channel against brute force over all short translations."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.engine import GraphEngine, Sentence
from nmt_zoo.decoding.search.types import SearchOptions
from nmt_zoo.models import SettingError
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel
from nmt_zoo.models.noisy_channel import NoisyChannel
from tests.ngrams import VOCAB, model_of, random_text
from tests.tiny import traced_search

PAD, UNK, BOS, EOS = range(4)
pytestmark = pytest.mark.usefixtures("eagerly")
SOURCE_VOCAB = 8
SOURCE = tf.constant([[5, 6, 4, EOS], [7, EOS, PAD, PAD], [4, 4, UNK, EOS]])
EVERY_WORD = {"num_translations": VOCAB, "num_frequent": VOCAB}


@pytest.fixture(scope="module")
def language_model():
    return model_of(random_text(1), 3)[0]


@pytest.fixture(scope="module")
def channel():
    """Model 1 from the language model's words to `SOURCE` words; peaked, and some pairs missing."""
    generator = np.random.default_rng(2)
    present = generator.random((VOCAB, SOURCE_VOCAB)) < 0.6
    present[[PAD, BOS]] = present[:, [PAD, BOS]] = False
    words, sources = np.nonzero(present)
    model = AlignmentModel(VOCAB, SOURCE_VOCAB, num_word_pairs=words.size, smoothing=0.02)
    model.table.set_word_pairs(words, sources)
    model.table.logits.assign(generator.normal(size=words.size) * 2)
    return model


def bayes(model, source, targets):
    """Computes log P(f | e) + weight log P(e) for each target e from the models' own scores."""
    targets = tf.ragged.constant(targets, tf.int32).to_tensor(PAD)
    sources = tf.constant([source] * targets.shape[0], tf.int32)
    language = tf.where(targets != PAD, model.language_model.score(sources, targets), 0.0)
    channel = model.channel.score(targets, sources)
    return (tf.reduce_sum(channel, 1) + model.weight * tf.reduce_sum(language, 1)).numpy()


def without_padding(ids):
    return [int(i) for i in ids if i != PAD]


def test_finds_what_brute_force_finds_with_the_scores_of_both_models(channel, language_model):
    limit, words = 3, range(4, VOCAB - 1)
    model = NoisyChannel(channel, language_model, weight=0.4, **EVERY_WORD)
    found = traced_search(model, limit, 90, alpha=0.0, forbidden=VOCAB - 1)(SOURCE)
    every = [
        [*body, EOS] for size in range(limit) for body in itertools.product(words, repeat=size)
    ]
    for row, source in enumerate(map(without_padding, SOURCE.numpy())):
        scores = bayes(model, source, every)
        best = np.argsort(scores)[::-1]
        np.testing.assert_allclose(found.log_probs[row, : len(every)], scores[best], rtol=1e-4)
        assert without_padding(found.ids[row, 0]) == every[best[0]]


@pytest.fixture(scope="module")
def narrow(channel, language_model):
    """A model that considers few words, and a search with a small beam."""
    model = NoisyChannel(channel, language_model, max_words=7, num_frequent=2)
    return model, traced_search(model, limit=8, alpha=0.0)


def test_every_given_translation_has_the_score_of_both_models(narrow):
    model, search = narrow
    score = make_scorer(model)
    targets = [[UNK, 4, VOCAB - 1, EOS], [EOS], [VOCAB - 1, UNK, UNK, 5, 5, EOS]]
    padded = tf.ragged.constant(targets, tf.int32).to_tensor(PAD)
    found = tf.where(padded != PAD, score(SOURCE, padded).log_probs, 0.0)
    for row, source in enumerate(map(without_padding, SOURCE.numpy())):
        expected = bayes(model, source, [targets[row]])
        np.testing.assert_allclose(tf.reduce_sum(found[row]), expected[0], rtol=1e-4)
    # Words of the search keep their scores, token by token.
    best = search(SOURCE)
    assert best.finished[:, 0].all()
    sums = tf.where(best.ids[:, 0] != PAD, score(SOURCE, best.ids[:, 0]).log_probs, 0.0)
    np.testing.assert_allclose(tf.reduce_sum(sums, 1), best.log_probs[:, 0], rtol=1e-4)


def test_words_that_are_asked_for_are_considered(channel, language_model):
    model = NoisyChannel(channel, language_model, num_translations=1, num_frequent=1)
    source = without_padding(SOURCE[0].numpy())
    context = model.encode(SOURCE[:1])
    state = model.initial_state(context)
    logits = model.decode_step(tf.fill([1], BOS), 0, state, context).logits.numpy()[0]
    unlikely = next(word for word in range(4, VOCAB - 1) if logits[word] < IMPOSSIBLE / 2)
    words = WordVocabulary([*SPECIALS, *map(str, range(4, VOCAB))])
    searcher = GraphEngine(model, SearchOptions(beam_size=2), words)
    sentences = Sentence(source, prefix=(unlikely,)), Sentence(source, required=([unlikely],))
    for hypotheses in searcher.search(sentences, 1):
        ids, log_prob = without_padding(hypotheses.ids[0]), hypotheses.log_probs[0]
        assert unlikely in ids and log_prob > -1e8
        np.testing.assert_allclose(log_prob, bayes(model, source, [ids])[0], rtol=1e-4)


def test_neighbours_and_padding_change_nothing(narrow):
    _, search = narrow
    together = search(tf.pad(SOURCE, [[0, 0], [0, 2]]))
    for row, source in enumerate(map(without_padding, SOURCE.numpy())):
        alone = search(tf.constant([source]))
        np.testing.assert_array_equal(together.ids[row], alone.ids[0])
        np.testing.assert_allclose(together.log_probs[row], alone.log_probs[0], rtol=1e-4)


def test_only_likely_and_frequent_words_are_considered(channel, language_model):
    model = NoisyChannel(channel, language_model, num_translations=1, num_frequent=2)
    context = model.encode(SOURCE)
    state = model.initial_state(context)
    logits = model.decode_step(tf.fill([3], BOS), 0, state, context).logits.numpy()
    unigrams = language_model.unigrams.numpy().copy()
    unigrams[[PAD, BOS, EOS]] = 0
    frequent = {int(word) for word in np.argsort(-unigrams)[:2]}
    words, sources = tf.meshgrid(tf.range(VOCAB), tf.range(SOURCE_VOCAB), indexing="ij")
    rows = tf.reshape(words, [-1, 1]), tf.reshape(sources, [-1, 1])
    translation = tf.reshape(channel.table.look_up(*rows), [VOCAB, SOURCE_VOCAB]).numpy()
    listed = np.zeros([VOCAB, SOURCE_VOCAB], bool)
    listed[channel.table.source_words, channel.table.target_words] = True
    worth = np.where(listed, translation, 0) * unigrams[:, None]
    for row, source in enumerate(map(without_padding, SOURCE.numpy())):
        likely = {int(worth[:, word].argmax()) for word in source if worth[:, word].any()}
        allowed = np.flatnonzero(logits[row] > IMPOSSIBLE / 2)
        assert set(allowed.tolist()) == likely | frequent | {EOS}


def test_source_words_align_with_the_words_that_they_come_from(channel, language_model):
    model = NoisyChannel(channel, language_model)
    targets = tf.constant([[4, 6, EOS], [5, EOS, PAD], [7, 7, EOS]])
    weights = model.align(SOURCE, targets).numpy()
    assert model.has_alignment and weights.shape == (3, 3, 4)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert not weights[1, :, 2:].any()
    posterior = channel.align(targets, SOURCE).numpy()[0]
    np.testing.assert_allclose(weights[0], posterior.T / posterior.sum(0)[:, None], rtol=1e-5)


def test_what_does_not_fit_is_refused(channel, language_model):
    with pytest.raises(SettingError, match="9 source ids and the language model 10"):
        NoisyChannel(channel, NgramLanguageModel(10, 10))
    with pytest.raises(SettingError, match="above 0, found 0"):
        NoisyChannel(channel, language_model, weight=0)
