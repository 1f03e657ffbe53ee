"""Opens what is translated, a file or a stream, and what translations are compared with.

Files are plain texts, columns of a `.tsv`, or test sets in SGML or XML.
"""

import collections
import itertools
import os
import select
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import IO, Any, NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, decode_lines
from nmt_zoo.data_pipeline.documents import Context, starts_of
from nmt_zoo.data_pipeline.downloads import markup
from nmt_zoo.data_pipeline.lines import (
    AnyLines,
    Lines,
    TextFile,
    check_lengths,
    check_one_side,
    is_tsv,
    names_of,
    num_columns,
    same_file,
    sides_of,
)
from nmt_zoo.data_pipeline.text_form import is_blank

_BLOCK_BYTES = 1 << 16
_PAUSE = 0.01  # Seconds. A writer that is busy may leave a pipe empty for a moment.
_MOST_CHARACTERS = 1 << 20  # A window of long lines must fit into memory, too.
_MOST_BATCHES = 32  # In a window. Lines of similar length share batches only within a window.


class InputText(NamedTuple):
    read: Callable  # Function of the most lines to return, as `LiveLines.read`.
    name: str  # Its name in errors.
    size: int | None = None  # Number of lines, or None if it is unknown.
    prompts: bool = False  # Whether a person types the lines.
    references: list | tuple = ()  # List of reference translations, each a list of str.
    starts: Collection = ()  # Where documents begin, see `data_pipeline.documents.Context`.
    markup: Any = None  # The document in markup that the lines come from, and go back into.

    def in_documents(self, most: int) -> "InputText":
        """Returns the text with at most `most` sentences of its document before each line."""
        context = Context(most, self.starts)
        return self._replace(read=lambda most_lines: context.of(self.read(most_lines)))


def open_text(path: str, *, column: int | None = None, reference: str = "") -> InputText:
    """Opens a text, see `source_text`, and what its translations are compared with.

    An empty `path` is standard input, which is read as it arrives, or as a whole if there are
    references. `reference` is as of `reference_texts`; "" for none. Raises UserError as
    `source_text` and `reference_texts`.
    """
    name = path or "standard input"
    if column and not is_tsv(name):
        raise UserError(f"--input_column is for an --input that ends in .tsv, found {name}")
    starts = ()
    if path:
        lines = source_text(path, column or (1 if is_tsv(path) and reference else None))
        starts = starts_of(*lines.paths)
    else:
        prompts = sys.stdin.isatty()
        read = LiveLines(sys.stdin, name, "> " if prompts else "").read
        if not reference:
            return InputText(read, name, prompts=prompts)
        lines = [line for _, window in windows(read, 1000) for line in window]
    references = reference_texts(reference, name, lines, column) if reference else []
    return InputText(reader(lines), name, len(lines), False, references, starts)


def windows(read: Callable[[int], list[str]], batch_size: int) -> Iterator[tuple[int, list[str]]]:
    """Yields windows of a text: (number of the first line, counted from 0; lines).

    Each may be twice as long as the one before, so that the first translations appear after one
    batch. `read`, of the most lines to return, ends the text by an empty list, see `LiveLines`.
    """
    first, most = 0, batch_size
    while lines := read(most):
        yield first, lines
        first += len(lines)
        most = min(2 * most, _MOST_BATCHES * batch_size)


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


