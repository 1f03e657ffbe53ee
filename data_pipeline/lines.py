"""Text files of any size as lines, read a block at a time."""

import codecs
import copy
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, decode_block, line_blocks, open_source
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.downloads import markup
from nmt_zoo.data_pipeline.text_form import is_blank

_BLOCK_BYTES = 1 << 24
_HEAD = 20  # Lines that show quoted fields.
_SEPARATOR = re.compile(rb"(?<![^ \t])\|\|\|(?![^ \t])")
Sides: TypeAlias = tuple[FilePath, FilePath]


class TextFile(NamedTuple):
    r"""One side of a text in a file: all of it, a column of it, or a text of a test set.

    Columns stand between tabs, as in a `.tsv`, or if `is_joined` on both sides of a `|||`.
    """

    path: FilePath
    column: int | None = None  # Counted from 0; of two, 0 is the source and 1 the target.
    num_columns: int = 2
    is_joined: bool = False
    segments: markup.Texts | None = None  # Of a test set.

    def __fspath__(self):
        return os.fspath(self.path)

    def __str__(self):
        return str(self.path)

    def num_bytes(self) -> int:
        """Returns the length of the file."""
        with open_source(self.path) as file:
            return os.fstat(file.fileno()).st_size

    def blocks(self) -> Iterator[bytes]:
        r"""Yields the text in blocks of whole lines joined by "\n", without a final "\n"."""
        if self.segments is not None:
            yield "\n".join(self.segments.values()).encode("utf-8")
            return
        count = 0
        with open_source(self.path) as file:
            if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
                file.seek(0)
            for block in line_blocks(lambda: file.read(_BLOCK_BYTES)):
                block = block.replace(b"\r\n", b"\n").removesuffix(b"\n")
                yield block if self.column is None else self._of_column(block, count)
                count += block.count(b"\n") + 1

    def _of_column(self, block, lines_before):
        column = []
        for number, line in enumerate(block.split(b"\n"), start=lines_before + 1):
            fields = line.split(b"\t")
            if self.is_joined:
                fields = [side.strip(b" \t") for side in _SEPARATOR.split(line)]
            if len(fields) != self.num_columns:
                expected = "source and target with one tab between them"
                if self.num_columns > 2:
                    expected = f"{self.num_columns} columns with tabs between them, as in line 1"
                fault = f"expected {expected}, found {len(fields) - 1} tabs"
                if self.is_joined:
                    shown = line.decode(errors="replace")[:60]
                    fault = f"{shown!r}; expected `source ||| target`, with one ||| between spaces"
                raise UserError(f"{self.path}, line {number}: {fault}")
            column.append(fields[self.column])
        return b"\n".join(column)


