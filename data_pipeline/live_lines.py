"""Lines of a stream that may pause, such as a pipe or a terminal."""

import codecs
import collections
import itertools
import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_plain, decode_block

_BLOCK_BYTES = 1 << 16
_PAUSE_SECONDS = 0.01  # A writer that is busy may leave a pipe empty for a moment.
_MOST_CHARACTERS = 1 << 20  # A window of long lines must fit into memory, too.


class LiveLines:
    r"""The lines of a stream, as soon as they are there, split as by `decode_lines`.

    `file` needs a descriptor, as `sys.stdin` has; errors name `name`. Before the program waits for
    a line, `prompt` is printed to standard error.
    Raises UserError: the stream cannot be read, or is compressed or not UTF-8.

    Example:
        stream = LiveLines(sys.stdin, "standard input")
        while lines := stream.read(100): ...
    """

    def __init__(self, file: IO[Any], name: str, prompt: str = ""):
        self._file = file
        self._name = name
        self._prompt = prompt
        self._count = 0  # Lines that have been decoded.
        self._ready = collections.deque()  # Lines that have been decoded but not returned.
        self._rest = []  # The line that has no end yet, in pieces.
        self._ended = False

    def read(self, most: int) -> list[str]:
        """Waits for a line; returns it and those that follow without a pause, at most `most`.

        At the end of the stream, there are none.
        """
        lines, size = [], 0
        while len(lines) < most and size < _MOST_CHARACTERS:
            if self._ready:
                lines.append(self._ready.popleft())
                size += len(lines[-1])
            elif self._ended or (lines and self._pauses()):
                break
            else:
                self._fill()
        return lines

    def _pauses(self):
        return not select.select([self._file], [], [], _PAUSE_SECONDS)[0]

    def _fill(self):
        """Waits for more bytes and decodes the lines that are whole."""
        if self._prompt:
            print(self._prompt, end="", file=sys.stderr, flush=True)
        try:
            data = os.read(self._file.fileno(), _BLOCK_BYTES)
        except OSError as error:
            raise UserError(
                f"{self._name}: cannot be read ({error.strerror or error}); give the text as a "
                "file: --input"
            ) from None
        self._ended = not data
        if self._ended and self._prompt:
            print(file=sys.stderr)  # The prompt is on a line that has no end.
        head, end, rest = data.rpartition(b"\n")
        if end or self._ended:  # Joined only now, or a long line would be copied at every block.
            whole = b"".join([*self._rest, head, end])
            self._rest = []
            if whole:
                self._decode(whole)
        if rest:
            self._rest.append(rest)

    def _decode(self, block):
        r"""Decodes whole lines, each ended by `\n`; the last line of the stream need not be."""
        if not self._count:
            check_plain(block, self._name)
            block = block.removeprefix(codecs.BOM_UTF8)
        if not block:  # Nothing but the mark.
            return
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\n")
        lines = decode_block(block, self._name, self._count + 1).split("\n")
        self._count += len(lines)
        self._ready.extend(lines)


def reader(lines: Iterable[str]) -> Callable[[int], list[str]]:
    """Returns a function like `LiveLines.read` of an iterable of str."""
    iterator = iter(lines)

    def read(most):
        window, size = [], 0
        for line in itertools.islice(iterator, most):
            window.append(line)
            size += len(line)
            if size >= _MOST_CHARACTERS:
                break
        return window

    return read
