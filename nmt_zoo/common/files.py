"""Reads text files and writes files: one rule for lines, one form of errors, atomic writes."""

import codecs
import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nmt_zoo.common.errors import UserError

FilePath = str | os.PathLike
# First bytes of compressed files, which are never UTF-8: (compressor, command to decompress).
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip -k"),
    b"BZh91AY&SY": ("bzip2", "bunzip2 -k"),
    b"\xfd7zXZ\0": ("xz", "unxz -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
}
# First bytes of other files that hold text.
_DOCUMENTS = {b"PK\x03\x04": "an office document or zip file", b"%PDF": "PDF", b"{\\rtf": "RTF"}
# Endings of files of settings, and the most bytes that one can have.
_SMALL, _LARGEST = (".json", ".jsonl", ".yml", ".md"), 1 << 28
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def decode_lines(data: bytes, name: FilePath, first_line: int = 1) -> list[str]:
    r"""Splits UTF-8 bytes into lines. Only `\n` and `\r\n` end a line.

    A lone `\r`, U+2028, U+0085 and the like do not end a line, unlike in `str.splitlines`. A byte
    order mark at the start of the first line is dropped. Errors name the text `name` and count
    lines from `first_line`, because `data` may be a part of a file.
    Raises UserError: the data are compressed, or not UTF-8 (the message names the line).
    """
    if first_line == 1:
        check_plain(data, name)
        data = data.removeprefix(codecs.BOM_UTF8)
    lines = decode_block(data, name, first_line).replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def decode_block(block: bytes, name: FilePath, first_line: int) -> str:
    """Decodes whole lines of a text; arguments as for `decode_lines`.

    Raises UserError: not UTF-8; the message names the line.
    """
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = block.count(b"\n", 0, error.start) + first_line
        raise UserError(
            f"{name}, line {line}: not UTF-8 (byte 0x{block[error.start]:02x}); "
            "convert the file, for example with `iconv -f latin1 -t utf-8`"
        ) from None


def line_blocks(read: Callable[[], bytes]) -> Iterator[bytes]:
    r"""Yields what `read` returns, until it is empty, in blocks of whole lines with their `\n`."""
    pieces = []  # Of a line without an end: joined once, or a long line would be copied each time.
    while data := read():
        lines, end, rest = data.rpartition(b"\n")
        if end:
            yield b"".join([*pieces, lines, end])
            pieces = []
        pieces.append(rest)
    if any(pieces):
        yield b"".join(pieces)


def check_plain(data: bytes, name: FilePath) -> None:
    """Raises `UserError` if the first bytes of a text are those of a file of another form."""
    for beginning, (compressor, command) in _COMPRESSED.items():
        if data.startswith(beginning):
            raise UserError(f"{name}: compressed by {compressor}; decompress it first: `{command}`")
    for beginning, form in _DOCUMENTS.items():
        if data.startswith(beginning):
            raise UserError(f"{name}: {form}; save it as plain text, one sentence a line")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(
            f"{name}, line 1: not UTF-8 but UTF-16; convert it: `iconv -f utf-16 -t utf-8`"
        )


@contextlib.contextmanager
def open_source(path: FilePath) -> Iterator[BinaryIO]:
    """Opens a text file as a context manager that yields a binary file object.

    Raises UserError: the file is missing, unreadable or compressed, or it is a pipe or a device:
    these may never end and cannot be read twice.
    """
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UserError(
                f"{path}: a pipe or a device, not a regular file; write the text to a file first"
            )
        with open(path, "rb") as file:
            check_plain(file.peek(16), path)
            yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the name") from None


