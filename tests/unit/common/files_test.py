"""Lines of text files, errors that name what to mend, and atomic writing."""

import bz2
import gzip
import lzma
import os
import stat

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import (
    atomic_path,
    check_outputs,
    decode_lines,
    read_lines,
    same_paths,
    write_text,
)
from nmt_zoo.data_pipeline.lines import Lines

# Of Python and Unicode; in a text, they stay inside their line.
SEPARATORS = "\u2028\u2029\u0085\r\v\f\x1c\x1d\x1e\0"


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def list_of(path):
    return list(Lines(path))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\na", ["", "a"]),
        (b"a\r\n\r\nb\rc\r\nd\r\r\n", ["a", "", "b\rc", "d\r"]),
        (b"a\nb\r", ["a", "b\r"]),
        (b"\xef\xbb\xbfa\nb\xef\xbb\xbf\n", ["a", "b\ufeff"]),  # A byte order mark is no text.
        *((f"a{x}b\n{x}c\n{x}{x}d".encode(), [f"a{x}b", f"{x}c", f"{x}{x}d"]) for x in SEPARATORS),
    ],
)
def test_a_line_feed_ends_a_line_with_the_carriage_return_before_it(data, lines):
    assert decode_lines(data, "text") == lines


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        *(
            (compress(b"a dog\n"), ": compressed by .*`(gunzip|bunzip2|unxz) -k`")
            for compress in (gzip.compress, bz2.compress, lzma.compress)
        ),
        ("a dog\n".encode("utf-16"), ", line 1: not UTF-8 but UTF-16; .*iconv -f utf-16"),
        (
            "\ufeffgut\u2028gut\r\nä\n".encode() + b"schl\xe4cht\n",
            r", line 3: not UTF-8 \(byte 0xe4\).*iconv",
        ),
    ],
    ids=["gzip", "bzip2", "xz", "utf-16", "latin-1"],  # A gzip file holds its time.
)
def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path, data, fault):
    path = tmp_path / "a.packed"
    path.write_bytes(data)
    for read in (read_lines, list_of, lambda path: decode_lines(path.read_bytes(), "a.packed")):
        with pytest.raises(UserError, match=rf"a\.packed{fault}") as e:
            read(path)
        assert "\n" not in str(e.value)


@pytest.mark.parametrize("read", [read_lines, Lines])
def test_a_folder_a_pipe_or_a_device_is_no_source(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")  # Nothing is ever written into it.
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    reading, writing = os.pipe()
    for path in (tmp_path / "pipe", f"/dev/fd/{reading}", "/dev/zero"):
        with pytest.raises(UserError, match="not a regular file; write the text to a file") as e:
            read(path)
        assert "\n" not in str(e.value)
    os.close(reading)
    os.close(writing)
    for name in ("absent", "folder", "file/inside"):
        with pytest.raises(UserError, match=f"{name}: cannot be read"):
            read(tmp_path / name)


def test_what_cannot_be_written_is_named_and_leaves_no_litter(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for target, fault in (
        (tmp_path / "file" / "x", "x: cannot be written"),
        (tmp_path / "file" / "deep" / "x", "x: cannot be written"),
        (tmp_path / "folder", r"cannot be written \(a folder\)"),
        (f"{tmp_path}/folder/", r"cannot be written \(a folder\)"),
        (f"{tmp_path}/new/", r"cannot be written \(a folder\)"),
        (tmp_path / "pipe", r"pipe: cannot be written \(not a regular file\)"),
    ):
        with pytest.raises(UserError, match=fault) as e, atomic_path(target):
            pytest.fail("the work began")
        assert "\n" not in str(e.value)
    with (
        pytest.raises(UserError, match=r"x: cannot be written \(No space left"),
        atomic_path(tmp_path / "x"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert {p.name for p in tmp_path.rglob("*")} == {"file", "folder", "pipe"}
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_while_writing_keeps_the_old_file_and_leaves_no_litter(tmp_path, error):
    write_text(tmp_path / "x.npz", "old")
    with pytest.raises(error), atomic_path(tmp_path / "x.npz") as temporary:
        temporary.write_text("half of the n")
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".npz")
        raise error
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "x.npz", "\ud800")
    assert contents(tmp_path) == {"x.npz": b"old"}


def test_a_link_stays_and_its_file_has_the_mode_that_it_had_or_that_the_umask_asks_for(tmp_path):
    path, before = tmp_path / "x", os.umask(0o027)
    try:
        write_text(path, "x")
        assert os.umask(0o027) == 0o027  # The mask of the process is unchanged.
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    write_text(tmp_path / "link", "secret")
    assert (tmp_path / "link").is_symlink() and path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_output_takes_the_place_of_an_input_or_of_another_output_in_any_spelling(
    tmp_path, monkeypatch
):
    text, link, other = (tmp_path / name for name in ("text", "link", "other"))
    text.write_text("one dog\n")
    link.symlink_to(text)
    check_outputs([other], [text])
    for outputs, inputs in (([link], [text]), ([text], [link]), ([other, other], [text])):
        with pytest.raises(UserError, match=f"{outputs[0]}: given for two flags"):
            check_outputs(outputs, inputs)
    with open(text) as stream:
        check_outputs([other], [], stream)
        with pytest.raises(UserError, match=f"{link}: is also the standard input"):
            check_outputs([other, link], [], stream)
    check_outputs([text], [], stream)  # Closed.
    assert text.read_text() == "one dog\n" and not other.exists()
    monkeypatch.chdir(tmp_path)
    for one, other in (("", ""), ("x", "./x/"), ("x,y", f"y/../x,{tmp_path}/y")):
        assert same_paths(one, other) and same_paths(other, one)
    for one, other in (("", "."), ("x", "y"), ("x,y", "y,x"), ("x,y", "x")):
        assert not same_paths(one, other) and not same_paths(other, one)