class Lines:
    r"""The lines of text files, one file after the other; never all of them in memory.

    Like the list that `common.files.read_lines` returns, an instance has a length and can be
    iterated over many times. Each iteration reads the files again. The constructor reads them once,
    to count lines and to compute checksums that reveal later changes.

    Attributes:
        paths: a `TextFile` for each file.
        sizes: number of lines of each file.
        num_bytes: length of all lines, in bytes.
        blank: for each file, True if all of its lines are blank.
        digest: SHA-256 of all lines joined by "\n" and of the marks of `map`, 32 bytes.
        plain: the `Lines` without what `map` makes of them.

    Raises UserError: a file is missing or cannot be read. Text that is not UTF-8 raises during
    iteration.

    Example:
        >>> lines = Lines("train.en")
        >>> len(lines), next(iter(lines))
        (2, 'A dog runs.')
    """

    def __init__(self, *paths: FilePath):
        self.paths = [p if isinstance(p, TextFile) else TextFile(p) for p in paths]
        self.plain = self
        self.sizes = []
        self.num_bytes = 0
        self.blank = []
        self._begins = ()
        self._digests = []  # SHA-256 of all lines up to the end of each file.
        digest, separator = hashlib.sha256(), b""
        total = sum(file.num_bytes() for file in self.paths)
        with Progress(f"reading {paths[0]}", total, "bytes") as progress:
            for file in self.paths:
                count, blank = 0, True
                for block in file.blocks():
                    digest.update(separator)
                    digest.update(block)
                    separator = b"\n"
                    count += block.count(b"\n") + 1
                    self.num_bytes += len(block)
                    blank = blank and is_blank(block.decode(errors="replace"))
                    progress.update(len(block) + 1)
                self.sizes.append(count)
                self.blank.append(blank)
                self._digests.append(digest.digest())
        self.digest = digest.digest()

    def map(self, begin: Callable[[int], Callable[[str], str]], mark: str) -> "Lines":
        """Returns the same lines, each as a function makes it.

        `begin` is called with the number of a file at its first line, and returns the function of
        its lines. `mark` tells apart what different functions make, in `digest`.
        """
        mapped = copy.copy(self)
        mapped._begins = (*self._begins, begin)
        mapped.digest = hashlib.sha256(self.digest + mark.encode()).digest()
        return mapped

    def line_name(self, number: int) -> str:
        """Returns the file and the line of line `number`, counted from 0 over all files."""
        index = int(np.searchsorted(np.cumsum(self.sizes), number, side="right"))
        return f"{self.paths[index]}, line {number - sum(self.sizes[:index]) + 1}"

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[str]:
        digest, separator = hashlib.sha256(), b""
        files = zip(self.paths, self.sizes, self._digests, strict=True)
        for number, (file, size, expected) in enumerate(files):
            functions, count = [begin(number) for begin in self._begins], 0
            for block in file.blocks():
                digest.update(separator)
                digest.update(block)
                separator = b"\n"
                lines = decode_block(block, file, count + 1).split("\n")
                count += len(lines)
                if count > size:  # Before its new lines meet no lines of the other side.
                    raise _changed(file, f"had {size} lines and now has more")
                for function in functions:
                    lines = map(function, lines)
                yield from lines
            if count < size:
                raise _changed(file, f"had {size} lines and now has {count}")
            if digest.digest() != expected:
                raise _changed(file, "was changed after it was first read")


AnyLines: TypeAlias = list[str] | Lines


def _changed(path, how):
    return UserError(f"{path}: {how}; start again, and do not change the file while it is read")


def open_split(split: Sides) -> tuple[Lines, Lines]:
    """Opens (source, target), each a path, or a str of one or more paths separated by commas.

    One `.tsv` file named for both sides has lines of source and target, separated by a tab.
    Raises UserError: as `sides_of`; unequal numbers of files for the sides; a file is missing,
    empty or blank, or the sides of a corpus differ in length.
    """
    names = [names_of(side) for side in split]
    if len(names[0]) != len(names[1]):
        raise UserError(
            f"{len(names[0])} source and {len(names[1])} target files; expected a target file for "
            f"each source file, in the same order: {','.join(map(str, names[0] + names[1]))}"
        )
    corpora = list(map(sides_of, *names))
    source, target = (Lines(*paths) for paths in zip(*corpora, strict=True))
    for lines in (source, target):
        for path, blank in zip(lines.paths, lines.blank, strict=True):
            if blank:
                raise UserError(f"{path}: empty or blank; expected one sentence a line")
    for paths, sizes in zip(corpora, zip(source.sizes, target.sizes, strict=True), strict=True):
        check_lengths(paths, sizes)
    return source, target


def open_joined(path: FilePath) -> tuple[Lines, Lines]:
    """Opens both sides of a file of lines `source ||| target`.

    The line `ein Haus ||| a house` gives `["ein Haus"]` and `["a house"]`.
    Raises UserError: the file is missing or empty, or a line has another form.
    """
    source, target = (Lines(TextFile(path, column, is_joined=True)) for column in (0, 1))
    if not len(source):
        raise UserError(f"{path}: empty; expected lines `source ||| target`")
    return source, target


