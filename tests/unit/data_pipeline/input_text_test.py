"""Lines of pipes: as soon as they are whole, in windows of limited size."""

import os
import random

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import decode_lines
from nmt_zoo.data_pipeline import input_text
from nmt_zoo.data_pipeline.input_text import LiveLines, reader


@pytest.fixture
def pipe():
    """A function that writes to a pipe, one that closes it, and the pipe's other end."""
    read, write = os.pipe()
    with open(read, "rb") as source, open(write, "wb", buffering=0) as target:
        yield target, source


def test_whole_lines_come_at_once_and_others_when_they_are_whole(pipe):
    target, source = pipe
    stream = LiveLines(source, "the pipe")
    target.write("one\u2028dog\n\ntwo\r\nthr".encode())
    assert stream.read(2) == ["one\u2028dog", ""]
    assert stream.read(2) == ["two"]
    target.write(b"ee\nfour\r")
    assert stream.read(9) == ["three"]
    target.close()
    assert stream.read(9) == ["four\r"]
    assert stream.read(9) == stream.read(9) == []


@pytest.mark.parametrize("block", [1, 7, 64])
def test_the_size_of_a_block_changes_nothing(pipe, monkeypatch, block):
    target, source = pipe
    text = "".join(random.Random(block).choices("aä€😀\n\r\u2028\ufeff", k=300))
    target.write(text.encode())
    target.close()
    monkeypatch.setattr(input_text, "_BLOCK_BYTES", block)
    stream, found = LiveLines(source, "the pipe"), []
    while lines := stream.read(5):
        assert len(lines) <= 5
        found += lines
    assert found == decode_lines(text.encode(), "text")


def test_long_lines_end_a_window_early(pipe, monkeypatch):
    monkeypatch.setattr(input_text, "_MOST_CHARACTERS", 10)
    target, source = pipe
    lines = ["x" * 8, "y" * 8, "z", "", "w"]
    target.write("".join(f"{line}\n" for line in lines).encode())
    for read in (LiveLines(source, "the pipe").read, reader(lines)):
        assert read(9) == lines[:2]
    target.close()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"one\ntwo \xff\nthree\n", "the pipe, line 2: not UTF-8 .byte 0xff"),
        (b"one\ntwo\n\xc3", "the pipe, line 3: not UTF-8"),
        (b"\x1f\x8b\x08\x00", "the pipe: compressed by gzip"),
        ("one\ntwo\n".encode("utf-16"), "the pipe, line 1: not UTF-8 but UTF-16"),
        (b'<doc id="a">\n<seg id="1">one</seg>\n', "the pipe: a test set in markup; give it"),
        (b'<3 you\n<doc id="a">\n<seg id="1">one</seg>\n', None),  # Markup comes later.
    ],
)
def test_bytes_that_are_no_text_are_one_line_with_its_number(pipe, data, expected):
    target, source = pipe
    with pytest.raises(UserError, match="give the text as a file"):
        LiveLines(target, "standard input").read(1)
    target.write(data)
    target.close()
    stream = LiveLines(source, "the pipe")
    if expected is None:
        assert stream.read(1) == ["<3 you"] and len(stream.read(9)) == 2
        return
    with pytest.raises(UserError, match=expected):
        while stream.read(2):
            pass
