"""Tests of lexicons: counted, written, read."""

from nmt_zoo.decoding.alignment.lexicons import lexicon_entries, write_lexicon
from nmt_zoo.decoding.unknowns import read_lexicon


def test_a_probability_is_the_share_of_a_source_words_links():
    alignments = [[(0, 0), (1, 1)], [(0, 0)], [(0, 0), (0, 1)], []]
    source = [["Haus", "da"], ["Haus"], ["Haus"], ["Hund"]]
    target = [["house", "there"], ["home"], ["house", "there"], ["dog"]]
    assert lexicon_entries(alignments, source, target) == [
        ("Haus", "house", 2 / 4),
        ("Haus", "home", 1 / 4),
        ("Haus", "there", 1 / 4),
        ("da", "there", 1.0),
    ]


def test_a_lexicon_is_read_as_it_was_written(tmp_path, capsys):
    path = tmp_path / "lexicon.txt"
    entries = [("Haus", "house", 0.75), ("Haus", "home", 0.25), ("10\u00a0000", "10,000", 1.0)]
    assert write_lexicon(path, entries) == 2
    assert capsys.readouterr().err.startswith("word pairs left out: 1 (a lexicon")
    assert write_lexicon(path, entries[:2]) == 2 and not capsys.readouterr().err
    assert path.read_text() == "Haus house 0.75\nHaus home 0.25\n"
    assert read_lexicon(path) == {"Haus": "house"}
