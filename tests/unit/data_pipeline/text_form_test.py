import unicodedata

from nmt_zoo.data_pipeline.text_form import INVISIBLE, SPACES, is_blank, normalised


def test_all_white_space_of_unicode_becomes_one_space():
    assert {c for c in map(chr, range(0x110000)) if c.isspace()} == set(SPACES)
    assert normalised(f"\ufeff a{SPACES}b{INVISIBLE}c\t") == "a bc"


def test_lines_that_show_nothing_are_blank():
    for line in ("", " ", "\u00a0\t", "\u200b\ufeff", "\u3000\u00ad\u2060 "):
        assert is_blank(line) and not normalised(line)
    for line in ("a", " \u200c", "."):
        assert not is_blank(line) and normalised(line)


def test_characters_are_composed_unless_their_form_is_to_stay():
    parts = unicodedata.normalize("NFD", "Übergröße é")
    assert normalised(parts) == "Übergröße é"
    assert normalised(parts, "none") == parts


def test_joiners_stay():
    assert normalised("می\u200cخواهم 👩\u200d🔬") == "می\u200cخواهم 👩\u200d🔬"
