"""Tests of the choices at the end of a run: the length penalty, and the attention that aligns."""

import itertools

import keras
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.alignment.links import GoldAlignment, score_alignments
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.validation.choices import (
    LEAST_LINES,
    PENALTIES,
    choice,
    head_choice,
    penalty_choice,
)
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import usual_links
from tests.tiny import SMALL, pairs, save_model


@pytest.fixture(scope="module")
def text():
    several = [pair for pair in pairs(2 * LEAST_LINES) if " " in pair[0]]
    return [list(side) for side in zip(*several[: LEAST_LINES + 20], strict=True)]


@pytest.fixture(scope="module")
def tokenizer(text):
    return train_tokenizer("word", *text, min_word_count=1)


@pytest.fixture(scope="module")
def model(tokenizer):
    keras.utils.set_random_seed(1)
    sizes = len(tokenizer.source), len(tokenizer.target)
    settings = {**SMALL, "num_decoder_layers": 2, "tie_embeddings": "none"}
    return models.create("transformer_tiny", *sizes, **settings)


def test_the_scores_are_those_of_a_translator(model, tokenizer, text):
    _, found = penalty_choice(model, tokenizer, text)(lambda: False)
    assert found["lines"] == len(text[0])
    bleu = dict(found["bleu"])
    assert set(bleu) == set(PENALTIES) and found["length_penalty"] in PENALTIES
    assert len(set(bleu.values())) > 1
    translator = Translator.of(model, tokenizer, beam_size=4, length_penalty=PENALTIES[-1])
    outputs = [best[0].text for best in translator.translate(text[0])]
    assert bleu[PENALTIES[-1]] == corpus_scores(outputs, [text[1]])["bleu"].score


def test_the_nearest_to_1_is_chosen_of_those_not_clearly_worse():
    references = [f"{i} a b c d e" for i in range(LEAST_LINES)]

    def with_faults(lines):
        return ["x y z" if i in lines else line for i, line in enumerate(references)]

    perfect, chance, bad = with_faults(()), with_faults({1}), with_faults(range(20, 60))
    for outputs, expected in (
        ({0.0: bad, 0.6: bad, 1.0: bad, 2.0: perfect}, 2.0),
        ({0.0: bad, 0.6: bad, 1.0: chance, 2.0: perfect}, 1.0),
        ({0.0: perfect, 0.6: chance, 1.0: perfect}, 1.0),
        ({0.0: perfect, 0.6: perfect, 1.0: bad}, 0.0),
        ({0.0: perfect, 0.3: chance, 0.6: bad, 1.0: bad}, 0.0),
        # Text that is a little different would meet the fall.
        ({0.0: chance, 0.3: perfect, 0.6: bad, 1.0: bad}, 0.0),
        ({0.6: chance, 1.0: chance, 1.5: perfect, 2.0: bad}, 1.0),
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
    empty_lines = [[*few[0], "", ""], [*few[1], "x", "x"]]
    blank_references = [[*few[0], "x", "x"], [*few[1], " ", ""]]
    for lines in (few, empty_lines, blank_references):
        assert penalty_choice(model, tokenizer, lines) is None


def test_when_time_is_over_the_lines_before_count_if_they_are_enough(model, tokenizer, text):
    choose = penalty_choice(model, tokenizer, text)
    left = iter([False] * 7 + [True])
    assert LEAST_LINES <= choose(lambda: next(left))[1]["lines"] < len(text[0])
    assert choose(lambda: True) is None


def test_the_head_that_agrees_best_aligns_once_the_model_is_loaded(
    model, tokenizer, text, tmp_path
):
    line, chosen = head_choice(model, tokenizer, text)(lambda: False)
    links = usual_links([map(str.split, side) for side in text], shows=False)
    gold, rates = [GoldAlignment(*[frozenset(pair)] * 2) for pair in links], {}
    for place in itertools.product((1, 2), (1, 2, "mean")):
        aligner = Aligner(model, tokenizer, layer=place[0], head=place[1])
        rates[place] = score_alignments(aligner.links(*text), gold).aer
    best = min(rates, key=rates.get)
    assert best != model.alignment == (1, "mean")
    assert chosen == {"alignment": {"layer": best[0], "head": best[1], "aer": rates[best]}}
    assert f" by layer {best[0]}, head {best[1]}, from now on" in line
    save_model(tmp_path / "m", "transformer_tiny", model.settings, tokenizer)
    directory = ModelDirectory(tmp_path / "m")
    directory.write_search({"length_penalty": 1.0, **chosen})
    assert directory.load()[0].alignment == best
    directory.write_search({"length_penalty": 1.0, "alignment": {"layer": 3, "head": 1}})
    with pytest.raises(UserError, match=r"search\.json: damaged .*a head that is not there"):
        directory.load()


def test_no_head_is_chosen_without_enough_text_or_time_or_with_a_guide(model, tokenizer, text):
    assert head_choice(model, tokenizer, [side[21:] for side in text]) is None
    assert head_choice(model, tokenizer, (["xy"] * 120, text[1])) is None
    assert head_choice(model, tokenizer, text)(lambda: True) is None
    line, chosen = head_choice(model, tokenizer, (["x y"] * 120, text[1]))(lambda: False)
    assert not chosen and "knows none of their words" in line
    sizes = len(tokenizer.source), len(tokenizer.target)
    guided = models.create(
        "transformer_tiny", *sizes, **{**model.settings, "alignment_head": "first"}
    )
    assert head_choice(guided, tokenizer, text) is None
