"""Parts of lines that are copied: hidden before translation, and put back once each."""

import string
from types import SimpleNamespace

import keras
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.search.requests import translator_options
from nmt_zoo.decoding.text.kept_parts import Hidden, KeptParts
from nmt_zoo.decoding.translator import Translator
from tests.tiny import SMALL, pairs

TEXT = [list(side) for side in zip(*pairs(100), strict=True)]
KNOWN = " ".join((string.ascii_letters, string.digits, string.punctuation))


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", *TEXT, vocab_size=300)


@pytest.fixture(scope="module")
def ascii_tokenizer():
    return train_tokenizer("bpe", [KNOWN] * 9, [KNOWN] * 9, vocab_size=400)


def texts(hidden):
    return [part.text for part in hidden.parts.values()]


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
def test_technical_parts_are_found_as_a_whole(ascii_tokenizer, line, parts):
    hidden = KeptParts("technical", ascii_tokenizer).hide(line)
    assert texts(hidden) == parts
    assert KeptParts.restore(hidden.text, hidden) == line
    assert KeptParts("", ascii_tokenizer).hide(line) == Hidden(line, {})


@pytest.mark.parametrize(
    ("line", "hidden", "parts"),
    [
        ("a 😀 dog .", "a \ue000 dog .", ["😀"]),
        ("“a” dog.", "\ue000 a \ue001 dog.", ["“", "”"]),
        ("a (❤️) dog", "a ( \ue000 ) dog", ["❤️"]),
        ("✓ 😀", "\ue000 \ue001", ["✓", "😀"]),
        ("see Kovačević, or नमस्ते now", "see \ue000 , or \ue001 now", ["Kovačević", "नमस्ते"]),
        ("你好，世界。", "\ue000", ["你好，世界。"]),
        ("at https://a.org/ü now", "at \ue000 now", ["https://a.org/ü"]),
        ("the dog‑house", "the dog‑house", []),
        ("a 👩‍👩‍👧 and 1️⃣ .", "a \ue000 and \ue001 .", ["👩‍👩‍👧", "1️⃣"]),
    ],
)
def test_new_characters_are_hidden_with_their_words(ascii_tokenizer, line, hidden, parts):
    found = KeptParts("", ascii_tokenizer).hide(line)
    assert (found.text, texts(found)) == (hidden, parts)
    assert KeptParts.restore(found.text, found) == line


def test_marks_on_known_letters_change_nothing_else(ascii_tokenizer):
    keep = KeptParts("", ascii_tokenizer)
    assert keep.hide("the stu\u0320dent \u200fsl\u0301\u0320eeps\ufe0f .") == keep.hide(
        "the student sleeps ."
    )
    for line in ("слово\u0301 д\u0320 .", "نَمَس"):
        hidden = keep.hide(line)
        assert KeptParts.restore(hidden.text, hidden) == line


@pytest.mark.parametrize("bullet", ["1.", "12)", "(a)", "-", "•", "–"])
def test_a_bullet_or_number_in_front_stays_and_changes_nothing_else(ascii_tokenizer, bullet):
    keep = KeptParts("", ascii_tokenizer)
    plain, found = keep.hide("a dog 😀 ."), keep.hide(f"{bullet} a dog 😀 .")
    assert found == plain._replace(front=f"{bullet} ")
    assert keep.hide("A. Smith") == Hidden("A. Smith", {}) and keep.hide("-") == Hidden("-", {})


@pytest.mark.parametrize("order", ["\ue001 b \ue000 c", "b \ue001 \ue000", "\ue000 b \ue001 c"])
def test_a_pair_of_tags_stays_a_pair(ascii_tokenizer, order):
    hidden = KeptParts("technical", ascii_tokenizer).hide("a <b class='x'>b</b> c <br/> d")
    restored = KeptParts.restore(order, hidden)
    assert restored.index("<b class") < restored.index("</b>")
    nested = KeptParts("technical", ascii_tokenizer).hide("<i>a <b>b</b></i> </u>")
    restored = KeptParts.restore("\ue003 \ue002 x \ue001 \ue000 \ue004", nested)
    assert restored.replace(" ", "") == "<i><b>x</b></i></u>"