def read_bytes(path: FilePath) -> bytes:
    """Returns the bytes of a text file; raises as `open_source`, and if it is far too large."""
    with open_source(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _LARGEST and os.path.splitext(path)[1] in _SMALL:
            raise UserError(f"{path}: has {size:,} bytes, at most {_LARGEST:,} are read; damaged")
        return file.read()


def read_lines(path: FilePath) -> list[str]:
    """Returns the lines of a UTF-8 text file, as `decode_lines`.

    Raises UserError: as `open_source`, or the file is not UTF-8.
    """
    return decode_lines(read_bytes(path), path)


@contextlib.contextmanager
def atomic_path(path: FilePath) -> Iterator[Path]:
    """Yields a temporary path, and renames it to `path` if the block ends without an error.

    Missing folders are made. After an error, no temporary file is left and an older file at `path`
    is unchanged. If `path` is a link, the file that it points to is replaced, not the link.
    Raises UserError: `path` cannot be written, or is a folder or a device.
    """
    name, path = path, Path(os.path.realpath(path))
    temporary = None
    with one_line_errors(name):
        try:
            if path.is_dir() or os.fspath(name).endswith(os.sep):
                raise UserError(f"{name}: cannot be written (a folder); add the name of a file")
            if path.exists() and not path.is_file():  # Root would replace even /dev/null.
                raise UserError(
                    f"{name}: cannot be written (not a regular file); give another name"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            # Making the file now finds an unwritable target before the work. The suffix is kept,
            # because numpy and others derive the format from it.
            unfinished = {"dir": path.parent, "prefix": ".unfinished-", "suffix": path.suffix}
            handle, temporary_name = tempfile.mkstemp(**unfinished)
            os.close(handle)
            temporary = Path(temporary_name)
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            # A file that others may not read stays so.
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
            os.replace(temporary, path)
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def growing_file(path: FilePath, end: str = "\n") -> Iterator[Callable[[Iterable[str]], None]]:
    r"""Yields a function that appends lines to a file, which appears when the block ends.

    `end` is written after each line. Until the block ends, and after an error, an older file is
    unchanged. The lines wait in a file without a name, which vanishes with the process, so that any
    number of lines takes little memory.
    Raises UserError: as `atomic_path`.
    """
    folder = Path(os.path.realpath(path)).parent

    def append(lines):
        with one_line_errors(path):
            waiting.write("".join(f"{line}{end}" for line in lines).encode("utf-8"))

    with contextlib.ExitStack() as stack:
        with one_line_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            waiting = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        yield append
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            waiting.seek(0)
            shutil.copyfileobj(waiting, file)


@contextlib.contextmanager
def one_line_errors(path: FilePath) -> Iterator[None]:
    """Within the `with` block, an `OSError` of writing to a path becomes a `UserError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        advice = "make room" if error.errno in _FULL else "check the name"
        raise UserError(f"{path}: cannot be written ({reason}); {advice}") from None


def check_writable(path: FilePath) -> None:
    """Raises `UserError` if a file cannot be written. Call it before long work."""
    with contextlib.suppress(_Checked), atomic_path(path):
        raise _Checked


def check_outputs(
    outputs: Iterable[FilePath], inputs: Iterable[FilePath], standard_input: Any = None
) -> None:
    """Raises `UserError` if an output cannot be written, or would replace an input.

    `standard_input` is an open file that will be read, too, such as `sys.stdin`, or None.
    """
    stream = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # Closed, or not a file.
        stream = os.fstat(standard_input.fileno())
    taken = {os.path.realpath(path) for path in inputs}
    for path in outputs:
        check_writable(path)
        if os.path.realpath(path) in taken:
            raise UserError(f"{path}: given for two flags; give each flag a file of its own")
        if stream and os.path.exists(path) and os.path.samestat(stream, os.stat(path)):
            raise UserError(
                f"{path}: is also the standard input, which it would replace; give another file"
            )
        taken.add(os.path.realpath(path))


def same_paths(one: str, other: str) -> bool:
    """Returns whether two texts name the same paths, each a path or several with commas between."""
    first, second = ([p and os.path.realpath(p) for p in text.split(",")] for text in (one, other))
    return first == second


def check_folder(path: FilePath) -> None:
    """Raises `UserError` if files cannot be made in a folder, which need not exist yet.

    This makes no folder, so it can be called long before anything is written.
    """
    path = Path(path)
    with one_line_errors(path):
        nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            raise OSError(f"{nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise OSError(f"{nearest} may not be changed")


class _Checked(Exception):
    """Leaves `atomic_path` before it replaces anything."""


def write_text(path: FilePath, text: str) -> None:
    """Writes a UTF-8 file atomically, without changing line ends."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def write_json(path: FilePath, record: Any) -> None:
    """Writes a record as indented JSON, atomically."""
    write_text(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def write_lines(path: FilePath, lines: Iterable[str]) -> None:
    r"""Writes lines atomically, each ended by `\n`."""
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
