import unicodedata

from nmt_zoo.data_pipeline.text_form import INVISIBLE, SPACES, is_blank, normalised


def test_the_form_of_a_line_has_single_spaces_and_composed_characters():
    assert {c for c in map(chr, range(0x110000)) if c.isspace()} == set(SPACES)
    assert normalised(f"\ufeff a{SPACES}b{INVISIBLE}c\t") == "a bc"
    for line in ("", " ", "\u00a0\t", "\u200b\ufeff", "\u3000\u00ad\u2060 "):
        assert is_blank(line) and not normalised(line)
    for line in ("a", " \u200c", "."):
        assert not is_blank(line) and normalised(line)
    parts = unicodedata.normalize("NFD", "Übergröße é")
    assert normalised(parts) == "Übergröße é"
    assert normalised(parts, "none") == parts
    joined = "می\u200cخواهم 👩\u200d🔬"
    assert normalised(joined) == joined
