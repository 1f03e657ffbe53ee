"""The notebook docs/tour.ipynb runs, in a folder without the project."""

import pytest

from tests.running import ROOT

pytestmark = pytest.mark.slow


def test_every_cell_of_the_tour_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "docs" / "tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [set(o.data) for c in notebook.cells for o in c.get("outputs", []) if "data" in o]
    assert any("text/html" in kinds for kinds in shown)
    assert any("image/png" in kinds for kinds in shown)
    assert (tmp_path / "runs" / "tour" / "export" / "1" / "saved_model.pb").exists()
