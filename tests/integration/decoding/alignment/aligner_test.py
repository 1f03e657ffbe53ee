"""Tests of links between the words of lines, from models of all kinds."""

import itertools
import math
import random

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, BpeVocabulary
from nmt_zoo.decoding.alignment.aligner import (
    Aligner,
    EncodedText,
    batches,
)
from nmt_zoo.decoding.alignment.subword_merging import word_weights
from tests.tiny import SMALL, WORDS
from tests.unit.data_pipeline.small import foreign_model

LENGTHS = [0, 3, 1, 0, 7, 2]


@pytest.fixture(scope="module")
def tokenizers(words, pieces):
    return {"word": words, "bpe": pieces}


def make_aligner(tokenizer, preset="transformer_tiny", settings=SMALL, **options):
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create(preset, *sizes, **settings)
    return Aligner(model, tokenizer, **options), model


@pytest.fixture(scope="module")
def dictionary(tokenizers):
    """An `ibm1_factored` that gives each source word a translation of its own."""
    tokenizer = tokenizers["word"]
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create("ibm1_factored", *sizes, width=len(WORDS))
    source, target = np.zeros([sizes[0], len(WORDS)]), np.zeros([len(WORDS), sizes[1]])
    for place, (word, translation) in enumerate(WORDS.items()):
        source[tokenizer.source.index[word], place] = 10.0
        target[place, tokenizer.target.index[translation]] = 1.0
    model.source_embedding.embeddings.assign(source)
    model.output_layer.kernel.assign(target)
    return model


_SMALL_LSTM = {"embedding_width": 4, "encoder_units": 4, "decoder_units": 8}


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("gru_bahdanau", {**_SMALL_LSTM, "rank": 600}),
        ("ibm1_factored", {"width": 4}),
    ],
)
def test_the_largest_tensor_of_a_batch_has_a_bound_for_every_model(preset, settings):
    model, length = models.create(preset, 50, 30_000, **settings), 60
    batch, *_ = batches(np.full([1, 2, 3000], length), sizes=model.align_sizes)
    spec = tf.TensorSpec([1, length], tf.int32)
    graph = tf.function(model.align, autograph=False).get_concrete_function(spec, spec).graph
    shapes = [tensor.shape for each in graph.get_operations() for tensor in each.outputs]
    weights = {30_000 * width for width in (4, 8)}  # Of the output layer, whatever the batch.
    sizes = {math.prod(shape) for shape in shapes if shape.is_fully_defined()} - weights
    assert batch.size * max(sizes) <= 1 << 26
    assert batch.size > 20


def test_words_are_linked_with_their_translations_wherever_they_stand(tokenizers, dictionary):
    aligner = Aligner(dictionary, tokenizers["word"])
    links = aligner.links(
        ["dog  sees cat", "", "house", "one\ttwo", " "],
        ["Katze Hund sieht", "Hund", "", "zwei", ""],
    )
    assert links == [[(0, 1), (1, 2), (2, 0)], [], [], [(1, 0)], []]


def test_links_are_of_the_largest_weight_or_of_all_above_a_threshold(tokenizers, dictionary):
    aligner = Aligner(dictionary, tokenizers["word"])
    # An unknown target word is equally improbable given each source word. `</s>` wins, because all
    # its logits are 0.
    assert aligner.links(["dog cat"], ["Hund Quux"]) == [[(0, 0)]]
    twice = ["dog dog"], ["Hund Katze"]
    assert aligner.links(*twice) == [[(0, 0)]]
    assert aligner.links(*twice, threshold=0.4) == [[(0, 0), (1, 0)]]
    assert aligner.links(*twice, threshold=0.6) == [[]]


@pytest.mark.usefixtures("eagerly")
def test_a_batch_aligns_as_its_sentences_alone(tokenizers):
    aligner, _ = make_aligner(tokenizers["bpe"])
    rng = random.Random(1)
    sides = [
        [" ".join(rng.choices(words, k=length)) for length in LENGTHS]
        for words in (list(WORDS), list(WORDS.values()))
    ]
    links = aligner.links(*sides, threshold=0.05)
    assert links == [
        aligner.links([s], [t], threshold=0.05)[0] for s, t in zip(*sides, strict=True)
    ]
    assert [bool(pair) for pair in links] == [length > 0 for length in LENGTHS]
    for pair, length in zip(links, LENGTHS, strict=True):
        assert all(0 <= place < length for link in pair for place in link)


