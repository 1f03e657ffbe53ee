"""Tests of lexicons: counted, written, read."""

from nmt_zoo.decoding.unknowns import read_lexicon, write_lexicon


def test_a_probability_is_the_share_of_a_source_words_links(tmp_path, capsys):
    path = tmp_path / "lexicon.txt"
    alignments = [[(0, 0), (1, 1)], [(0, 0)], [(0, 0), (0, 1)], [], [(0, 0)]]
    source = [["Haus", "da"], ["Haus"], ["Haus"], ["Hund"], ["10\u00a0000"]]
    target = [["house", "there"], ["home"], ["house", "there"], ["dog"], ["10,000"]]
    assert write_lexicon(path, alignments, source, target) == 4
    assert capsys.readouterr().err.startswith("word pairs left out: 1 (a lexicon")
    expected = ["Haus house 0.5", "Haus home 0.25", "Haus there 0.25", "da there 1"]
    assert path.read_text().splitlines() == expected
    assert read_lexicon(path) == {"Haus": "house", "da": "there"}
    assert write_lexicon(path, alignments[:4], source[:4], target[:4]) == 4
    assert not capsys.readouterr().err