class LiveLines:
    r"""The lines of a stream, as soon as they are there, split as by `decode_lines`.

    `file` needs a descriptor, as `sys.stdin` has; errors name `name`. Before the program waits for
    a line, `prompt` is printed to standard error.
    Raises UserError: the stream cannot be read, is compressed or not UTF-8, or begins with a test
    set in markup.

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
        self._is_new = True
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
            elif self._ended or (lines and not select.select([self._file], [], [], _PAUSE)[0]):
                break
            else:
                self._fill()
        if self._is_new and markup.is_markup("\n".join(lines), "", self._name):
            raise UserError(f"{self._name}: a test set in markup; give it as a file: --input")
        self._is_new = False
        return lines

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
            lines = decode_lines(whole, self._name, self._count + 1)
            self._count += len(lines)
            self._ready.extend(lines)
        if rest:
            self._rest.append(rest)


def source_text(path: FilePath, column: int | None = None) -> Lines:
    """Opens a text to translate: a plain text, a test set in SGML or XML, or a `.tsv`.

    `column` is the number of the column of a `.tsv`, counted from 1, or None.
    Raises UserError: the file cannot be read, is empty or is not UTF-8; a line of a `.tsv` has
    another number of columns than its first line; a `.tsv` without a column has tabs.
    """
    if segments := source_segments(path):
        if not os.fspath(path).lower().endswith((".sgm", ".sgml", ".xml")):
            print(f"{path}: read as a test set of {len(segments):,} segments", file=sys.stderr)
        return Lines(TextFile(path, segments=segments))
    lines = Lines(path if column is None else _columns(path, column)[column - 1])
    if not len(lines):
        raise UserError(f"{path}: empty; expected one sentence a line")
    # All lines, so that bytes that are not UTF-8 are found before the work begins.
    has_tabs = sum("\t" in line for line in lines)
    if is_tsv(path) and column is None and has_tabs:
        raise UserError(
            f"{path}: has tabs, so it may hold source and target; give it as --reference, too, or "
            "translate one column: --input_column=1"
        )
    return lines


def source_segments(path: FilePath) -> markup.Texts | None:
    """Returns the {(document, segment): text} of a test set; None if a path names none."""
    if is_tsv(path) or not os.path.isfile(path) or not markup.is_test_set(path):
        return None
    return markup.read_text(path, markup.SOURCE)


def reference_texts(
    references: str, source: FilePath, lines: AnyLines, column: int | None = None
) -> list[list[str]]:
    """Reads the reference translations of a text.

    Args:
        references: one or more paths separated by commas, each of a plain text, of a test set in
            SGML or XML with one or more references, or of the `.tsv` that holds the source in one
            of its two columns.
        source: path of the source, or its name if it is no file, such as "standard input".
        column: as in `source_text`.

    Raises UserError: a file cannot be read or is blank, or has another number of lines, other
    segments than the source or further columns.
    """
    all_references = []
    for path in names_of(references):
        if same_file(source, path) and not markup.has_both_sides(path):
            sides_of(source, path)  # Refuses all but a .tsv.
            columns = _columns(path, column or 1)
            if len(columns) > 2:
                raise UserError(
                    f"{path}: has {len(columns)} columns, and --reference takes the other one of "
                    "two; write each reference to a file, for example with `cut -f3`"
                )
            texts = [Lines(columns[2 - (column or 1)])]
        else:
            if column is None:  # A column is one side, so that the other may be a file of its own.
                check_one_side(source)
            check_one_side(path)
            texts = _texts(path, source, markup.REFERENCE)
        for text in texts:
            all_references.append(list(text))
            if all(map(is_blank, all_references[-1])):
                raise UserError(f"{path}: empty or blank; expected one sentence a line")
            check_lengths((source, path), (len(lines), len(text)))
            equal = sum(map(str.__eq__, lines, all_references[-1]))
            if equal > len(lines) / 2:
                print(
                    f"{path}: {equal:,} of {len(lines):,} lines of the reference are those of the "
                    "source; is it the file of the other language?",
                    file=sys.stderr,
                )
    return all_references


def other_translation(path: FilePath, source: FilePath, lines: AnyLines) -> list[str]:
    """Reads translations of a text that are no reference, as `reference_texts`."""
    texts = _texts(path, source, markup.TRANSLATION)
    if len(texts) > 1:
        raise UserError(f"{path}: holds {len(texts)} translations; give a file with one of them")
    check_lengths((source, path), (len(lines), len(texts[0])))
    return list(texts[0])


def _texts(path, source, kind):
    """Returns the texts of a plain file, or those of a test set in the order of the source's."""
    if not markup.is_test_set(path):
        return [Lines(path)]
    texts, segments = markup.read_texts(path, kind), source_segments(source)
    if segments is None:
        return [list(text.values()) for text in texts]
    return [markup.matched_segments(segments, text, (source, path))[1] for text in texts]


def _columns(path, column):
    """Returns all columns of a `.tsv`, at least two, as many as its first line has."""
    count = num_columns(path)
    if column > count:
        raise UserError(f"{path}, line 1: has {count} columns; there is no column {column}")
    return [TextFile(path, number, count) for number in range(count)]
