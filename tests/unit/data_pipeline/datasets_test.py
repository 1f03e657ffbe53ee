"""Corpora by name, and reading the two sides of a split."""

import hashlib
import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.datasets import Included, open_joined, prepare, read_split
from nmt_zoo.data_pipeline.downloads.corpora import Split


@pytest.fixture
def split(tmp_path):
    split = Split(tmp_path / "x.en", tmp_path / "x.de")
    split.source.write_bytes("one\u2028\r\ntwo\n\n".encode())
    split.target.write_bytes(b"eins\nzwei\ndrei")
    return split


def test_both_sides_are_read_line_by_line(split):
    assert read_split(split) == (["one\u2028", "two", ""], ["eins", "zwei", "drei"])


@pytest.mark.parametrize("side", ["source", "target"])
def test_missing_side_is_named(split, side):
    path = getattr(split, side)
    path.unlink()
    with pytest.raises(UserError, match=f"{path.name}: cannot be read"):
        read_split(split)


@pytest.mark.parametrize("side", ["source", "target"])
def test_empty_side_is_named(split, side):
    path = getattr(split, side)
    path.write_bytes(b"")
    with pytest.raises(UserError, match=f"{path.name}: empty"):
        read_split(split)


@pytest.mark.parametrize("side", ["source", "target"])
def test_unequal_sides_are_refused_with_both_counts(split, side):
    path = getattr(split, side)
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(UserError) as e:
        read_split(split)
    message = str(e.value)
    counts = {split.source: 3, split.target: 3, path: 2}
    for each, count in counts.items():
        assert f"{each}" in message and f"{each.name} has {count}" in message
    assert f"end of {path}" in message
    assert "\n" not in message


def test_side_that_is_not_utf8_is_named_with_its_line(split):
    split.target.write_bytes(b"eins\nzwei\ndr\xe4i\n")
    with pytest.raises(UserError, match=r"x\.de, line 3: not UTF-8"):
        read_split(split)


def test_unknown_name_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(UserError, match=r"unknown dataset 'dmeo'.*demo.*--train_source") as e:
        prepare("dmeo", tmp_path)
    assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


def test_the_demo_corpus_is_written_where_it_is_missing_or_another(tmp_path):
    splits = prepare("demo", tmp_path)
    paths = [splits[n].source.with_suffix(e) for n in splits for e in (".en", ".de", ".en-de")]
    whole = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert whole == "faf71bece102fca93dbfe3184adc95fdc7ddb2bd44624e3e7835e4fda37f2178"
    for path, before in zip(paths, [path.read_bytes() for path in paths], strict=True):
        path.write_bytes(before[:-1])
        prepare("demo", tmp_path)
        assert path.read_bytes() == before


def test_new_corpus_is_one_entry(tmp_path, monkeypatch):
    def prepare_mine(folder, _):
        return {"train": Split(folder / "a", folder / "b")}

    mine = Included(prepare_mine, "two files", "1 pair", "mine", "none")
    monkeypatch.setitem(datasets.DATASETS, "mine", mine)
    assert prepare("mine", tmp_path) == {
        "train": Split(tmp_path / "mine" / "a", tmp_path / "mine" / "b")
    }


def lists_of(path):
    return tuple(map(list, open_joined(path)))


def test_both_sides_of_one_file_are_read_as_of_two(tmp_path):
    path = tmp_path / "both"
    path.write_bytes(b"ein Haus ||| a house\r\n a|||b  ||| \tx \n||| y\nz |||\n|||\n")
    assert lists_of(path) == (["ein Haus", "a|||b", "", "z", ""], ["a house", "x", "y", "", ""])


def test_a_no_break_space_beside_the_separator_stays_in_its_side(tmp_path):
    path = tmp_path / "both"
    path.write_text("\u00a0 a dog ||| ein Hund\u3000\n", encoding="utf-8")
    assert lists_of(path) == (["\u00a0 a dog"], ["ein Hund\u3000"])


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
        lists_of(path)


@pytest.fixture
def tabbed(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes("\ufeffone\teins\r\n\ttwo words\n\u2028\tdrei".encode())
    return str(path)


def test_a_file_with_tabs_is_both_sides(tabbed, monkeypatch):
    expected = ["one", "", "\u2028"], ["eins", "two words", "drei"]
    assert read_split(Split(tabbed, tabbed)) == expected
    monkeypatch.setattr("nmt_zoo.data_pipeline.streams._BLOCK_BYTES", 5)
    assert read_split(Split(tabbed, tabbed)) == expected


@pytest.mark.parametrize(("line", "tabs"), [("three drei", 0), ("three\tdrei\t3", 2)])
def test_a_line_with_other_tabs_is_named(tabbed, tmp_path, line, tabs):
    with open(tabbed, "a", encoding="utf-8") as file:
        file.write(f"\nfour\tvier\n{line}\n")
    message = rf"pairs\.tsv, line 5: expected source and target with one tab .* found {tabs} tabs"
    with pytest.raises(UserError, match=message):
        read_split(Split(tabbed, tabbed))


def test_a_file_of_both_sides_that_is_named_for_one_is_refused(tabbed, tmp_path):
    other = tmp_path / "other.de"
    other.write_bytes(b"a\nb\nc\td\n")
    with pytest.raises(UserError, match=r"pairs\.tsv: given for one side only"):
        read_split(Split(tabbed, other))
