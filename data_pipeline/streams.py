"""Text files of any size as lines, read a block at a time."""

import codecs
import hashlib
import itertools
import os
from typing import NamedTuple

from data_pipeline.files import UserError, open_source
from data_pipeline.progress import Progress

_BLOCK_BYTES = 1 << 24


class Column(NamedTuple):
    r"""A side of a file of lines `source \t target`.

    Attributes:
        path: the file.
        number: 0 or 1.
    """

    path: str | os.PathLike
    number: int

    def __fspath__(self):
        return os.fspath(self.path)

    def __str__(self):
        return str(self.path)

    def of(self, block, lines_before):
        """This side of whole lines of bytes."""
        lines = [line.split(b"\t") for line in block.split(b"\n")]
        for number, fields in enumerate(lines, start=lines_before + 1):
            if len(fields) != 2:
                raise UserError(
                    f"{self.path}, line {number}: expected source and target with one tab between "
                    f"them, found {len(fields) - 1} tabs"
                )
        return b"\n".join(fields[self.number] for fields in lines)


class FileLines:
    r"""The lines of text files, one file after the other; never all of them in memory.

    Like the list that `data_pipeline.files.read_lines` returns, it has a length and can be gone
    through again and again, each time from the files. They are read once at the start, to count
    lines and to know the text again.

    Args:
        *paths: files of UTF-8 text, each a path or a `Column`.

    Attributes:
        paths: as given.
        sizes: lines of each file.
        blank: whether each file has white space alone.
        digest: SHA-256 of all lines joined by "\n", 32 bytes.

    Raises:
        UserError: a file that is missing or cannot be read; text that is not UTF-8 shows when it is
            gone through.

    Example:
        >>> lines = FileLines("train.en")
        >>> len(lines), next(iter(lines))
        (2, 'A dog runs.')
    """

    def __init__(self, *paths):
        self.paths = paths
        self.sizes = []
        self.blank = []
        self._digests = []  # Of all lines up to the end of each file.
        digest = hashlib.sha256()
        separator = b""
        with Progress(f"reading {paths[0]}", sum(map(_bytes_of, paths)), "bytes") as progress:
            for path in paths:
                count, blank = 0, True
                for block in _blocks(path):
                    digest.update(separator)
                    digest.update(block)
                    separator = b"\n"
                    count += block.count(b"\n") + 1
                    blank = blank and not block.strip()
                    progress.update(len(block) + 1)
                self.sizes.append(count)
                self.blank.append(blank)
                self._digests.append(digest.digest())
        self.digest = digest.digest()

    def __len__(self):
        return sum(self.sizes)

    def __iter__(self):
        return itertools.chain.from_iterable(self._lists())

    def _lists(self):
        """Lists of lines, a block of a file each."""
        digest, separator = hashlib.sha256(), b""
        for path, size, expected in zip(self.paths, self.sizes, self._digests, strict=True):
            count = 0
            for block in _blocks(path):
                digest.update(separator)
                digest.update(block)
                separator = b"\n"
                lines = _decode(block, path, count).split("\n")
                count += len(lines)
                yield lines
            if digest.digest() != expected:
                change = (
                    "was changed after it was first read"
                    if count == size
                    else f"had {size} lines and now has {count}"
                )
                raise UserError(
                    f"{path}: {change}; start again, and leave the file alone meanwhile"
                )


def open_split(split):
    """A `Split` as `open_splits`; text may name several files a side, with commas between them.

    One file `.tsv` for both sides has lines of source and target, with a tab between them.

    Args:
        split: (source, target), each a path, or str of one or several.

    Raises:
        UserError: as `open_splits` and `sides_of`, or not as many files for both sides.
    """
    source, target = map(_names, split)
    if len(source) != len(target):
        raise UserError(
            f"{len(source)} source and {len(target)} target files; expected a target file for "
            f"each source file, in the same order: {','.join(map(str, source + target))}"
        )
    return open_splits(*map(sides_of, source, target))


def open_target(split):
    """The target side alone, as `FileLines`, of a `Split` whose source may be an empty name.

    Raises:
        UserError: as `open_split`; without a source, a file `.tsv`.
    """
    if split[0]:
        return open_split(split)[1]
    return FileLines(*map(one_side, _names(split[1])))


def _names(side):
    names = side.split(",") if isinstance(side, str) else [side]
    if not all(map(os.fspath, names)):
        raise UserError(f"{side!r}: no file name at one side of a comma; leave the comma out")
    return names


def sides_of(source, target):
    """Both sides of one corpus, as paths, or as `Column`s of one file `.tsv`.

    Raises:
        UserError: one file for both sides that is no `.tsv`, under whatever names; a `.tsv` for one
            side only.
    """
    try:
        is_same = os.path.samefile(source, target)
    except OSError:  # Told when it is opened.
        is_same = False
    if is_same and (_is_tsv(source) or _is_tsv(target)):
        return Column(source, 0), Column(target, 1)
    if is_same:
        names = source if source == target else f"{source} and {target}"
        raise UserError(
            f"{names}: the same file for source and target; name a translation for the other side. "
            "One file with both has lines of source, tab, target and a name that ends in .tsv"
        )
    return one_side(source), one_side(target)


def one_side(path):
    """The path, of a file with one side of a text; raises `UserError` at a `.tsv`."""
    if _is_tsv(path):
        raise UserError(
            f"{path}: named for one side only, and a .tsv holds both; name it for both, or make "
            "a file of each column, for example with `cut -f1`"
        )
    return path


def _is_tsv(path):
    return os.fspath(path).lower().endswith(".tsv")


def open_splits(*splits):
    """Both sides of one corpus or of several, one after the other, as `FileLines`.

    Args:
        *splits: (source path, target path) of each corpus.

    Returns:
        (source `FileLines`, target `FileLines`), equally many in each corpus, at least one.

    Raises:
        UserError: a file that is missing, empty or blank, or unequal numbers of lines.
    """
    source, target = (FileLines(*paths) for paths in zip(*splits, strict=True))
    for lines in (source, target):
        for path, blank in zip(lines.paths, lines.blank, strict=True):
            if blank:
                raise UserError(f"{path}: empty or blank; expected one sentence a line")
    for paths, sizes in zip(splits, zip(source.sizes, target.sizes, strict=True), strict=True):
        if sizes[0] != sizes[1]:
            shorter = paths[sizes.index(min(sizes))]
            raise UserError(
                f"{paths[0]} has {sizes[0]} lines and {paths[1]} has {sizes[1]}; line n of one "
                f"must translate line n of the other: see what is missing at the end of {shorter}, "
                "or which lines were split"
            )
    return source, target


def _bytes_of(path):
    with open_source(path) as file:
        return os.fstat(file.fileno()).st_size


def _blocks(path):
    r"""Whole lines of a file as bytes, joined by "\n", without the last "\n" of a block."""
    count = 0
    for block in _whole_blocks(path):
        yield path.of(block, count) if isinstance(path, Column) else block
        count += block.count(b"\n") + 1


def _whole_blocks(path):
    with open_source(path) as file:
        rest = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := file.read(_BLOCK_BYTES):
            end = block.rfind(b"\n")
            if end < 0:
                rest += block
                continue
            yield (rest + block[:end]).removesuffix(b"\r").replace(b"\r\n", b"\n")
            rest = block[end + 1 :]
    if rest:
        yield rest.replace(b"\r\n", b"\n").removesuffix(b"\n")


def _decode(block, path, lines_before):
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + block.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 (byte 0x{block[error.start]:02x}); "
            "convert the file, for example with `iconv -f latin1 -t utf-8`"
        ) from None
