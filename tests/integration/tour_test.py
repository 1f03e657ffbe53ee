"""Every page of docs/tour runs in a folder without the project, and checks what it claims."""

import ast
import re

import pytest

from tests.running import ROOT

PAGES = sorted((ROOT / "docs" / "tour").glob("*.py"))
KINDS = ("_repr_html_", "_repr_png_")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in page.read_text(encoding="utf-8").split("# %%")[1:]:
        kind, _, code = cell.partition("\n")
        if "[markdown]" in kind:
            continue
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, page.name, "exec"), names)
        if last is not None:  # As a notebook, which shows the value of a cell's last line.
            value = eval(compile(ast.Expression(last.value), page.name, "eval"), names)
            assert repr(value)
            shown = [getattr(value, name)() for name in KINDS if hasattr(value, name)]
            assert not shown or any(shown)  # Pictures of IPython have several ways, and use one.


def test_every_page_is_in_the_index_and_in_the_site_and_has_exercises_with_answers():
    index, site = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("docs/tour/index.md", "mkdocs.yml")
    )
    names = [page.name for page in PAGES]
    assert re.findall(r"\((\d_\w+\.py)\)", index) == names
    assert re.findall(r"- tour/(\d_\w+\.py)", site) == names
    for page in PAGES:
        assert "# ## Exercises" in (text := page.read_text(encoding="utf-8"))
        assert "# <details>" in text and "# </details>" in text
