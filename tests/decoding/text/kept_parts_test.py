"""Parts of lines that are copied: hidden before translation, and put back once each."""

import keras
import pytest

import models
from data_pipeline.files import UserError
from data_pipeline.tokenization.tokenizers import train_tokenizer
from decoding.text.kept_parts import KeptParts
from decoding.translator import Translator
from tests.tiny import SMALL, pairs

TEXT = [list(side) for side in zip(*pairs(100), strict=True)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", *TEXT, vocab_size=300)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("write to anna.m+x@mail.example.org, or not.", ["anna.m+x@mail.example.org"]),
        ("(see https://a.org/b?c=d#e).", ["https://a.org/b?c=d#e"]),
        ("www.example.org is a page", ["www.example.org"]),
        ("{0} and {name} or ${x}", ["{0}", "{name}", "${x}"]),
        ("%s has %(count)d of %1$s, 5.2 %", ["%s", "%(count)d", "%1$s"]),
        ("<b class='x'>a</b> &amp; b &#160;", ["<b class='x'>", "</b>", "&amp;", "&#160;"]),
        ("a < b and c > d, 50 % of it; f(x) & g", []),
    ],
)
def test_technical_parts_are_found_as_a_whole(tokenizer, line, parts):
    hidden, found = KeptParts("technical", tokenizer).hide(line)
    assert list(found.values()) == parts
    assert KeptParts.restore(hidden, found) == line


def test_a_part_is_put_back_once_and_a_missing_one_is_reported(tokenizer):
    keep = KeptParts(r"\d+", tokenizer)
    hidden, parts = keep.hide("3 and 4 or \ue000")
    one, two = parts
    assert "\ue000" in hidden and "\ue000" not in parts
    assert keep.restore(f"a {one}b {one} {two}", parts) == "a 3b  4"
    keep.check(7, parts, "3 or 4")
    assert keep.summary() == ""
    keep.check(1200, parts, "3")
    keep.check(8, parts, "4")
    assert keep.summary() == "lines that lost a part that --keep names: 2 (line 8, 1,200)"


def test_more_parts_than_signs_and_empty_matches_stay_in_the_line(tokenizer):
    keep = KeptParts(r"\d*", tokenizer)
    line = " ".join(map(str, range(300)))
    hidden, parts = keep.hide(line)
    assert len(parts) == 256 and hidden.endswith(" 299")
    assert keep.restore(hidden, parts) == line


def test_every_translation_has_each_part_once_whatever_the_model(tokenizer):
    keras.utils.set_random_seed(3)
    size = len(tokenizer.source)
    model = models.create("transformer_tiny", size, size, **SMALL)
    keep = KeptParts("technical", tokenizer)
    lines = ["one {dog} . two a@b.org", "one dog", "", "<b> {0}"]
    found = Translator(model, tokenizer, keep=keep).translate(lines, n_best=2)
    for line, parts in ((0, ("{dog}", "a@b.org")), (3, ("<b>", "{0}"))):
        for part in parts:
            assert found[line][0].text.count(part) == 1
        best = found[line][0]
        assert tokenizer.target.decode(best.ids).split() == best.text.split()
    assert found[2][0].text == "" and keep.summary() == ""


def test_what_cannot_be_kept_is_refused(tokenizer):
    with pytest.raises(UserError, match="not a regular expression"):
        KeptParts("(", tokenizer)
    words = train_tokenizer("word", *TEXT, min_word_count=1)
    with pytest.raises(UserError, match="it has no byte pieces"):
        KeptParts("technical", words)
