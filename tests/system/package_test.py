"""The wheel, in an environment without the clone: Python, and the six commands."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.running import ROOT

TINY = ("--max_steps=2", "--tokenizer=word", "--bleu_lines=0", "--average_checkpoints=1")


class Installed:
    """An environment with the wheel alone; other packages are those of this environment.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder):
        source, wheels = folder / "source", folder / "wheels"
        left = shutil.ignore_patterns(".*", "__pycache__", "build", "data", "docs", "runs", "tests")
        # A copy, as a build leaves files beside the sources.
        shutil.copytree(ROOT, source, ignore=left)
        command = [sys.executable, "-m", "pip", "wheel", str(source), "--no-deps", "-q"]
        subprocess.run([*command, "--no-build-isolation", "-w", wheels], check=True)
        venv.create(folder / "venv", with_pip=True)
        self.bin, self.folder = folder / "venv" / "bin", folder / "elsewhere"
        self.folder.mkdir()
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "venv" / "lib" / version / "site-packages"
        self("pip", "install", "-q", "--no-deps", *map(str, wheels.glob("*.whl")))
        # The packages that the wheel asks for, without downloading them again.
        (self.packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    def __call__(self, program, *arguments, text=None):
        """Runs a program of the environment, away from the clone; returns its output."""
        variables = {n: v for n, v in os.environ.items() if not n.startswith("PYTHON")}
        done = subprocess.run(
            [self.bin / program, *arguments],
            **{"cwd": self.folder, "env": variables, "input": text, "text": True},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An `Installed`, in whose folder the command nmt-train has trained runs/x."""
    found = Installed(tmp_path_factory.mktemp("package"))
    (found.folder / "a.en").write_text("a dog runs\na cat eats\n" * 20)
    (found.folder / "a.de").write_text("ein Hund läuft\neine Katze isst\n" * 20)
    texts = "--train_source=a.en", "--train_target=a.de"
    model = "--model=lstm_luong", "--model_dir=runs/x"
    found("nmt-train", *model, *texts, *TINY)
    return found


def test_only_nmt_zoo_lands_in_site_packages(installed):
    assert (installed.packages / "nmt_zoo" / "models").is_dir()
    assert not (installed.packages / "models").exists()
    code = "import nmt_zoo.models; print(nmt_zoo.models.__file__)"
    assert Path(installed("python", "-c", code).strip()).is_relative_to(installed.packages)


def test_the_commands_run(installed):
    lines = installed("nmt-translate", "--model_dir=runs/x", text="a dog runs\n").splitlines()
    assert len(lines) == 1
    installed("nmt-align", "--source=a.en", "--target=a.de", "--alignments=a.align")
    assert len((installed.folder / "a.align").read_text().splitlines()) == 40
    for name in ("attention.png", "attention.html"):
        given = "--source=a dog runs", "--target=ein Hund läuft", f"--output={name}"
        installed("nmt-visualize", "--model_dir=runs/x", *given)
        assert (installed.folder / name).stat().st_size > 1000
    installed("nmt-export", "--model_dir=runs/x", "--export_dir=exports/x")
    assert (installed.folder / "exports" / "x" / "1" / "saved_model.pb").exists()
    assert "--model_dir" in installed("nmt-serve", "--help")
