"""Writes the tables of README.md, docs/results.md, docs/models.md and docs/options.md.

    python benchmarks/results_table.py

The files directly in docs/results/ are written by `translate.py
--save_scores=docs/results/NAME.json`; "data", "command" and "published" are added to them by hand.
The files in its folders are written by the script named in the docstring of their table's function.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.tables import model_tables, record_tables
from benchmarks.tables.cells import with_tables
from nmt_zoo.command_line import console

DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/studies/*.md")])
TABLES = {**record_tables.TABLES, **model_tables.TABLES}


def outdated():
    """Maps path -> text that it should have, for documents whose tables differ from the files."""
    texts = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        used = {n: table() for n, table in TABLES.items() if f"<!-- {n}: start -->\n" in text}
        new = with_tables(text, used)
        if new != text:
            texts[document] = new
    return texts


def main(argv):
    """Rewrites the documents."""
    del argv
    for document, text in outdated().items():
        document.write_text(text, encoding="utf-8")
        print(f"wrote {document.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    console.run(main)
