"""Shortlists: what a search finds among them, and how they are made from word translations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID, SPECIALS, WordVocabulary
from nmt_zoo.decoding.search.engine import GraphEngine, Sentence
from nmt_zoo.decoding.search.shortlist import Shortlist, make_shortlist
from nmt_zoo.decoding.search.types import SearchOptions
from tests.tiny import SMALL

SIZE = 60
VOCABULARY = WordVocabulary([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), SIZE))])
SOURCES = [[5, 9, 31, 8, EOS_ID], [40, EOS_ID], [7, 7, 59, EOS_ID]]
TINY = {
    "transformer_tiny": SMALL,
    "lstm_lexical": {"embedding_width": 8, "encoder_units": 4, "decoder_units": 8},
}


@pytest.fixture(scope="module", params=TINY)
def model(request):
    keras.utils.set_random_seed(3)
    model = models.create(request.param, SIZE, SIZE, **TINY[request.param])
    rng = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.5 * rng.normal(size=weight.shape))
    return model


@pytest.fixture(scope="module")
def shortlist():
    translations = np.random.default_rng(4).integers(len(SPECIALS), SIZE, (SIZE, 3))
    # Padding has translations, too, which must not count.
    return Shortlist(translations, np.arange(SIZE) < len(SPECIALS))


def search(model, sources, shortlist, beam_size=3):
    options = SearchOptions(
        beam_size=beam_size, max_length_factor=1.0, max_length_extra=3, shortlist=shortlist
    )
    searcher = GraphEngine(model, options, VOCABULARY)
    return searcher.search([Sentence(source) for source in sources], beam_size)


@pytest.mark.usefixtures("eagerly")
def test_a_shortlist_of_all_tokens_changes_nothing(model):
    everything = Shortlist(np.full([SIZE, 1], EOS_ID), np.ones(SIZE, bool))
    for beam_size in (1, 4):
        listed = search(model, SOURCES, everything, beam_size)
        for found, expected in zip(listed, search(model, SOURCES, None, beam_size), strict=True):
            np.testing.assert_array_equal(found.ids, expected.ids)
            np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_a_translation_consists_of_the_shortlist_of_its_own_sentence_and_has_its_score(
    model, shortlist
):
    together = search(model, SOURCES, shortlist)
    [alone] = search(model, SOURCES[1:2], shortlist)  # Without padding.
    np.testing.assert_array_equal(together[1].ids[:, : alone.ids.shape[1]], alone.ids)
    for source, found in zip(SOURCES, together, strict=True):
        is_listed = shortlist.of(tf.constant([source]))[0].numpy()
        expected = {EOS_ID, *np.ravel(shortlist.translations.numpy()[source]), *range(4)}
        assert set(np.flatnonzero(is_listed)) == expected
        for k in range(len(found.ids)):
            ids = [i for i in found.ids[k].tolist() if i != PAD_ID]
            assert is_listed[ids].all()
            target_in = tf.constant([[model.bos_id, *ids[:-1]]])
            logits = model({"source_ids": tf.constant([source]), "target_in_ids": target_in})[0]
            log_probs = tf.nn.log_softmax(tf.where(is_listed, logits, -1e9)).numpy()
            total = log_probs[range(len(ids)), ids].sum()
            assert found.log_probs[k] == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("model", ["transformer_tiny"], indirect=True)
def test_batches_of_any_shape_use_one_graph(model, shortlist):
    searcher = GraphEngine(model, SearchOptions(beam_size=2, shortlist=shortlist), VOCABULARY)
    for count in (2, 3):
        searcher.search([Sentence(source) for source in SOURCES[:count]], 1)
    [graph] = searcher._graphs.values()
    assert graph.experimental_get_tracing_count() == 1


def test_a_shortlist_has_the_probable_translations_and_the_frequent_tokens():
    lexical = models.create("ibm1", 10, 12, num_word_pairs=9)
    lexical.table.set_word_pairs([4, 4, 4, 5, 5, 6, 7, 8, 9], [5, 6, 7, 4, 7, 7, 7, 7, 7])
    lexical.table.set_probabilities(np.array([0.6, 0.3, 0.1, 0.9, 0.1, 1.0, 1.0, 1.0, 1.0]))
    specials = {0, 1, 2, 3}

    def listed(source, **sizes):
        shortlist = make_shortlist(lexical, **sizes)
        return set(np.flatnonzero(shortlist.of(tf.constant([source]))[0])) - specials

    assert listed([4], is_shared=False, translations=2, frequent=0) == {5, 6}
    assert listed([4, 5], is_shared=False, translations=1, frequent=0) == {4, 5}
    assert listed([5], is_shared=False, translations=9, frequent=0) == {4, 7}
    assert listed([5], is_shared=False, translations=1, frequent=1) == {4, 7}
    assert listed([9], is_shared=True, translations=1, frequent=0) == {7, 9}
