"""Reads parallel text in the formats of published corpora: plain, gzip, tar archives, SGML, XML.

Archives are read without unpacking them, so that no name in an archive becomes a path.
"""

import contextlib
import gzip
import itertools
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.common.files import FilePath, decode_lines, line_blocks
from nmt_zoo.data_pipeline.downloads.markup import matched_segments, parse_texts
from nmt_zoo.data_pipeline.lines import check_lengths

_BLOCK = 1 << 22
# tarfile raises KeyError at a link that points out of the archive, and RecursionError at links that
# point at each other.
_BROKEN = (OSError, EOFError, KeyError, RecursionError, zlib.error, tarfile.TarError)
# The beginning of a line of IWSLT's talks that is no plain sentence.
_OF_TALK = re.compile(r"<(\w+)(?:\s[^<>]*)?>(?:(.*)</\1>)?")


def name_of(path: FilePath, member: str) -> str:
    """Returns the name of a text in messages."""
    return f"{path}: {member}" if member else str(path)


def stream_lines(path: FilePath, member: str = "") -> Iterator[str]:
    """Yields the lines of a text, as `decode_lines`, without reading all of it into memory.

    `path` may be compressed by gzip if its name ends in `.gz`. `member` names a text inside `path`,
    which then is a tar archive, compressed or not.
    Raises UserError: the text is missing, damaged, truncated, or not UTF-8.

    Example:
        >>> lines = stream_lines("dev.tgz", "dev/newstest2013.en")
    """
    name, number = name_of(path, member), 1
    try:
        with _opened(path, member) as file:
            for block in line_blocks(lambda: file.read(_BLOCK)):
                lines = decode_lines(block, name, number)
                number += len(lines)
                yield from lines
    except _BROKEN as error:
        if not Path(path).is_file():
            raise UserError(f"{path}: cannot be read; check the name") from None
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise UserError(
            f"{path}: damaged or incomplete ({reason}); remove it and download it again"
        ) from None


def stream_pairs(
    source: tuple[FilePath, str], target: tuple[FilePath, str]
) -> Iterator[tuple[list[str], ...]]:
    """Yields parallel text in blocks of (source lines, target lines); sides are (path, member).

    Files named `.sgm`, `.sgml` or `.xml` are test sets: their segments are matched by document and
    segment, in the order of the source. Files named `train.tags.` are talks, see `sentences`.
    Raises UserError: as `stream_lines`, or the sides do not match.
    """
    names = name_of(*source), name_of(*target)
    sides, count = [stream_lines(*side) for side in (source, target)], 0
    if all(name.endswith((".sgm", ".sgml", ".xml")) for name in names):
        parsed = (parse_texts("\n".join(side), n) for side, n in zip(sides, names, strict=True))
        yield matched_segments(*(next(iter(kinds.values()))[0] for kinds in parsed), names)
        return
    if all("/train.tags." in f"/{member or path}" for path, member in (source, target)):
        sides = list(map(sentences, sides))
    while True:
        blocks = [list(itertools.islice(side, 20_000)) for side in sides]
        if len(blocks[0]) != len(blocks[1]):
            sizes = [
                count + len(block) + sum(1 for _ in side)
                for block, side in zip(blocks, sides, strict=True)
            ]
            check_lengths(names, sizes)
        if not blocks[0]:
            return
        count += len(blocks[0])
        yield tuple(blocks)


def sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yields the sentences of talks in the format of IWSLT.

    Titles and descriptions, of a line each, count as sentences, as is customary; all other lines
    that begin with a tag, such as `<url>`, are left out.

    Example:
        >>> list(sentences(["<talkid>1</talkid>", "<title>A: B</title>", " Hello. "]))
        ['A: B', 'Hello.']
        >>> list(sentences(['<translator href="x">C</translator>', "<3 you"]))
        ['<3 you']
    """
    for line in map(str.strip, lines):
        tag = _OF_TALK.match(line)
        if not tag:
            yield line
        elif tag[1] in ("title", "description"):
            yield (tag[2] or "").strip()


@contextlib.contextmanager
def _opened(path, member):
    if not member:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            yield file
        return
    names = []
    with tarfile.open(path) as archive:
        for info in archive:
            if posixpath.normpath(info.name) == member and (file := archive.extractfile(info)):
                yield file
                while archive.fileobj.read(_BLOCK):
                    pass  # Reading to the end checks the checksum of compressed archives.
                return
            names.append(info.name)
    shown = ", ".join(map(printable, names[:5])) + (", ..." if len(names) > 5 else "")
    raise UserError(f"{path}: has no {member}; it holds {shown or 'nothing'}")
