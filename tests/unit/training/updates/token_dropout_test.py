"""Token dropout: inputs lose tokens at the expected rate; what is predicted stays."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    UNK_ID,
)
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.token_dropout import TokenDropout
from tests.tiny import SMALL

pytestmark = pytest.mark.usefixtures("eagerly")

ROWS, WIDTH = 400, 30


def inputs():
    """Source and decoder input of sentences of all lengths: `<s>` first, `</s>` last, padding."""
    lengths = 1 + np.arange(ROWS)[:, None] % (WIDTH - 1)
    columns = np.arange(WIDTH)
    ids = np.random.default_rng(0).integers(4, 50, (ROWS, WIDTH))
    source = np.select([columns < lengths, columns == lengths], [ids, 3], 0)
    target = np.select([columns == 0, columns < lengths], [2, ids], 0)
    return {"source_ids": tf.constant(source), "target_in_ids": tf.constant(target)}


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_words_of_both_sides_become_unknown_at_the_rate_and_specials_never(rate):
    """Every call drops other tokens, which the saved seed determines."""
    keras.utils.set_random_seed(1)
    dropout, both = TokenDropout(rate), inputs()
    (state,) = dropout.variables.values()
    seed = state.numpy()
    first, second = dropout(both), dropout(both)
    for name in both:
        before, after = both[name].numpy(), first[name].numpy()
        words = before > 3
        changed = before != after
        assert not changed[~words].any() and (after[changed] == UNK_ID).all()
        spread = np.sqrt(rate * (1 - rate) / words.sum())
        assert abs(changed[words].mean() - rate) < 4 * spread
        assert (second[name].numpy() != after).any()
    state.assign(seed)
    np.testing.assert_array_equal(dropout(both)["source_ids"], first["source_ids"])


def test_losses_are_of_the_true_targets_and_validation_drops_nothing():
    """Where every token is dropped, all that is left to learn is to count words."""
    keras.utils.set_random_seed(1)
    model = models.create("transformer_tiny", 11, 11, **SMALL, dropout=0.0)
    ids = tf.constant([[5, 6, 3], [9, 3, 0]])
    batch = {"source_ids": ids, "target_ids": ids}
    of_unknown = {
        "source_ids": tf.where(ids > 3, UNK_ID, ids),
        "target_in_ids": tf.constant([[2, UNK_ID, UNK_ID], [2, UNK_ID, 0]]),
    }
    log_probs = tf.nn.log_softmax(model(of_unknown))
    expected = -tf.reduce_sum(tf.gather(log_probs, ids, batch_dims=2)[ids != 0])
    update, plain = (
        Gradient(model, keras.optimizers.SGD(1.0), token_dropout=dropout)
        for dropout in (TokenDropout(1.0), None)
    )
    _, (_, _, nll, tokens) = update.gradients(batch)
    assert tokens == 5
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    np.testing.assert_array_equal(update.evaluate(batch)["nll"], plain.evaluate(batch)["nll"])
