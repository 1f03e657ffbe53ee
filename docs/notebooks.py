"""Runs pages of the tour and stores them as notebooks with their outputs, beside the pages.

A hosting page renders these notebooks, so that the tour can be read without building the site.
`make notebooks` runs the pages whose code differs from their notebooks';
`.venv/bin/python docs/notebooks.py 1_counting 4_averages` runs the pages that are named.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common.files import write_text  # noqa: E402

TOUR = ROOT / "docs" / "tour"
# Run before the first cell. A hosting page shows no page within a page, so attention is a picture.
SETUP = """
def _picture(attention):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        attention.save(path := Path(folder) / "attention.png", dpi=100)
        return path.read_bytes()

_formatters = get_ipython().display_formatter.formatters
_name = "nmt_zoo.trained_model", "Attention"
_formatters["image/png"].for_type_by_name(*_name, _picture)
_formatters["text/html"].for_type_by_name(*_name, lambda attention: None)
"""
# What differs from run to run, or is of libraries: progress bars, rates, durations, their warnings.
VARYING = re.compile(
    r"[^\n:]+: +\d+(?:%\|| \w)[^\[\n]*\[[\d:]+[<,][^\]\n]*\]\n?| *\([\d,.]+ [\w ]+/s\)"
    r"|^minutes +[\d.]+\n| at [\d.]+ s an update|^precision: .* s per update.*\n"
    r"|^(?:INFO|WARNING):tensorflow:.*\n|(?:\x1b\[A)+\n?",
    re.MULTILINE,
)
# What a run prints between its limits and its summary: only its start and end are shown.
RUN = re.compile(r"(?<=^until )(.*?)(?=^ {9,}runs/)", re.MULTILINE | re.DOTALL)
FIRST, LAST = 12, 5  # Lines.
KINDS = "code", "markdown"
ELSEWHERE = "<p><em>An interactive page: run this cell, or <code>make docs</code>.</em></p>"


def notebook_of(page):
    """Returns a page as a notebook without outputs, whose links lead to other notebooks."""
    notebook = jupytext.read(page)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # Otherwise random.
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\((\d_\w+)\.py\)", r"(\1.ipynb)", cell.source)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def stored(page):
    """Returns the notebook of a page, or one without cells if there is none yet."""
    path = page.with_suffix(".ipynb")
    return nbformat.read(path, as_version=4) if path.exists() else nbformat.v4.new_notebook()


def sources(notebook, *kinds):
    """Returns the kind and text of each cell of these kinds."""
    return [(x.cell_type, x.source) for x in notebook.cells if x.cell_type in kinds]


def shortened(run):
    """Returns what a run printed, without its middle."""
    lines = run[0].split("\n")
    if (between := len(lines) - FIRST - LAST) > 1:
        lines[FIRST:-LAST] = [f"[... {between} lines left out ...]"]
    return "\n".join(lines)


def clean(output):
    """Takes from an output what varies or cannot be shown; returns whether anything is left."""
    if output.output_type == "stream":
        text = RUN.sub(shortened, VARYING.sub("", output.text))
        lines = [line.rstrip() for line in text.strip("\n").split("\n")]
        output.text = "\n".join(lines) + "\n"
        return output.name == "stdout" and text.strip()  # Libraries write to stderr.
    if "<iframe" in output.data.get("text/html", ""):
        output.data["text/html"] = ELSEWHERE
    return True


def run(notebook):
    """Runs a notebook in an empty folder; returns how many outputs are left out."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP))
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=None, record_timing=False, coalesce_streams=True, resources=where
        ).execute()
    del notebook.cells[0], notebook.metadata["language_info"]
    left_out = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kept = [output for output in cell.outputs if clean(output)]
            left_out += len(cell.outputs) - len(kept)
            cell.outputs = kept
            for counted in [cell, *(x for x in kept if x.output_type == "execute_result")]:
                counted.execution_count -= 1  # The first one was SETUP.
    return left_out


def main(names):
    """Runs the pages with these names, or else those whose code differs from their notebook's."""
    pages = sorted(TOUR.glob("*.py"))
    if unknown := {*names} - {page.stem for page in pages}:
        known = ", ".join(page.stem for page in pages)
        sys.exit(f"error: no page of the tour: {', '.join(sorted(unknown))}; pages: {known}")
    os.environ["PYTHONPATH"] = str(ROOT)  # The kernels inherit both.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for page in pages:
        notebook, old = notebook_of(page), stored(page)
        if page.stem in names or (not names and sources(notebook, "code") != sources(old, "code")):
            done = f"ran, left out {run(notebook)} outputs of libraries and progress"
        elif not names and sources(notebook, *KINDS) != sources(old, *KINDS):
            with_outputs = iter([cell for cell in old.cells if cell.cell_type == "code"])
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    ran = next(with_outputs)
                    cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
            done = "only its text is new, did not run"
        else:
            continue
        path = page.with_suffix(".ipynb")
        write_text(path, nbformat.writes(notebook) + "\n")
        print(f"{path.relative_to(ROOT)}: {done}; {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
