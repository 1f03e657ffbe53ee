"""Every page of docs/tour runs in a folder without the project, and checks what it claims."""

import ast
import json
import re

import numpy as np
import pytest

from tests.running import ROOT

PAGES = sorted((ROOT / "docs" / "tour").glob("*.py"))
KINDS = ("_repr_html_", "_repr_png_")


def cells_of(page):
    """Returns (kind, text) of each cell of a page, as a notebook has them."""
    cells = []
    for cell in page.read_text(encoding="utf-8").split("\n# %%")[1:]:
        head, _, text = cell.partition("\n")
        if "[markdown]" in head:
            text = re.sub("^# ?", "", text.strip("\n"), flags=re.MULTILINE)
            cells.append(("markdown", re.sub(r"\((\d_\w+)\.py\)", r"(\1.ipynb)", text)))
        else:
            cells.append(("code", text.strip("\n")))
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in (code for kind, code in cells_of(page) if kind == "code"):
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, page.name, "exec"), names)
        if last is not None:  # As a notebook, which shows the value of a cell's last line.
            value = eval(compile(ast.Expression(last.value), page.name, "eval"), names)
            assert repr(value)
            shown = [getattr(value, name)() for name in KINDS if hasattr(value, name)]
            assert not shown or any(shown)  # Pictures of IPython have several ways, and use one.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_imports_and_shows_the_code_of_exists(page):
    names = {}
    for node in ast.walk(ast.parse(page.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            exec(ast.unparse(node), names)
        elif isinstance(node, ast.Attribute):
            value = names.get(getattr(node.value, "id", ""))
            assert not isinstance(value, type) or hasattr(value, node.attr)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_the_cells_of_its_page_and_no_output_that_varies(page):
    text = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    cells = json.loads(text)["cells"]
    made = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    assert made == cells_of(page), "run `make notebooks`"
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    for output in outputs:
        assert output["output_type"] != "error" and output.get("name") != "stderr"
        shown = "".join(output.get("text", [])) + str(output.get("data", {}).get("text/plain"))
        assert not re.search(r"(?m)%\||\x1b|\w/s\b|\bat 0x|^minutes|/tmp/|/home/|/root/", shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_check_of_an_exercise_tells_a_blank_and_a_wrong_answer_from_the_solution(page, capsys):
    text = page.read_text(encoding="utf-8")
    blank, check = (
        "".join(re.findall(rf'# %% tags=\["{tag}"\]\n(.*?)(?=\n# %%)', text, re.DOTALL))
        for tag in ("exercise", "check")
    )
    solution = re.search(r"<summary>Solution.*?```python\n(.*?)# ```", text, re.DOTALL)[1]
    solved = blank + re.sub("^# ?", "", solution, flags=re.MULTILINE)
    answers = {"not yet: the ...": blank, "not yet: expected": blank.replace("...", "0")}
    for said, answer in {**answers, "right": solved}.items():
        exec(answer + check, {"np": np})
        assert capsys.readouterr().out.startswith(said)


def test_every_page_is_in_the_index_and_in_the_site_and_has_exercises_with_answers():
    index, site = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("docs/tour/index.md", "mkdocs.yml")
    )
    names = [page.name for page in PAGES]
    assert re.findall(r"\((\d_\w+)\.ipynb\)", index) == [page.stem for page in PAGES]
    assert re.findall(r"- tour/(\d_\w+\.py)", site) == names
    for page in PAGES:
        assert "# ## Exercises" in (text := page.read_text(encoding="utf-8"))
        assert "# <details>" in text and "# </details>" in text
