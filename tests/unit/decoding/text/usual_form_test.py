"""Lines reach the model in the form of its training text, and translations get that of the line."""

import pytest

from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.text.kept_parts import KeptParts
from nmt_zoo.decoding.text.usual_form import UsualForm

TEXT = ["One dog sees two cats, and New York's IBM", "the dog sees the cats"] * 9


@pytest.fixture(scope="module", params=["bpe", "word"])
def usual_form(request):
    return UsualForm(train_tokenizer(request.param, TEXT, TEXT, vocab_size=300).source)


@pytest.mark.parametrize(
    ("line", "small", "translation", "restored"),
    [
        ("ONE DOG SEES {x}", "One dog sees {x}", "eine Straße {x}", "EINE STRASSE {x}"),
        ("THE CATS!", "the cats!", "die Katzen!", "DIE KATZEN!"),
        ("One Dog Sees IBM", "One dog sees IBM", "ein Hund's IBM", "Ein Hund's IBM"),
    ],
)
def test_capitals_go_and_come_back(usual_form, line, small, translation, restored):
    found, form = usual_form.of(line)
    assert (found, form(translation)) == (small, restored)
    assert usual_form.of(found) == (found, None)


@pytest.mark.parametrize("line", ["DOGS .", "TWO dogs", "Two Cats", "2 3", "", "<A> <B> <C>"])
def test_other_lines_stay(usual_form, line):
    assert usual_form.of(line) == (line, None)


def test_a_model_that_knows_capitals_gets_them():
    text = [line.upper() for line in TEXT]
    usual_form = UsualForm(train_tokenizer("bpe", text, text, vocab_size=300).source)
    assert usual_form.of("THE DOG SEES THE CATS") == ("THE DOG SEES THE CATS", None)


@pytest.mark.parametrize(
    ("line", "usual", "translation", "restored"),
    [
        ("the dog sees", "the dog sees.", "der Hund sieht.", "der Hund sieht"),
        ("THE CATS (two)", "THE CATS (two).", "die Katzen (zwei)", "die Katzen (zwei)"),
        ("THE CATS", "the cats.", "die Katzen.", "DIE KATZEN"),
        ("the dog sees?", "the dog sees?", "", ""),
        ("the (dog sees.)", "the (dog sees.)", "", ""),
        ("the dog sees .", "the dog sees .", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_line_gets_the_stop_that_training_lines_have_and_its_translation_loses_it(
    line, usual, translation, restored
):
    lines = [f"{text}." for text in TEXT]
    form = UsualForm(train_tokenizer("bpe", lines, lines, vocab_size=300).source, stop=".")
    found, restore = form.of(line)
    assert found == usual and (restore or str)(translation) == restored


def test_hidden_parts_get_their_capitals_back():
    text = ["one dog sees two cats"] * 9
    tokenizer = train_tokenizer("bpe", text, text, vocab_size=400)
    small, form = UsualForm(tokenizer.source).of("✓ ONE DOG SEES {x} ČAPEK")
    keep = KeptParts("", tokenizer)
    hidden = keep.hide(small)
    one, two = hidden.parts
    assert hidden.text == f"one dog sees {one} {two}"
    found = form(keep.restore(f"eine Straße {one} {two}", hidden))
    assert found == "✓ EINE STRASSE {x} ČAPEK"
