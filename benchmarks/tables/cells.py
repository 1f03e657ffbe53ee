"""Result files, and tables of Markdown from specifications of their columns."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
Columns = Mapping[str, str | tuple[str, ...]]


def read(name: str) -> dict[str, Any]:
    """Returns the record of docs/results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def records(pattern: str) -> list[dict[str, Any]]:
    """Returns the records of the files in docs/results/ that match, each with its `name`."""
    paths = sorted(RESULTS.glob(pattern))
    return [{"name": path.stem, **json.loads(path.read_text("utf-8"))} for path in paths]


def fill(cell: str | tuple[str, ...], record: Mapping[str, Any]) -> str:
    """Formats a cell by the record of its row.

    `cell` is a template of `str.format`, whose fields are paths in the record, such as
    `{training[best][bleu]:.2f}`; or several, one after the other. A template is left out where the
    record does not have its fields.
    """
    parts = []
    for template in (cell,) if isinstance(cell, str) else cell:
        try:
            parts.append(template.format_map(record))
        except (KeyError, TypeError):  # The record has no such field, or null.
            continue
    return "".join(parts)


def spread(path: str) -> str:
    """Returns the template of a ratio that has a median, and its extremes over the rounds."""
    return f"{{{path}[median]:.2f}} times ({{{path}[least]:.2f}} to {{{path}[largest]:.2f}})"


def table(columns: Columns, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the lines of a table: a heading, and a row for each record.

    `columns` are heading -> cell, as for `fill`.
    """
    return markdown([columns, *([fill(cell, row) for cell in columns.values()] for row in rows)])


def markdown(rows: Iterable[Iterable[str]]) -> list[str]:
    """Returns the lines of a table of texts; the first row is the heading."""
    heading, *body = map(tuple, rows)
    return [f"| {' | '.join(row)} |" for row in (heading, ("---",) * len(heading), *body)]


def with_tables(text: str, tables: dict[str, list[str]]) -> str:
    """Returns a page with the lines of `tables`, by name, between their marks."""
    for name, lines in tables.items():
        start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->\n"
        before, rest = text.split(start)
        text = before + start + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return text
