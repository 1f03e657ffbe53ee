"""Decoding with coverage and a planned length, for all models that use them."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.models.coverage import TranslationLength
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.word_attention import WordAttention
from tests.tiny import traced_search
from tests.unit.models.layers_test import close, ids

PAD, BOS, EOS = 0, 2, 3


def test_lengths_of_translations_are_a_distribution_about_their_mean():
    layer = TranslationLength()
    layer.build(None)
    layer.parameters.assign([1.0, 1.5, 0.5])
    mask = tf.sequence_mask([5, 4, 1], 5)
    close(layer.mean(mask), [8.5, 7.0, 2.5])
    lengths = np.arange(1, 200)
    alive, mean, total = np.ones(3), np.zeros(3), np.zeros(3)
    for length in lengths:
        end = layer.end_probability(length - 1, mask).numpy()
        assert (end > 0).all() and (end <= 1).all()
        total += alive * end
        mean += alive * end * length
        alive *= 1 - end
    close(total, np.ones(3), 1e-4)
    # Lengths below 1 are impossible; their probability goes to the shortest lengths.
    np.testing.assert_allclose(mean[:2], [8.5, 7.0], rtol=0.05)


def alignment_model(positions):
    model = AlignmentModel(12, 12, positions=positions, num_word_pairs=8, smoothing=0.001)
    model.table.set_word_pairs(np.arange(4, 12), np.arange(4, 12))
    return model


def word_attention(average, max_positions):
    model = WordAttention(12, 12, average=average, width=12, max_positions=max_positions)
    for weight in model.trainable_variables:
        weight.assign(tf.zeros_like(weight))
    model.source_embedding.embeddings.assign(10 * np.eye(12))
    model.output_layer.kernel.assign(np.eye(12))
    return model


CASES = {
    **{name: (alignment_model, name) for name in ("table", "diagonal", "jumps")},
    "average of probabilities": (word_attention, "probabilities", 0),
    "average by position": (word_attention, "embeddings", 8),
}


@pytest.fixture(scope="module", params=CASES)
def model(request):
    """A model in which word 4 + k always translates word 4 + k."""
    create, *arguments = CASES[request.param]
    model = create(*arguments)
    model.length.parameters.assign([0.0, 1.0, 0.05])
    return model


@pytest.mark.usefixtures("eagerly")
def test_a_translation_has_every_word_once_in_order_and_ends(model):
    source = [[5, 9, 4, 10, 8, 5, EOS], [7, 7, 6, EOS, 0, 0, 0], [11, EOS, 0, 0, 0, 0, 0]]
    search = traced_search(model, 10, 3, emit_unknowns=True)
    best = search(ids(source)).ids[:, 0]
    np.testing.assert_array_equal(best[:, :7], source)
    assert not best[:, 7:].any()


def test_a_step_counts_covered_words_and_ends_with_the_probability_of_the_length_alone(model):
    context = model.encode(ids([[5, 9, 4, EOS]]))
    state, ends = model.initial_state(context), []
    steps = (BOS, [0, 0, 0, 0]), (9, [0, 1, 0, 0]), (5, [1, 1, 0, 0]), (4, [1, 1, 1, 0])
    for step, (token, covered) in enumerate(steps):
        output = model.decode_step(ids([token]), step, state, context)
        state = output.state
        np.testing.assert_allclose(state["coverage"][0], covered, atol=0.1)
        probabilities = np.exp(output.logits[0])
        close(probabilities.sum(), 1)
        ends.append(probabilities[EOS])
        if step < 3:
            assert covered[[5, 9, 4].index(4 + probabilities[4:].argmax())] == 0
    mask = context["source_mask"]
    close(ends, [model.length.end_probability(step, mask)[0] for step in range(4)])
    assert ends[2] < 0.2 < ends[3]
