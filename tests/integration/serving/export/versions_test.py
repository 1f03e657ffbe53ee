"""Numbered versions in one folder are always complete, even if other exports write there."""

import subprocess
import sys

import pytest

from nmt_zoo.serving.export.versions import publish, unfinished_version
from tests.running import ROOT

EXPORT = """
import pathlib, sys
from nmt_zoo.serving.export.versions import publish, unfinished_version
folder = pathlib.Path(sys.argv[1])
with unfinished_version(folder) as unfinished:
    (unfinished / "model").write_text("second")
    publish(unfinished, folder)
"""


def write_version(folder, text):
    with unfinished_version(folder) as unfinished:
        (unfinished / "model").write_text(text)
        return publish(unfinished, folder)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_version_has_the_number_after_the_largest_and_can_be_read_as_its_folder(tmp_path):
    folder = tmp_path / "new" / "x"
    assert write_version(folder, "a") == folder / "1"
    (folder / "9").mkdir()
    (folder / "notes").write_text("")
    # What a killed export left is removed and not published.
    (folder / ".unfinished-1" / "assets").mkdir(parents=True)
    assert write_version(folder, "b") == folder / "10"
    assert (folder / "10" / "model").read_text() == "b"
    assert names(folder) == ["1", "10", "9", "notes"]
    assert (folder / "10").stat().st_mode == folder.stat().st_mode


def test_two_exports_at_once_become_two_versions(tmp_path):
    with unfinished_version(tmp_path) as unfinished:
        (unfinished / "model").write_text("first")
        command = [sys.executable, "-c", EXPORT, str(tmp_path)]
        other = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert other.stderr.readline() == f"waiting for another export into {tmp_path}\n"
        publish(unfinished, tmp_path)
    _, err = other.communicate(timeout=60)
    assert (other.returncode, err) == (0, "")
    assert names(tmp_path) == ["1", "2"]
    assert [(tmp_path / n / "model").read_text() for n in "12"] == ["first", "second"]


def test_an_export_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "old").mkdir()
    for folder in (tmp_path / "old", tmp_path / "new"):
        with pytest.raises(ZeroDivisionError), unfinished_version(folder) as unfinished:
            (unfinished / "model").write_text("half")
            raise ZeroDivisionError
    assert list(tmp_path.rglob("*")) == [tmp_path / "old"]
