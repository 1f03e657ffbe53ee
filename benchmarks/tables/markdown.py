"""Result files, and tables of Markdown."""

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def read(name):
    """Returns the record of docs/results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def read_all(pattern):
    """Returns the records of the files in docs/results/ that match a pattern, by path."""
    return {path: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob(pattern))}


def markdown(rows):
    """Formats rows of cells as a Markdown table; the first row is the head."""
    head, *body = rows
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *body)]
