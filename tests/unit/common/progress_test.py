"""Progress as log lines where there is no terminal, and as a bar where there is one."""

import contextlib
import fcntl
import os
import select
import struct
import termios

from nmt_zoo.common.progress import Progress


def logged(capsys):
    out, err = capsys.readouterr()
    assert out == ""  # Standard output is only for results.
    return err.splitlines()


@contextlib.contextmanager
def terminal_as_standard_error():
    """Yields a function that reads what has been written to a pseudo-terminal."""
    ours, theirs = os.openpty()
    rows, columns = 24, 100  # A new pseudo-terminal has 0 columns, too few for a bar.
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with open(ours, "rb", buffering=0) as screen, open(theirs, "w") as stream:
        os.set_blocking(ours, False)
        with contextlib.redirect_stderr(stream):
            yield lambda: _read_all(screen).decode()


def _read_all(screen):
    """Reads everything that has been written; the system may deliver it in pieces."""
    parts = []
    while select.select([screen], [], [], 0.2)[0]:
        parts.append(screen.read(1 << 16))
    return b"".join(parts)


def test_lines_without_a_terminal_say_how_far_and_how_long(capsys):
    with Progress("encoding x", total=2000, unit="lines", log_seconds=0) as progress:
        progress.update(1500)
        progress.update(500, loss=1.25)
    first, last = logged(capsys)
    assert first.startswith("encoding x: 1,500 of 2,000 lines, ")
    assert "lines/s" in first and "left" in first
    assert last.startswith("encoding x: 2,000 of 2,000 lines, ")
    assert "00:00 left" in last and last.endswith("loss 1.25")
    # Resumed work counts on, and its rate is of this run.
    with Progress("training", total=2_000_000, unit="steps", initial=10**6, log_seconds=0) as p:
        p.start -= 10  # As if begun ten seconds earlier.
        p.update(20)
    (line,) = logged(capsys)
    assert line.startswith("training: 1,000,020 of 2,000,000 steps, ")
    assert 1.5 < float(line.split(", ")[1].removesuffix(" steps/s")) <= 2


def test_lines_come_no_more_often_than_asked(capsys):
    with Progress("encoding", total=None, unit="lines", log_seconds=1000) as progress:
        progress.update(1)
        assert logged(capsys) == []
        progress.say("by the way")
        assert logged(capsys) == ["by the way"]
        progress.last_log -= 1000
        progress.update(1)
        progress.update(1)
    (line,) = logged(capsys)
    assert line.startswith("encoding: 2 lines, ") and " of " not in line and "left" not in line


def test_terminal_gets_a_bar_and_no_log_lines():
    with terminal_as_standard_error() as shown:
        with Progress("encoding", total=200, unit="lines", log_seconds=0) as progress:
            progress.update(200, loss=1.25)
            progress.say("by the way")
        text = shown()
    assert "200/200" in text and "100%" in text and "loss=1.25" in text
    assert "by the way" in text
    assert "200 of 200" not in text
