"""Texts to translate and their reference translations: plain files, columns of TSV, markup."""

import os

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, open_source
from nmt_zoo.data_pipeline.downloads import markup
from nmt_zoo.data_pipeline.lines import (
    AnyLines,
    Lines,
    TextFile,
    check_lengths,
    check_one_side,
    is_tsv,
    names_of,
    same_file,
    sides_of,
)
from nmt_zoo.data_pipeline.text_form import is_blank


def source_text(path: FilePath, column: int | None = None) -> Lines:
    """Opens a text to translate: a plain text, a test set in SGML or XML, or a `.tsv`.

    `column` is the number of the column of a `.tsv`, counted from 1, or None.
    Raises UserError: the file cannot be read, is empty or is not UTF-8; a line of a `.tsv` has
    another number of columns than its first line; a `.tsv` without a column has tabs.
    """
    if segments := source_segments(path):
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
            SGML or XML with one or more references, or of the `.tsv` that holds the source: all
            its other columns are references.
        source: path of the source, or its name if it is no file, such as "standard input".
        column: as in `source_text`.

    Raises UserError: a file cannot be read or is blank, or has another number of lines or other
    segments than the source.
    """
    all_references = []
    for path in names_of(references):
        if same_file(source, path) and not markup.has_both_sides(path):
            sides_of(source, path)  # Refuses all but a .tsv.
            paths = _columns(path, column or 1)
            del paths[(column or 1) - 1]
            texts = [Lines(path) for path in paths]
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
    with open_source(path) as file:
        count = max(file.readline().count(b"\t") + 1, 2)
    if column > count:
        raise UserError(f"{path}, line 1: has {count} columns; there is no column {column}")
    return [TextFile(path, number, count) for number in range(count)]
