"""Tests of the choice of the length penalty."""

import keras
import pytest

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.training.validation.length_penalty import LEAST_LINES, PENALTIES, PenaltyChoice, choice
from tests.tiny import SMALL, pairs


@pytest.fixture(scope="module")
def text():
    return [list(side) for side in zip(*pairs(LEAST_LINES + 20), strict=True)]


@pytest.fixture(scope="module")
def tokenizer(text):
    return train_tokenizer("word", *text, min_word_count=1)


@pytest.fixture(scope="module")
def model(tokenizer):
    keras.utils.set_random_seed(1)
    sizes = len(tokenizer.source), len(tokenizer.target)
    return models.create("transformer_tiny", *sizes, **SMALL, tie_embeddings="none")


def test_the_scores_are_those_of_a_translator(model, tokenizer, text):
    found = PenaltyChoice(model, tokenizer, *text)()
    assert found["lines"] == len(text[0])
    bleu = dict(found["bleu"])
    assert set(bleu) == set(PENALTIES) and found["length_penalty"] in PENALTIES
    assert len(set(bleu.values())) > 1
    translator = Translator.of(model, tokenizer, beam_size=4, length_penalty=PENALTIES[-1])
    outputs = [best[0].text for best in translator.translate(text[0])]
    assert bleu[PENALTIES[-1]] == corpus_scores(outputs, [text[1]])["bleu"].score


def test_the_nearest_to_the_usual_one_is_chosen_of_those_not_clearly_worse():
    references = [f"{i} a b c d e" for i in range(LEAST_LINES)]

    def with_faults(lines):
        return ["x y z" if i in lines else line for i, line in enumerate(references)]

    perfect, chance, bad = with_faults(()), with_faults({1}), with_faults(range(20, 60))
    for outputs, expected in (
        ({0.0: bad, 0.6: bad, 1.0: bad, 2.0: perfect}, 2.0),
        ({0.0: bad, 0.6: bad, 1.0: chance, 2.0: perfect}, 1.0),
        ({0.0: perfect, 0.6: chance, 1.0: perfect}, 0.6),
        ({0.0: perfect, 0.6: perfect, 1.0: perfect}, 0.6),
        ({0.0: chance, 0.3: perfect, 0.6: bad, 1.0: bad}, 0.3),
    ):
        assert choice(outputs, references)[0] == expected


def test_nothing_is_chosen_among_zeros():
    text = ["那狗。"] * LEAST_LINES
    outputs = {0.0: text, 0.6: ["那。"] * LEAST_LINES}
    assert choice(outputs, text) == (None, {0.0: 0.0, 0.6: 0.0})
    outputs = {penalty: [line * 3 for line in lines] for penalty, lines in outputs.items()}
    assert choice(outputs, [line * 3 for line in text], "zh")[0] == 0.0


def test_too_few_lines_choose_nothing(model, tokenizer, text):
    few = [side[: LEAST_LINES - 1] for side in text]
    assert not PenaltyChoice(model, tokenizer, *few).is_possible
    empty_lines = [[*few[0], "", ""], [*few[1], "x", "x"]]
    assert not PenaltyChoice(model, tokenizer, *empty_lines).is_possible
    blank_references = [[*few[0], "x", "x"], [*few[1], " ", ""]]
    assert not PenaltyChoice(model, tokenizer, *blank_references).is_possible
    assert PenaltyChoice(model, tokenizer, *text).is_possible


def test_when_time_is_over_the_lines_before_count_if_they_are_enough(model, tokenizer, text):
    choice = PenaltyChoice(model, tokenizer, *text)
    left = iter([False] * 7 + [True])
    assert LEAST_LINES <= choice(lambda: next(left))["lines"] < len(text[0])
    assert choice(lambda: True) is None