@pytest.mark.parametrize(
    ("line", "translation", "expected"),
    [
        ("“is it a dog ?”", "Hund ?", "“Hund ?”"),
        ("✓ a dog", "ein Hund .", "✓ ein Hund ."),
        ("a dog 😀 .", "ein Hund .", "ein Hund 😀 ."),
        ("a dog 😀.", "Hund", "Hund 😀"),
        ("a dog ! 😀", "Hund", "Hund 😀"),
        ("— a dog…", "ein Hund", "— ein Hund…"),
    ],
)
def test_symbols_at_the_ends_need_no_model(ascii_tokenizer, line, translation, expected):
    hidden = KeptParts("", ascii_tokenizer).hide(line)
    assert hidden.text.isascii() and not hidden.parts
    assert KeptParts.restore(translation, hidden) == expected
    assert KeptParts.restore(hidden.text, hidden) == line


def test_a_new_apostrophe_becomes_the_known_one(ascii_tokenizer):
    assert KeptParts("", ascii_tokenizer).hide("I don’t").text == "I don't"


def test_a_part_touches_in_a_translation_only_what_it_touches_in_its_line(ascii_tokenizer):
    keep = KeptParts(r"\d+", ascii_tokenizer)
    hidden = keep.hide("a (12) and 3, so")
    one, two = hidden.parts
    assert hidden.text == f"a ( {one} ) and {two} , so"
    assert keep.restore(f"also {two} und ( {one} )", hidden) == "also 3 und (12)"
    assert keep.restore(f"{one} also {two} , und", hidden) == "12 also 3, und"


def test_a_part_is_put_back_once_and_a_missing_one_is_reported(ascii_tokenizer):
    keep = KeptParts(r"\d+", ascii_tokenizer)
    hidden = keep.hide("3 and 4 or \ue000 dogs")
    one, two = list(hidden.parts)[:2]
    assert "\ue000" not in hidden.parts and texts(hidden) == ["3", "4"]
    assert keep.restore(f"a {one} b {one} {two}", hidden) == "a 3 b 4"
    keep.check(7, hidden, "3 or 4")
    assert keep.summary() == ""
    keep.check(1200, hidden, "3")
    keep.check(8, hidden, "4")
    assert keep.summary() == "lines that lost a part to be copied (see --keep): 2 (8, 1,200)"


def test_more_parts_than_signs_and_empty_matches_stay_in_the_line(ascii_tokenizer):
    keep = KeptParts(r"\d*", ascii_tokenizer)
    line = " ".join(map(str, range(300)))
    hidden = keep.hide(line)
    assert len(hidden.parts) == 16 and hidden.text.endswith(" 299")
    assert keep.restore(hidden.text, hidden) == line


def test_every_translation_has_each_part_once_whatever_the_model(tokenizer):
    keras.utils.set_random_seed(3)
    size = len(tokenizer.source)
    model = models.create("transformer_tiny", size, size, **SMALL)
    keep = KeptParts("technical", tokenizer)
    lines = ["one {dog} . two a@b.org", "one dog", "", "<b> {0}"]
    found = Translator.of(model, tokenizer, keep=keep).translate(lines, n_best=2)
    for line, parts in ((0, ("{dog}", "a@b.org")), (3, ("<b>", "{0}"))):
        best = found[line][0]
        assert all(best.text.count(part) == 1 for part in parts)
        assert tokenizer.target.decode(best.ids).split() == best.text.split()
    assert found[2][0].text == "" and keep.summary() == ""


def test_models_that_copy_keep_new_characters_unless_asked_not_to(tokenizer, tmp_path):
    def keeps(copies, **given):
        options = {"noise": "copies=0.1" if copies else "none", "context_sentences": 0}
        directory = SimpleNamespace(path="", config=lambda: {"options": options})
        return "keep" in translator_options(given, tokenizer, [directory])

    (tmp_path / "words").write_text("dog\n")
    assert keeps(True) and keeps(False, keep="technical") and not keeps(False)
    assert not keeps(True, keep="none") and not keeps(True, required=tmp_path / "words")


def test_what_cannot_be_kept_is_refused(tokenizer):
    with pytest.raises(UserError, match="not a regular expression"):
        KeptParts("(", tokenizer)
    words = train_tokenizer("word", *TEXT, min_word_count=1)
    with pytest.raises(UserError, match="it has no byte pieces"):
        KeptParts("technical", words)
