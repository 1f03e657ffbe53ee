"""What earlier versions wrote is read by this one; tests/museum/README.md says how it was made."""

import shutil
from pathlib import Path

import pytest

import nmt_zoo
from nmt_zoo.common.files import read_lines
from nmt_zoo.serving.export import saved_model_client
from tests.running import run_script

MUSEUM = Path(__file__).resolve().parents[1] / "museum"
RELEASES = sorted(path.name for path in MUSEUM.iterdir() if path.is_dir())
SOURCES = read_lines(MUSEUM / "source.en")
PENALTY = 0.8  # Ranks these translations as did 1 of the first release, which was of another kind.


@pytest.fixture(params=RELEASES)
def release(request, tmp_path):
    """A copy of the files of a release, which reading may not change."""
    return Path(shutil.copytree(MUSEUM / request.param, tmp_path / request.param))


def test_a_model_directory_is_read_and_translates_as_it_did(release):
    model = nmt_zoo.load(release / "model")
    found = model.translate(SOURCES, length_penalty=PENALTY)
    assert found == read_lines(release / "translation.de")


def test_a_saved_model_translates_as_it_did(release):
    shutil.unpack_archive(release / "saved_model.tar.xz", release)
    with saved_model_client.loaded(release / "saved_model/1") as answer:
        found = answer("serving_default", {"text": [line.encode() for line in SOURCES]})
    assert [text.decode() for text in found["translation"]] == read_lines(
        release / "translation.de"
    )


def test_a_folder_of_ctranslate2_translates_as_it_did(release, tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")
    flags = f"--export_dir={release / 'ctranslate2'}", f"--length_penalty={PENALTY}"
    files = f"--input={MUSEUM / 'source.en'}", f"--output={tmp_path / 'found'}"
    run_script("translate", [*flags, *files])
    assert read_lines(tmp_path / "found") == read_lines(release / "translation.de")
