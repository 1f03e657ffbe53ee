"""The record of a training text, and what is said about text unlike it."""

import itertools
import unicodedata

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.text import training_text
from nmt_zoo.decoding.text.line_warnings import IN_PARTS, LOOP, SEVERAL, LineWarnings, loop
from nmt_zoo.decoding.text.splitting import sentences
from nmt_zoo.decoding.text.training_text import (
    CHARACTERS,
    SMALL_LETTERS,
    UNKNOWN,
    TrainingText,
)

_WORDS = ("big", "café", "small", "old", "new", "our"), ("dog", "cat", "house"), ("runs", "sees")
SOURCE = [f"The {' '.join(words)} in the garden." for words in itertools.product(*_WORDS)] * 20
TARGET = [f"Der {' '.join(words)} in dem Garten." for words in itertools.product(*_WORDS)] * 20
TEXT = TrainingText.of(SOURCE)
LOWER = TrainingText.of([line.lower() for line in SOURCE])


def kind(line, translation="", text=TEXT):
    return text.unlike(line, translation)[0]


def test_lines_of_the_training_text_are_not_unlike_it():
    for line, translation in zip(SOURCE, TARGET, strict=True):
        assert TEXT.unlike(line, translation) == ("", "")
    # Texts that look alike are alike.
    assert kind(unicodedata.normalize("NFD", "The café dog\u00a0runs \u200bin the garden.")) == ""
    assert kind("") == kind("   ") == ""


def test_characters_that_training_never_saw_are_said_unless_they_are_copied():
    assert TEXT.unlike("The big dog ✓ runs in the garden.", "") == (CHARACTERS, "✓ (U+2713)")
    assert TEXT.unlike("The big dog runs x\u0300 .", "")[1] == "x (U+0078)"
    assert TEXT.unlike("The big dog runs n\u0323 .", "")[1].startswith("ṇ")  # Composed.
    assert TEXT.unlike("The big dog runs \u0300 .", "")[1] == "U+0300"
    assert kind("The big dog ✓ runs in the garden.", "Der Hund ✓ .") == ""
    assert kind("The big dog ✓ runs € in the garden.", "Der Hund ✓ .") == CHARACTERS
    assert kind("✓ € 😀") == UNKNOWN and kind("✓ € 😀", "✓ € 😀") == ""


def test_capitals_are_said_where_training_has_none():
    line = "The big dog runs in the garden."
    assert LOWER.unlike(line, "") == (SMALL_LETTERS, "T") and kind(line.lower(), text=LOWER) == ""


@pytest.mark.parametrize(
    ("ends", "stop"),
    [
        ("........!?", "."),
        ("........  ", ""),
        ("。。。。。。。。。.", "。"),
        (['."'] * 9 + [""], "."),
        ("?" * 10, ""),
        ("", ""),
    ],
)
def test_the_stop_of_nearly_all_lines_is_recorded(ends, stop):
    assert TrainingText.of([f"The dog runs{end}" for end in ends]).stop == stop


def test_a_record_is_the_same_after_reading_and_damage_is_an_error(tmp_path):
    path = tmp_path / "training_text.json"
    assert TrainingText.read(path) is None
    path.write_text(TEXT.text(), encoding="utf-8")
    assert TrainingText.read(path) == TEXT
    text = TEXT.text()
    for damaged in (
        "",
        "[]",
        "{}",
        text[:-9],
        text.replace('"most_sentences": ', '"most_sentences": 0.'),
    ):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(UserError, match=r"training_text\.json: damaged"):
            TrainingText.read(path)


def test_all_characters_are_known_of_a_text_of_which_a_sample_is_read(monkeypatch):
    monkeypatch.setattr(training_text, "_SAMPLE", 7)
    source = [f"The dog {chr(0x4E00 + i)} runs" for i in range(100)]
    found = TrainingText.of(source)
    assert {chr(0x4E00 + i) for i in range(100)} <= {*found.characters}
    assert " " not in found.characters
    assert TrainingText.of(["", " "]).characters == ""


def test_a_model_that_was_trained_before_has_seen_both_texts():
    other = TrainingText.of(["你 ÄÖÜ. 好。 " * 3] * 10)
    both = TEXT.joined(other)
    assert both.most_sentences == other.most_sentences > 1
    assert kind("你好", text=both) == kind(SOURCE[0], text=both) == ""


def test_several_sentences_are_said_to_be_in_parts_or_perhaps_missing():
    line = f"{SOURCE[0]} {SOURCE[1]}"
    for split, expected in ({"split": lambda line, _: sentences(line)}, IN_PARTS), ({}, SEVERAL):
        warnings = LineWarnings(TEXT, **split)
        warnings.add_text(SOURCE[0], TARGET[0])
        warnings.add_text(line, f"{TARGET[0]} {TARGET[1]}")
        assert [*warnings] == [f"{expected}: 1 of 2 (line 2)"]


def test_a_loop_is_said_unless_the_source_has_it():
    again = "und der Hund " * 5
    assert loop(f"Ein Hund {again}", "A dog runs.") in again
    assert loop(again * 2, "and the dog " * 5) == ""  # A loop would be eleven times.
    assert loop("雨雨雨雨雨雨雨", "It rains.") == "雨雨雨"
    assert loop("ein Hund und ein Hund und eine Katze", "") == ""
    warnings = LineWarnings()
    warnings.add_text("A dog runs.", "ja ja ja ja ja ja ja")
    assert [*warnings] == [LOOP.replace("{}", "'ja ja ja'") + ": 1 of 1 (line 1)"]


def test_warnings_that_were_taken_are_not_repeated_and_lines_are_numbered_on():
    warnings = LineWarnings(TEXT)
    warnings.add_text("✓ 😀", "")
    assert warnings.take() == [f"{UNKNOWN}: 1 of 1 (line 1)"]
    warnings.add_text("✓ {} " + SOURCE[0], "")
    assert warnings.take() == [CHARACTERS.replace("{}", "✓ (U+2713)") + ": 1 of 1 (line 2)"]
    assert warnings.take() == [*warnings] == []
