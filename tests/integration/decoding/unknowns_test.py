"""Replacement of UNK in translations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID, PieceVocabulary
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.decoding.unknowns import UnknownReplacer, read_lexicon
from tests.tiny import SMALL

pytestmark = pytest.mark.usefixtures("eagerly")
BRIEF = {"max_length_factor": 1.0, "max_length_extra": 4}
LINES = ["one zebra sees the dog", "zebra", "", "two cat runs"]


def create(words, preset="lstm_luong", **settings):
    return models.create(
        preset, len(words.source), len(words.target), embedding_width=8, **settings
    )


@pytest.fixture(scope="module")
def model(words):
    """A model that often emits UNK, has a peaked attention, and rarely emits EOS."""
    keras.utils.set_random_seed(1)
    model = create(words)
    for weight in model.trainable_variables:
        weight.assign(weight * 4)
    bias = model.output_layer.bias.numpy()
    bias[UNK_ID], bias[EOS_ID] = 4, -3
    model.output_layer.bias.assign(bias)
    return model


def translate(model, words, lexicon=None):
    replacer = UnknownReplacer(model, words, lexicon)
    translator = Translator.of(model, words, beam_size=2, unknowns=replacer, **BRIEF)
    return translator.translate(LINES, 2), replacer.counts


@pytest.fixture(scope="module")
def copied(model, words):
    return translate(model, words)


def test_a_transformer_chooses_the_word_by_its_guided_head(words):
    keras.utils.set_random_seed(1)
    sizes = len(words.source), len(words.target)
    settings = {**SMALL, "tie_embeddings": "target", "alignment_head": "first"}
    model = models.create("transformer_tiny", *sizes, **settings)
    for weight in model.trainable_variables:
        weight.assign(weight * 4)
    line, ids = "one zebra sees the dog", [UNK_ID, UNK_ID, UNK_ID, EOS_ID]
    batch = (words.source.encode([line]), [ids])
    heads = model.attention_maps(*(tf.constant(row, tf.int32) for row in batch))
    places = heads["decoder/0/cross"][0, :, :3, :-1].numpy().argmax(axis=-1)
    assert (places[0] != places[1]).any(), "the heads agree too much to test anything"
    (text,), _ = UnknownReplacer(model, words).texts(line, [ids])
    assert text.split() == [line.split()[place] for place in places[0]]


def test_an_unknown_word_becomes_the_source_word_with_the_highest_attention(model, words, copied):
    results, counts = copied
    found = []
    for line, translations in zip(LINES, results, strict=True):
        source = tf.constant(words.source.encode([line]), tf.int32)
        for ids, text in ((t.ids, t.text) for t in translations):
            weights = model.align(source, tf.constant([ids], tf.int32))[0].numpy()
            texts = words.target.pieces(ids)
            for position in np.flatnonzero(np.equal(ids, UNK_ID)):
                found.append(int(weights[position, :-1].argmax()))
                texts[position] = line.split()[found[-1]]
            assert text == " ".join(texts).removesuffix("</s>").rstrip()
    assert counts == {"copied": len(found)}
    assert len(found) > 5 and len(set(found)) > 1, "the model says too little to test anything"


def test_a_lexicon_translates_the_words_it_has(model, words, copied):
    plain_results, counts = copied
    lexicon = {"zebra": "ZEBRA", "the": "DAS"}
    results, more = translate(model, words, lexicon)
    for plain, translated in zip(plain_results, results, strict=True):
        for one, other in zip(plain, translated, strict=True):
            assert one.ids == other.ids
            assert other.text == " ".join(lexicon.get(word, word) for word in one.text.split())
    assert more["translated"] > 0
    assert more["translated"] + more["copied"] == counts["copied"]


def test_replacements_are_counted_in_what_is_written_alone(model, words):
    for options in ({"beam_size": 4}, {"beam_size": 4, "mbr": 4, "split_sentences": True}):
        replacer = UnknownReplacer(model, words)
        translator = Translator.of(model, words, unknowns=replacer, **BRIEF, **options)
        results = translator.translate([*LINES, "zebra sees zebra. The zebra runs."], 2)
        written = sum(t.ids.count(UNK_ID) for translations in results for t in translations)
        assert written and replacer.counts == {"copied": written}


def test_pieces_are_copied_as_they_stand(tmp_path):
    path = tmp_path / "pieces.txt"
    path.write_text("un@@\nknown\ndog\n")
    vocabulary = PieceVocabulary.from_pieces(path)
    assert vocabulary.decode([5, UNK_ID, UNK_ID, 3, UNK_ID], ["ze@@", "bra"]) == "known zebra"


def test_models_and_vocabularies_without_unknown_words_are_refused(words, pieces):
    blind = create(words, "lstm_seq2seq")
    with pytest.raises(UserError, match="no attention"):
        UnknownReplacer(blind, words)
    with pytest.raises(UserError, match="spells every word"):
        UnknownReplacer(create(pieces), pieces)


def test_a_lexicon_gives_the_most_probable_translation(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("Haus building 0.2\nHaus house 0.7\nHund\tdog\t1\nHaus home 0.7\nKatze cat 0\n")
    assert read_lexicon(path) == {"Haus": "house", "Hund": "dog", "Katze": "cat"}


def test_weights_of_a_word_are_those_of_its_own_position(model, words):
    """Hypotheses of different lengths in one batch do not change which words are copied."""
    replacer = UnknownReplacer(model, words)
    line = "one zebra sees the dog"
    ids = [[UNK_ID, 5, UNK_ID, 6, UNK_ID, 3], [UNK_ID, 3]]
    together, _ = replacer.texts(line, ids)
    assert together == [replacer.texts(line, [row])[0][0] for row in ids]
    assert np.all([word in line.split() for word in together[1].split()])