def tagged(lines: Lines, tags: Sequence[str]) -> Lines:
    """Puts the tag of its file before each line that is not blank."""

    def begin(file):
        return lambda line: line if is_blank(line) else f"{tags[file]} {line}"

    return lines.map(begin, "\n".join(tags))


def open_target(split: Sides) -> Lines:
    """Opens only the target side of a `Split`, whose source may be an empty name, as `Lines`.

    Raises UserError: as `open_split`, or a `.tsv` file without a source.
    """
    if split[0]:
        return open_split(split)[1]
    return Lines(*map(one_side, names_of(split[1])))


def names_of(side: FilePath) -> Sequence[FilePath]:
    """Splits a str of paths at its commas; `UserError` if one is empty."""
    names = side.split(",") if isinstance(side, str) else [side]
    if not all(map(os.fspath, names)):
        raise UserError(f"{side!r}: a comma without a file name on one side; remove the comma")
    return names


def sides_of(source: FilePath, target: FilePath) -> tuple[FilePath, FilePath]:
    """Returns both sides of one corpus: paths, or `TextFile`s of a `.tsv` file or of test sets.

    Raises UserError: both sides name the same file, and it is neither a `.tsv` nor a test set with
    both sides; or a `.tsv` is named for one side only.
    """
    is_same = same_file(source, target)
    if is_same and (is_tsv(source) or is_tsv(target)):
        num_columns(source)  # Refuses quoted fields.
        return TextFile(source, 0), TextFile(target, 1)
    if is_same and not markup.has_both_sides(source):
        names = source if source == target else f"{source} and {target}"
        raise UserError(
            f"{names}: the same file for source and target; give the file of the other language. "
            "If one file has both, its lines must be source, tab, target and its name must end in "
            ".tsv"
        )
    sides = one_side(source, markup.SOURCE), one_side(target, markup.REFERENCE)
    texts = [side.segments for side in sides if isinstance(side, TextFile)]
    if len(texts) == 2:
        _, matched = markup.matched_segments(*texts, (source, target))
        return sides[0], TextFile(target, segments=dict(zip(texts[0], matched, strict=True)))
    return sides


def same_file(one: FilePath, other: FilePath) -> bool:
    """Returns whether two paths name one file that exists."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # Reported when the file is opened.
        return False


def one_side(path: FilePath, kind: str = markup.REFERENCE) -> FilePath:
    """Returns the path of a file that holds one side of a text, or a `TextFile` of a test set.

    Raises UserError: as `markup.read_text`, which reads a test set; or the file is a `.tsv`.
    """
    check_one_side(path)
    if not markup.is_test_set(path):
        return path
    return TextFile(path, segments=markup.read_text(path, kind))


def check_one_side(path: FilePath) -> None:
    """Raises `UserError` if a file that should hold one side of a text is a `.tsv`."""
    if is_tsv(path):
        raise UserError(
            f"{path}: given for one side only, but a .tsv holds both; give it for both sides, or "
            "split it into a file for each column, for example with `cut -f1`"
        )


def num_columns(path: FilePath) -> int:
    """Returns how many columns the first line of a `.tsv` has, at least two.

    Raises UserError: the file cannot be read, or its fields are quoted.
    """
    with open_source(path) as file:
        head = [file.readline() for _ in range(_HEAD)]
    markup.check_form(b"".join(head).decode("utf-8", "replace"), path)
    return max(head[0].count(b"\t") + 1, 2)


def is_tsv(path: FilePath) -> bool:
    """Returns whether a path ends in `.tsv`."""
    return os.fspath(path).lower().endswith(".tsv")


def check_lengths(names: Sequence[FilePath], sizes: Sequence[int]) -> None:
    """Raises `UserError` if two texts differ in their number of lines."""
    if sizes[0] != sizes[1]:
        shorter = names[sizes.index(min(sizes))]
        raise UserError(
            f"{names[0]} has {sizes[0]} lines and {names[1]} has {sizes[1]}; line n of one "
            "must translate line n of the other: check whether lines are missing at the end "
            f"of {shorter}, or were split in the other file"
        )
