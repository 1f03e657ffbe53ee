"""Parallel text in gzip, tar and SGML, whole and damaged."""

import gzip
import random
import time

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.downloads import archives
from nmt_zoo.data_pipeline.downloads.archives import stream_lines, stream_pairs
from nmt_zoo.data_pipeline.downloads.markup import parse_texts
from tests.unit.data_pipeline.published import tar

TEXT = "eins\u2028noch eins\r\nzwei\x85\n\ndrei\rvier\n"
LINES = ["eins\u2028noch eins", "zwei\x85", "", "drei\rvier"]


def packed(path, members):
    """Writes members {name: text or bytes} as an archive."""
    data = tar(members)
    path.write_bytes(data if path.suffix == ".tar" else gzip.compress(data))
    return path


@pytest.mark.parametrize("suffix", ["txt", "gz", "tgz", "tar"])
def test_only_a_line_feed_ends_a_line_and_names_that_climb_out_lead_nowhere(tmp_path, suffix):
    inner, member = tmp_path / "a" / "b", ""
    inner.mkdir(parents=True)
    path = inner / f"x.{suffix}"
    if suffix in ("tgz", "tar"):
        member = "training/x.de"
        names = ["../evil", "../../evil", str(tmp_path / "evil"), "training/x.en", f"./{member}"]
        packed(path, {name: TEXT if name.endswith(member) else "other" for name in names})
    else:
        path.write_bytes(gzip.compress(TEXT.encode()) if suffix == "gz" else TEXT.encode())
    before = sorted(tmp_path.rglob("*"))
    assert list(stream_lines(path, member)) == LINES
    assert sorted(tmp_path.rglob("*")) == before


NOISE = "".join(random.Random(1).choices("abcdefgh\n", k=50_000))
WHOLE = {"gz": gzip.compress(NOISE.encode()), "tgz": gzip.compress(tar({"x": NOISE, "y": NOISE}))}


def changed(share):
    data = bytearray(WHOLE["tgz"])
    data[int(len(data) * share)] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        *(("x.tgz", changed(share), " or incomplete") for share in (0.3, 0.5, 0.7)),
        *(
            (f"x.{ending}", data[: int(len(data) * share)], " or inc")
            for ending, data in WHOLE.items()
            for share in (0.001, 0.4, 0.9)
        ),
        ("x.tgz", gzip.compress(tar({}, links={"x": "/etc/passwd"})), ""),
        ("x.tgz", gzip.compress(tar({}, links={"x": "y", "y": "x"})), ""),
        *(("x.tgz", data, "") for data in (b"", b"text", b"PK\x03\x04" + bytes(99))),
        *((f"x.{ending}", b"<html>not found</html>", "") for ending in WHOLE),
    ],
    ids=range(16),
)
def test_a_damaged_file_is_one_short_line(tmp_path, name, data, reason):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=f"{name}: damaged{reason}") as caught:
        list(stream_lines(tmp_path / name, "x" if name == "x.tgz" else ""))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < len(str(tmp_path)) + 140


def test_a_member_that_is_missing_or_not_utf8_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_BLOCK", 8)
    members = {"x.de": b"eins\nzwei\ndrei\nf\xfcnf\n", **{f"dev/{i}": "" for i in range(9)}}
    path = packed(tmp_path / "x.tgz", members)
    with pytest.raises(UserError, match=r"has no dev/x; it holds x.de, dev/0, .*dev/3, \.\.\."):
        list(stream_lines(path, "dev/x"))
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
