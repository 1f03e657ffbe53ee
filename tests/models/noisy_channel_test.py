"""The noisy channel against brute force over all short translations."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from decoding.beam_search import beam_search
from models.ibm import AlignmentModel
from models.noisy_channel import NoisyChannel
from tests.ngrams import VOCAB, model_of, random_text

PAD, UNK, BOS, EOS = range(4)
SOURCE_VOCAB = 8
SOURCE = tf.constant([[5, 6, 4, EOS], [7, EOS, PAD, PAD], [4, 4, UNK, EOS]])


@pytest.fixture(scope="module")
def language_model():
    return model_of(random_text(1), 3)[0]


@pytest.fixture(scope="module")
def channel():
    """Model 1 from the language model's words to those of `SOURCE`, sharp and with gaps."""
    generator = np.random.default_rng(2)
    present = generator.random((VOCAB, SOURCE_VOCAB)) < 0.6
    present[[PAD, BOS]] = present[:, [PAD, BOS]] = False
    words, sources = np.nonzero(present)
    model = AlignmentModel(VOCAB, SOURCE_VOCAB, num_word_pairs=words.size, smoothing=0.02)
    model.table.set_word_pairs(words, sources)
    model.table.logits.assign(generator.normal(size=words.size) * 2)
    return model


def search(model, beam_size, limit, source_ids=SOURCE, forbidden=()):
    found = tf.function(
        lambda ids: beam_search(
            model,
            ids,
            beam_size=beam_size,
            max_target_length=limit,
            length_penalty=0.0,
            bos_id=BOS,
            eos_id=EOS,
            pad_id=PAD,
            forbidden_ids=forbidden,
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )(source_ids)
    return tf.nest.map_structure(lambda t: t.numpy(), found)


def bayes(channel, language_model, weight, source, target):
    """log P(f | e) + weight log P(e) of one pair, by the models' own scores."""
    source, target = tf.constant([source]), tf.constant([target])
    language = tf.reduce_sum(language_model.score(source, target))
    return float(tf.reduce_sum(channel.score(target, source)) + weight * language)


@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_finds_what_brute_force_finds_with_the_scores_of_both_models(
    channel, language_model, weight
):
    limit, words = 4, range(4, VOCAB - 1)
    model = NoisyChannel(
        channel, language_model, weight=weight, num_translations=VOCAB, num_frequent=VOCAB
    )
    found = search(model, 330, limit, forbidden=(UNK, VOCAB - 1))
    every = [
        (*body, EOS) for size in range(limit) for body in itertools.product(words, repeat=size)
    ]
    for row, padded in enumerate(SOURCE.numpy()):
        source = padded[padded != PAD]
        scores = [bayes(channel, language_model, weight, source, target) for target in every]
        best = np.argsort(scores)[::-1]
        np.testing.assert_allclose(
            found.log_probs[row, : len(every)], np.array(scores)[best], rtol=1e-4
        )
        top = found.ids[row, 0]
        assert tuple(top[top != PAD]) == every[best[0]]
