"""Glossaries: terms are found as whole words, and counted; wrong files are refused in one line."""

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.text.glossary import Glossary


def glossary(tmp_path, text):
    path = tmp_path / "terms.tsv"
    path.write_text(text)
    return Glossary(str(path))


def test_terms_are_whole_words_and_the_longest_of_those_that_overlap(tmp_path):
    terms = glossary(tmp_path, "dog\tHund\nhot dog\tWürstchen\n\nBank\tUfer\n")
    assert terms.find("a dog, and a hot dog.") == ["Würstchen", "Hund"]
    assert terms.find("Dog dog dogs hotdog") == ["Hund"]
    assert terms.find("«Hot dog» bank") == ["Würstchen"]  # A bank is no Bank.
    assert terms.find("the Dog") == [] == terms.find("")


def test_a_translation_that_begins_with_a_term_gets_the_capital_of_its_line(tmp_path):
    terms = glossary(tmp_path, "dogs\tHunde\nto run\tlaufen\n")
    assert terms.capitalised("To run is fine.", "laufen ist gut.") == "Laufen ist gut."
    assert terms.capitalised("to run is fine.", "laufen ist gut.") == "laufen ist gut."
    assert terms.capitalised("Is to run fine?", "ist laufen gut?") == "ist laufen gut?"


def test_terms_are_counted(tmp_path):
    terms = glossary(tmp_path, "dog\tHund\ncat\tKatze\n")
    terms.count(1, ["Hund", "Katze"], "Hund und Katze")
    terms.count(2, ["Hund"], "Hunde")
    assert terms.summary().endswith("3 asked for, 2 met; lacking in lines 2")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dog\n", "line 1: expected a term, a tab"),
        ("dog\tHund\tx\n", "line 1: expected a term, a tab"),
        ("a\tb\ndog\t \n", "line 2: expected a term, a tab"),
        ("dog\tHund\ndog\tKatze\n", "line 2: 'dog' is to be 'Katze' here and 'Hund' above"),
        ("\n", "empty"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, error):
    with pytest.raises(UserError, match=error):
        glossary(tmp_path, text)
