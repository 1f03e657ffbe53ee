"""Every page of docs/tour runs, in a folder without the project; the pages check what they claim."""

import ast
import re

import pytest

from tests.running import ROOT

pytestmark = pytest.mark.slow

PAGES = sorted((ROOT / "docs" / "tour").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.chdir(tmp_path)
    shown, names = [], {}
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
            shown += [
                getattr(value, name)()
                for name in ("_repr_html_", "_repr_png_")
                if hasattr(value, name)
            ]
    assert shown or "print(" in page.read_text(encoding="utf-8")


def test_every_page_is_in_the_index_and_has_exercises():
    index = (ROOT / "docs" / "tour" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\((\d_\w+\.py)\)", index) == [page.name for page in PAGES]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert (
            "# ## Exercises" in text
            and "<details>" in text
            and "getsource" in text
            or page.stem[0] in "39"
        )
