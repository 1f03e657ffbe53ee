"""Lines in capitals reach the model in small letters, and their translations get the capitals."""

import pytest

from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.text.casing import Casing
from nmt_zoo.decoding.text.kept_parts import KeptParts

TEXT = ["One dog sees two cats, and New York's IBM", "the dog sees the cats"] * 9


@pytest.fixture(scope="module", params=["bpe", "word"])
def casing(request):
    return Casing(train_tokenizer(request.param, TEXT, TEXT, vocab_size=300).source)


@pytest.mark.parametrize(
    ("line", "small", "translation", "restored"),
    [
        ("ONE DOG SEES {x}", "One dog sees {x}", "eine Straße {x}", "EINE STRASSE {x}"),
        ("THE CATS!", "the cats!", "die Katzen!", "DIE KATZEN!"),
        ("One Dog Sees IBM", "One dog sees IBM", "ein Hund's IBM", "Ein Hund's IBM"),
    ],
)
def test_capitals_go_and_come_back(casing, line, small, translation, restored):
    found, form = casing.small(line)
    assert (found, form(translation)) == (small, restored)
    assert casing.small(found) == (found, None)


@pytest.mark.parametrize("line", ["DOGS .", "TWO dogs", "Two Cats", "2 3", "", "<A> <B> <C>"])
def test_other_lines_stay(casing, line):
    assert casing.small(line) == (line, None)


def test_a_model_that_knows_capitals_gets_them():
    text = [line.upper() for line in TEXT]
    casing = Casing(train_tokenizer("bpe", text, text, vocab_size=300).source)
    assert casing.small("THE DOG SEES THE CATS") == ("THE DOG SEES THE CATS", None)


def test_hidden_parts_get_their_capitals_back():
    text = ["one dog sees two cats"] * 9
    tokenizer = train_tokenizer("bpe", text, text, vocab_size=400)
    small, form = Casing(tokenizer.source).small("✓ ONE DOG SEES {x} ČAPEK")
    keep = KeptParts("", tokenizer)
    hidden = keep.hide(small)
    one, two = hidden.parts
    assert hidden.text == f"one dog sees {one} {two}"
    found = form(keep.restore(f"eine Straße {one} {two}", hidden))
    assert found == "✓ EINE STRASSE {x} ČAPEK"
