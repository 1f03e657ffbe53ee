"""Parallel text in gzip, tar and SGML, whole and damaged."""

import gzip
import io
import random
import tarfile
import time

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import decode_lines
from nmt_zoo.data_pipeline.downloads import archives
from nmt_zoo.data_pipeline.downloads.archives import stream_lines, stream_pairs
from nmt_zoo.data_pipeline.downloads.markup import parse_texts

TEXT = "eins\u2028noch eins\r\nzwei\x85\n\ndrei\rvier\n"
LINES = ["eins\u2028noch eins", "zwei\x85", "", "drei\rvier"]


def tar(path, members, mode="w:gz"):
    """Writes an archive with members {name: text or bytes}."""
    with tarfile.open(path, mode) as archive:
        for name, text in members.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("suffix", ["txt", "gz", "tgz", "tar"])
def test_only_a_line_feed_ends_a_line(tmp_path, suffix):
    path, member = tmp_path / f"x.{suffix}", ""
    if suffix in ("tgz", "tar"):
        member = "training/x.de"
        tar(path, {"training/x.en": "other", member: TEXT}, "w:gz" if suffix == "tgz" else "w")
    else:
        path.write_bytes(gzip.compress(TEXT.encode()) if suffix == "gz" else TEXT.encode())
    assert list(stream_lines(path, member)) == LINES


def test_the_size_of_a_block_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x"
    for block in (1, 2, 3, 7, 64):
        data = "".join(random.Random(block).choices("aä€😀\n\r\u2028\ufeff", k=300)).encode()
        path.write_bytes(data)
        monkeypatch.setattr(archives, "_BLOCK", block)
        assert list(stream_lines(path)) == decode_lines(data, "x")


def test_names_that_climb_out_of_an_archive_lead_nowhere(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    names = ["../evil", "../../evil", str(tmp_path / "evil"), "./training/x.de"]
    path = tar(inner / "x.tgz", {name: TEXT for name in names})
    before = sorted(tmp_path.rglob("*"))
    assert list(stream_lines(path, "training/x.de")) == LINES
    assert sorted(tmp_path.rglob("*")) == before


NOISE = "".join(random.Random(1).choices("abcdefgh\n", k=50_000))


def changed(path, share):
    """Changes a byte of an archive."""
    data = bytearray(tar(path, {"x": NOISE, "y": NOISE}).read_bytes())
    data[int(len(data) * share)] ^= 1
    path.write_bytes(data)


def cut(path, share):
    data = gzip.compress(NOISE.encode())
    if path.suffix == ".tgz":
        data = tar(path, {"x": NOISE}).read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def linked(path, links):
    with tarfile.open(path, "w:gz") as archive:
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)


def other_bytes(path, data):
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "how", "reason"),
    [
        *(("x.tgz", changed, share, " or incomplete") for share in (0.3, 0.5, 0.7)),
        *((f"x.{e}", cut, share, " or inc") for e in ("gz", "tgz") for share in (0.001, 0.5, 0.9)),
        ("x.tgz", linked, {"x": "/etc/passwd"}, ""),
        ("x.tgz", linked, {"x": "y", "y": "x"}, ""),
        *(("x.tgz", other_bytes, data, "") for data in (b"", b"text", b"PK\x03\x04" + bytes(99))),
        *((f"x.{e}", other_bytes, b"<html>not found</html>", "") for e in ("gz", "tgz")),
    ],
)
def test_a_damaged_file_is_one_short_line(tmp_path, name, damage, how, reason):
    damage(tmp_path / name, how)
    with pytest.raises(UserError, match=f"{name}: damaged{reason}") as caught:
        list(stream_lines(tmp_path / name, "x" if name == "x.tgz" else ""))
    longest = len(str(tmp_path)) + (140 if damage is cut else 120)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < longest


def test_a_member_that_is_missing_is_named_with_those_that_are_there(tmp_path):
    path = tar(tmp_path / "x.tgz", {f"dev/{i}": "" for i in range(9)})
    with pytest.raises(UserError, match=r"has no dev/x; it holds dev/0, .*dev/4, \.\.\."):
        list(stream_lines(path, "dev/x"))


def test_text_that_is_not_utf8_is_named_with_member_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_BLOCK", 8)
    path = tar(tmp_path / "x.tgz", {"x.de": b"eins\nzwei\ndrei\nf\xfcnf\n"})
    with pytest.raises(UserError, match=r"x\.tgz: x\.de, line 4: not UTF-8 \(byte 0xfc\)"):
        list(stream_lines(path, "x.de"))


def test_sides_of_unequal_length_are_refused_with_both_counts(tmp_path):
    (tmp_path / "x.de").write_text("a\n" * 45_000)
    (tmp_path / "x.en").write_text("a\n" * 25_001)
    blocks = stream_pairs((tmp_path / "x.de", ""), (tmp_path / "x.en", ""))
    with pytest.raises(UserError, match=r"x\.de has 45000 lines and .*x\.en has 25001") as e:
        list(blocks)
    assert "\n" not in str(e.value)


SOURCE = """<srcset setid="newstest" srclang="any">
<DOC docid="one" genre="news"><p>
<seg id="1"> Tom &amp; Jerry </seg>
<seg id='2'>two
lines</seg></p></DOC>
<doc genre=news docid=two>
<seg id=1>a < b</seg></doc></srcset>
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SOURCE.replace("lines</seg>", "lines"), "one'.*segment '2'.*expected <seg id="),
        (SOURCE.replace("a < b</seg>", "a < b"), "expected <seg id="),
        (SOURCE.replace("id=1>", ">"), "two', segment ''.*expected <seg id="),
        (SOURCE.replace("id='2'", "id='1'"), "one', segment '1': appears twice"),
        ("Tom and Jerry", "expected <seg id="),
        ("", "expected <seg id="),
    ],
)
def test_damaged_sgml_is_refused(text, fault):
    with pytest.raises(UserError, match=rf"^x\.sgm.*{fault}"):
        parse_texts(text, "x.sgm")


@pytest.mark.parametrize("tag", ["<doc ", "<seg ", "<seg id=1>", "<seg id=1> </seg "])
def test_tags_without_an_end_are_refused_in_no_time(tag):
    began = time.process_time()
    with pytest.raises(UserError, match="expected <seg id="):
        parse_texts(tag * 20_000, "x.sgm")
    # It took 40 seconds when every tag's end was searched for through the whole text.
    assert time.process_time() - began < 2