@pytest.fixture(scope="module")
def deep(words):
    sizes = len(words.source), len(words.target)
    return models.create("transformer_tiny", *sizes, **{**SMALL, "num_decoder_layers": 2})


@pytest.mark.usefixtures("eagerly")
def test_layers_and_heads_are_those_of_the_attention_maps(words, deep):
    line, translation = "one dog sees two", "Hund eins zwei"
    ids = [v.encode([text])[0] for v, text in zip(words[1:], (line, translation), strict=True)]
    maps = deep.attention_maps(*(np.array([row], np.int32) for row in ids))
    weights = maps["decoder/1/cross"].numpy()[0]
    for head, expected in ((1, weights[0]), (None, weights.mean(0))):
        aligner = Aligner(deep, words, layer=2, head=head)
        (links,) = aligner.links([line], [translation], threshold=0.2)
        assert links == sorted((s, t) for t, s in np.argwhere(expected[:-1, :-1] > 0.2).tolist())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layer": 3}, r"x: there is no layer 3 .*; layers: 1, 2$"),
        ({"layer": 1, "head": 3}, "x: there is no head 3; heads: 1 to 2, or mean$"),
        ({"head": 1}, "x has attention heads in 2 layers; also give --layer$"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_named(words, deep, options, expected):
    with pytest.raises(UserError, match=expected):
        Aligner(deep, words, name="x", **options)


@pytest.mark.parametrize("preset", ["attention_ibm1", "lstm_seq2seq"])
def test_a_model_that_aligns_nothing_is_refused(tokenizers, preset):
    with pytest.raises(UserError, match="x cannot align words"):
        make_aligner(tokenizers["word"], preset, {}, name="x")


def test_text_of_which_no_word_is_known_is_refused_and_lines_are_counted(tokenizers):
    names = "a.en", "a.de"
    some = (["dog", "foo", ""], ["bar baz", "Hund", "quux"])
    assert EncodedText(tokenizers["word"], names, some).count_unknown("x") == 1 + 2
    none = (["dog", ""], ["bar", "baz"])
    with pytest.raises(UserError, match=r"a\.de, lines 1 to 2: the model of x knows none"):
        EncodedText(tokenizers["word"], names, none).count_unknown("the model of x")
    assert EncodedText(tokenizers["bpe"], names, none).count_unknown("x") == 0


# Words that nmt_nfkc changes in their number of bytes, drops or makes a space, unknown characters,
# and ordinary words.
FOREIGN_WORDS = (
    *("½", "ﬁre", "№", "ﷺ", "ｆｕｌｌ", "où\u00a0?", "\u3000", "e\u0301", "\x07", "a\u200bb"),
    *("\u200b", "\ufffd", "a\u2028b", "▁", "▁a", "漢字", "😀", "x漢y", "the", "cup", "of", "milk"),
)


@pytest.mark.parametrize(
    "options", [{}, {"model_type": "unigram"}, {"byte_fallback": True, "vocab_size": 400}]
)
def test_tokens_of_a_ready_model_belong_to_their_words(options, tmp_path):
    """The tokens of a line are the tokens of its words in order."""
    options = {"vocab_size": 60, "hard_vocab_limit": False, **options}
    text = ["½ cup of milk", "the ﬁre dog sees the cat"] * 50
    (tmp_path / "given.model").write_bytes(foreign_model(text, **options))
    foreign = BpeVocabulary.from_model(tmp_path / "given.model")
    rng = random.Random(1)
    lines = ["½ cup of milk", "the ﬁre dog sees the cat", "où\u00a0? là", " ", ""]
    for _ in range(100):
        words = rng.choices(FOREIGN_WORDS, k=rng.randint(0, 6))
        lines.append("".join(rng.choice([" ", "  ", "\t"]) + word for word in words))
    for line, numbers in zip(lines, foreign.word_numbers(lines), strict=True):
        words = split_words(line)
        alone = [ids[:-1] for ids in foreign.encode(words)]
        assert [[*itertools.chain(*alone), EOS_ID]] == foreign.encode([line])
        expected = [number for number, ids in enumerate(alone) for _ in ids]
        assert numbers == [*expected, len(words)], line


def test_a_word_without_a_token_is_not_linked():
    merged = word_weights(np.full((2, 3), 1 / 3), [0, 2, 3], [1, 2])
    np.testing.assert_allclose(merged[:, 1], 0)
    np.testing.assert_allclose(merged[0], [0, 0, 0, 1])
    np.testing.assert_allclose(merged[1], [1 / 3, 0, 1 / 3, 1 / 3])
