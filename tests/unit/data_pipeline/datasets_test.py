"""Corpora by name, and reading the two sides of a split."""

import hashlib
import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.data_pipeline.datasets import prepare
from nmt_zoo.data_pipeline.lines import open_joined, open_split


def test_the_demo_corpus_is_written_where_it_is_missing_or_another(tmp_path):
    splits = prepare("demo", tmp_path)
    paths = [splits[n].source.with_suffix(e) for n in splits for e in (".en", ".de", ".en-de")]
    whole = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert whole == "40b6b92dc2e30e7db80bd8f31dd5d97fe0d26eeb9151ee20598410055374c298"
    for path, before in zip(paths, [path.read_bytes() for path in paths], strict=True):
        path.write_bytes(before[:-1])
        prepare("demo", tmp_path)
        assert path.read_bytes() == before


def test_marks_of_the_demo_corpus_are_joined_to_words_that_its_links_count(tmp_path):
    for split in prepare("demo", tmp_path).values():
        paths = (split.source, split.target, split.source.with_suffix(".en-de"))
        for source, target, links in zip(*map(read_lines, paths), strict=True):
            assert not re.search(r" \W", f"{source} {target} ")
            sizes = len(source.split()), len(target.split())
            for link in links.split():
                assert all(int(i) < size for i, size in zip(link.split("-"), sizes, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ||| b\nno target\n", "line 2: 'no target'"),
        ("a ||| b ||| c\n", "line 1: 'a"),
        ("a ||| b\n\n", "line 2: ''"),
        ("", "empty; expected lines"),
    ],
)
def test_a_line_without_two_sides_is_named(tmp_path, text, expected):
    path = tmp_path / "both"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(expected)):
        [*map(list, open_joined(path))]


def test_both_sides_of_one_file_are_read_as_of_two(tmp_path, monkeypatch):
    path, pairs = tmp_path / "both", tmp_path / "pairs.tsv"
    path.write_bytes(
        "ein Haus ||| a house\r\n a|||b  ||| \tx \n||| y\nz |||\n|||\n\xa0 ||| c".encode()
    )
    pairs.write_bytes("\ufeffone\teins\r\n\ttwo words\n\u2028\tdrei".encode())
    for size in (5, 100):
        monkeypatch.setattr("nmt_zoo.data_pipeline.lines._BLOCK_BYTES", size)
        sides = [*map(list, open_joined(path))]
        assert sides[0] == ["ein Haus", "a|||b", "", "z", "", "\xa0"]
        assert sides[1] == ["a house", "x", "y", "", "", "c"]
        sides = [*map(list, open_split((pairs, pairs)))]
        assert sides == [["one", "", "\u2028"], ["eins", "two words", "drei"]]
