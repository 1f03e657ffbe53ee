"""Texts to translate and their reference translations: plain files, columns of TSV, SGML."""

import os

from data_pipeline.downloads.archives import matched_segments, parse_sgml
from data_pipeline.downloads.cleaning import KEEP_ALL, Cleaner
from data_pipeline.files import UserError, open_source, read_lines
from data_pipeline.streams import (
    Column,
    FileLines,
    check_lengths,
    is_tsv,
    names_of,
    one_side,
    same_file,
    sides_of,
)


def source_text(path, column=None):
    """Opens a text to translate.

    Args:
        path: a plain text, an SGML test set (`.sgm`, `.sgml`) or a `.tsv`.
        column: number of the column of a `.tsv`, counted from 1, or None.

    Returns:
        The lines, an iterable of str with a length: `FileLines`, or the segments of an SGML test
        set in a list.

    Raises:
        UserError: the file cannot be read, is empty or is not UTF-8; a line of a `.tsv` has another
            number of columns than its first line; a `.tsv` without a column has tabs.
    """
    if _is_sgml(path):
        return list(_segments(path).values())
    lines = FileLines(path if column is None else _columns(path, column)[column - 1])
    if not len(lines):
        raise UserError(f"{path}: empty; expected one sentence a line")
    has_tabs = False
    for line in lines:  # So that bytes that are not UTF-8 are found before the work begins.
        has_tabs = has_tabs or "\t" in line
    if is_tsv(path) and column is None and has_tabs:
        raise UserError(
            f"{path}: has tabs, so it may hold source and target; give it as --reference, too, or "
            "translate one column: --input_column=1"
        )
    return lines


def reference_texts(references, source, lines, column=None):
    """Reads the reference translations of a text.

    Args:
        references: one or more paths separated by commas, each of a plain text, of an SGML test
            set, or of the `.tsv` that holds the source: all its other columns are references.
        source: path of the source, or its name if it is no file, such as "standard input".
        lines: the lines of the source.
        column: as in `source_text`.

    Returns:
        A list of str for each reference, in order.

    Raises:
        UserError: a file cannot be read or is blank, or has another number of lines or other
            segments than the source.
    """
    found = []
    for path in names_of(references):
        # A column is one side, so that the other side may be a file of its own.
        is_side = column is not None and not same_file(source, path)
        side = one_side(path) if is_side else sides_of(source, path)[1]
        if isinstance(side, Column):
            paths = _columns(path, column or 1)
            del paths[(column or 1) - 1]
            texts = [_checked(FileLines(path)) for path in paths]
        elif _is_sgml(path) and _is_sgml(source):
            sides = _segments(source), _segments(path)
            texts = [matched_segments(*sides, f"{source} and {path}")[1]]
        elif _is_sgml(path):
            texts = [list(_segments(path).values())]
        else:
            texts = [_checked(FileLines(path))]
        for text in texts:
            check_lengths((source, path), (len(lines), len(text)))
            found.append(list(text))
    return found


def _checked(lines):
    if any(lines.blank):
        raise UserError(f"{lines.paths[0]}: empty or blank; expected one sentence a line")
    return lines


def _columns(path, column):
    """Returns all columns of a `.tsv`, at least two, as many as its first line has."""
    with open_source(path) as file:
        count = max(file.readline().count(b"\t") + 1, 2)
    if column > count:
        raise UserError(f"{path}, line 1: has {count} columns; there is no column {column}")
    return [Column(path, number, count) for number in range(count)]


def _segments(path):
    """Returns the segments of a test set, mended as those of a published corpus are."""
    segments = parse_sgml("\n".join(read_lines(path)), path)
    return dict(zip(segments, Cleaner(KEEP_ALL).mend(list(segments.values())), strict=True))


def _is_sgml(path):
    return os.fspath(path).lower().endswith((".sgm", ".sgml"))
