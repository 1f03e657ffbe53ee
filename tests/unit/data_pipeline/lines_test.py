"""Text files of any size: the same lines as when read at once, whatever the blocks."""

import random
from functools import partial

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.data_pipeline.lines import Lines, open_split, open_target

TEXTS = [
    *(b"", b"\n", b"\n\n", b"\r\n", b"a", b"a\n", b"a\r", b"a\r\n", b"a\r\r\n\n", b"a\nb", b"\na"),
    *(b"a\n\n\nb\n", b"a\r\nb\rc\r\n", b"\xef\xbb\xbfa\nb\xef\xbb\xbf\n", b"\xef\xbb\xbf"),
    *(b"\xef\xbb\xbf\n\xef\xbb\xbfa", "ä\u2028ö\u0085ü\n\u3000\n".encode()),
]


def written(path, data):
    path.write_bytes(data)
    return path


@pytest.fixture(params=[1, 3, 1 << 20])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr("nmt_zoo.data_pipeline.lines._BLOCK_BYTES", request.param)


def test_lines_are_those_of_reading_all_at_once(tmp_path, block_bytes):
    rng = random.Random(0)
    for data in (*TEXTS, *(bytes(rng.choices(b"ab\r\n", k=size)) for size in range(1, 60))):
        path = written(tmp_path / "a", data)
        lines = Lines(path)
        assert list(lines) == list(lines) == read_lines(path)
        assert lines.sizes == [len(lines)] == [len(read_lines(path))]


def test_digest_is_that_of_the_lines_and_not_of_the_bytes(tmp_path, block_bytes):
    def digest(data):
        return Lines(written(tmp_path / "a", data)).digest

    same = [b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n"]
    assert len(set(map(digest, same))) == 1
    others = [*same[:1], b"a\nc\n", b"ab\n", b"a\n\nb\n", b"a\nb\n\n", b"a\rb\n", b"b\na\n"]
    assert len(set(map(digest, others))) == len(others)
    two = Lines(written(tmp_path / "a", b"a"), written(tmp_path / "b", b"\xef\xbb\xbfb\n"))
    assert list(two) == ["a", "b"] and two.sizes == [1, 1] and two.digest == digest(same[0])


def test_file_that_changes_meanwhile_is_noticed(tmp_path):
    path = written(tmp_path / "a", b"a\nb\n")
    lines = Lines(path)
    path.write_bytes(b"a\n")
    with pytest.raises(UserError, match="had 2 lines and now has 1"):
        list(lines)
    path.write_bytes(b"a\nb\nc\n")
    with pytest.raises(UserError, match="had 2 lines and now has more"):
        list(zip([1, 2], lines, strict=True))  # As a side that does not grow.
    path.write_bytes(b"a\nc\n")
    with pytest.raises(UserError, match="was changed after it was first read"):
        list(lines)


def test_halves_of_unequal_length_are_refused_and_the_shorter_named(tmp_path):
    one, two = written(tmp_path / "one", b"a\nb\n"), written(tmp_path / "two", b"a\n")
    with pytest.raises(UserError, match=r"one has 2 lines and .*two has 1.*end of .*two") as e:
        open_split((one, two))
    assert "\n" not in str(e.value)
    # Refused even if another corpus makes the total numbers of lines equal.
    with pytest.raises(UserError, match=r"one has 2 lines"):
        open_split((f"{one},{two}", f"{two},{one}"))
    three, four = written(tmp_path / "three", b"a\nb\n"), written(tmp_path / "four", b"a\n")
    source, target = open_split((f"{one},{two}", f"{three},{four}"))
    assert list(source) == list(target) == ["a", "b", "a"]


def test_one_tsv_is_read_as_columns_under_whatever_names(tmp_path):
    tsv = written(tmp_path / "a.tsv", b"a dog\tein Hund\na cat\teine Katze\n")
    (tmp_path / "folder").mkdir()
    upper = written(tmp_path / "B.TSV", tsv.read_bytes())
    link = tmp_path / "link"
    link.symlink_to(tsv)
    detour = f"{tmp_path}/folder/../a.tsv"
    for split in ((str(tsv),) * 2, (str(tsv), detour), (str(upper),) * 2, (str(tsv), str(link))):
        assert [*map(list, open_split(split))] == [["a dog", "a cat"], ["ein Hund", "eine Katze"]]
        assert list(open_target(split)) == ["ein Hund", "eine Katze"]


def test_one_text_for_both_sides_or_a_comma_without_a_name_is_refused(tmp_path):
    one, other = (str(written(tmp_path / name, b"a\n")) for name in "ab")
    (tmp_path / "soft").symlink_to(one)
    (tmp_path / "hard").hardlink_to(one)
    for name in (one, f"{tmp_path}/./a", f"{tmp_path}/soft", f"{tmp_path}/hard"):
        with pytest.raises(UserError, match="the same file for source and target") as e:
            open_split((one, name))
        assert "\n" not in str(e.value)
        with pytest.raises(UserError, match="the same file for source and target"):
            open_split((f"{other},{one}", f"{one},{name}"))
    for side in (f"{one},", f",{one}", f"{one},,{one}"):
        for read in (partial(open_split, (side, side)), partial(open_target, ("", side))):
            with pytest.raises(UserError, match="a comma without a file name on one side"):
                read()
