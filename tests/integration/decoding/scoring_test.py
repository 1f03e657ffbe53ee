"""Given translations have the scores that a search gives them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.scoring import Scorer, make_scorer
from nmt_zoo.decoding.text.formats import n_best_lines
from nmt_zoo.decoding.translator import EMPTY, NO_MEMORY, TOO_LONG, Translation
from nmt_zoo.models.combination import Ensemble, ShallowFusion
from nmt_zoo.models.noisy_channel import NoisyChannel
from tests.integration.decoding.conftest import LINES
from tests.integration.models.contract_test import create, randomised
from tests.ngrams import VOCAB, model_of, random_text
from tests.tiny import SMALL, Echo, Greedy, traced_search

pytestmark = pytest.mark.usefixtures("eagerly")


def fused():
    model = models.create("transformer_tiny", VOCAB, VOCAB, **SMALL)
    return ShallowFusion(randomised(model), model_of(random_text(1), 3)[0], weight=0.3)


def noisy_channel():
    channel = models.create("ibm1", VOCAB, VOCAB, num_word_pairs=VOCAB * VOCAB)
    channel.table.set_word_pairs(*np.divmod(np.arange(VOCAB * VOCAB), VOCAB))
    every = {"num_translations": VOCAB, "num_frequent": VOCAB}
    return NoisyChannel(randomised(channel), model_of(random_text(1), 3)[0], weight=0.7, **every)


MODELS = {
    **{
        name: lambda name=name: randomised(create(name))
        for name in ("transformer_tiny", "lstm_luong", "attention_ibm2")
    },
    "ensemble": lambda: Ensemble([MODELS["transformer_tiny"](), MODELS["lstm_luong"]()]),
    "fusion": fused,
    "noisy channel": noisy_channel,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_score_of_an_output_is_that_of_the_search(name):
    keras.utils.set_random_seed(3)
    model = MODELS[name]()
    source = tf.constant([[5, 6, 4, EOS_ID], [7, EOS_ID, 0, 0], [4, 4, EOS_ID, 0]])
    found = traced_search(model, limit=6)(source)
    ids = tf.reshape(found.ids, [9, -1])
    found_again = make_scorer(model, 2)(tf.repeat(source, 3, axis=0), ids)
    scores = tf.where(ids == PAD_ID, 0.0, found_again.log_probs)
    log_probs = found.log_probs.reshape(-1)
    real = log_probs > -1e8
    assert real.sum() >= 6
    np.testing.assert_allclose(tf.reduce_sum(scores, 1).numpy()[real], log_probs[real], rtol=2e-5)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_lines_have_the_scores_of_their_translations(parts, at_once, batch_size):
    scorer, num_finished = Scorer(*parts, batch_size=batch_size), 0
    for place in range(3):
        expected = [best[min(place, len(best) - 1)] for best in at_once]
        scored = scorer.score(LINES, [translation.text for translation in expected])
        for one, other in zip(scored, expected, strict=True):
            if other.finished:
                num_finished += len(other.ids) > 1
                assert one.text == other.text and one.ids == other.ids
                assert one.log_prob == pytest.approx(other.log_prob, rel=2e-5)
                assert one.score == pytest.approx(other.score, rel=2e-5)
    assert scored[1] == EMPTY and num_finished > 2


def test_the_perplexity_is_that_of_all_tokens_of_pairs_that_are_not_empty(parts):
    scorer = Scorer(*parts)
    assert scorer.summary() == "nothing was scored"
    scored = scorer.score(LINES, ["eins Hund", "", "Katze", "zwei Zebra", "Haus", ""])
    assert scorer.num_tokens == scorer.num_words == 3 + 2 + 3 + 2 + 1
    assert scorer.log_prob == pytest.approx(sum(one.log_prob for one in scored))
    perplexity = np.exp(-scorer.log_prob / 11)
    assert f"perplexity {perplexity:.4g} per token (11)" in scorer.summary()
    assert scorer.summary().endswith("; 1 of 11 tokens are not in the vocabulary")


def test_a_pair_that_cannot_be_scored_costs_no_other(words, graphs):
    sources = ["one", "big cat", "dog", "cat " * 9]
    sizes = len(words.source), len(words.target)
    greedy = Greedy(max(sizes), token=words.source.encode(["big"])[0][0])
    scorer = Scorer(greedy, words, max_input_tokens=9)
    scored = scorer.score(sources, ["eins", "Katze", "Hund", "Katze"])
    assert [one.problem for one in scored] == ["", NO_MEMORY, "", TOO_LONG]
    assert [one.text for one in scored] == ["eins", "Katze", "Hund", "Katze"]
    assert "; 1 pairs not scored (longer than the limit)" in scorer.summary()


class Diverged(Echo):
    def decode_step(self, *arguments):
        output = super().decode_step(*arguments)
        return output._replace(logits=output.logits * np.nan)


def test_scores_that_are_not_numbers_are_one_line(words):
    scorer = Scorer(Diverged(30), words, name="the model in runs/x")
    with pytest.raises(UserError, match=r"^the model in runs/x gives .* not numbers, for line 12:"):
        scorer.score(["", "one"], ["", "eins"], [11, 12])


def test_bars_in_translations_are_written_as_entities():
    translation = Translation("Hund ||| 5", -1.0, -2.0, True, [5, 3])
    lines = n_best_lines((0, ["a ||| b"]), [[translation]])
    assert lines == ["0 ||| Hund &#124;&#124;&#124; 5 ||| -1.0000"]
