"""Students: training from the predictions, or the translations, of other models."""

import json
import shutil

import numpy as np
import pytest

from tests.scripts.running import run_script
from tests.tiny import corpus_flags, small_flags

QUICK = [*small_flags("transformer_tiny"), "--max_tokens_per_batch=128", "--bleu_lines=0"]
QUICK += ["--warmup_steps=2", "--eval_every_steps=5", "--save_every_steps=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("distillation")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder, train=60, valid=6)


def train(folder, corpus, name, *flags, capsys=None):
    places = [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    return run_script("train", [*corpus, *QUICK, *places, *flags], capsys)


@pytest.fixture(scope="module")
def teacher(folder, corpus):
    """Two models with the same vocabulary, separated by a comma."""
    vocabulary = f"--vocab_file={folder / 'first/tokenizer/shared.model'}"
    for name, flags in (("first", ["--num_pieces=300"]), ("second", ["--seed=2", vocabulary])):
        assert train(folder, corpus, name, "--max_steps=5", *flags).status == 0
    return f"{folder / 'first'},{folder / 'second'}"


def arrays(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files if name != "state"}


def assert_equal(folder, *names):
    one, other = (arrays(folder / name / "checkpoints/00000010.npz") for name in names)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_student_that_is_stopped_and_resumed_equals_one_that_never_stopped(
    folder, corpus, teacher
):
    flags = f"--teacher={teacher}", "--r_drop=1"
    assert train(folder, corpus, "whole", *flags, "--max_steps=10").status == 0
    for steps in (7, 10):
        assert train(folder, corpus, "parts", *flags, f"--max_steps={steps}").status == 0
    assert_equal(folder, "whole", "parts")
    vocabularies = [folder / name / "tokenizer/shared.model" for name in ("whole", "first")]
    assert vocabularies[0].read_bytes() == vocabularies[1].read_bytes()
    options = json.loads((folder / "whole/config.json").read_text())["options"]
    assert (options["num_pieces"], options["teacher_weight"]) == (300, 0.5)


def test_a_teacher_of_weight_0_changes_no_bit(folder, corpus, teacher):
    weightless = f"--teacher={folder / 'first'}", "--teacher_weight=0"
    assert train(folder, corpus, "weightless", *weightless, "--max_steps=10").status == 0
    vocabulary = f"--vocab_file={folder / 'first/tokenizer/shared.model'}"
    assert train(folder, corpus, "alone", vocabulary, "--max_steps=10").status == 0
    assert_equal(folder, "weightless", "alone")


def test_a_run_refuses_a_teacher_that_was_retrained(folder, corpus, teacher, capsys):
    shutil.copytree(folder / "first", folder / "changing")
    flags = f"--teacher={folder / 'changing'}", "--teacher_weight=0.1"
    assert train(folder, corpus, "student", *flags, "--max_steps=2").status == 0
    shutil.copy(folder / "second/best.npz", folder / "changing/best.npz")
    done = train(folder, corpus, "student", *flags, "--max_steps=4", capsys=capsys)
    assert done.status == 1 and done.err.count("\n") == 1
    assert "holds a run with other settings: teacher_weights was" in done.err


BAD = {
    "no teacher": (["--teacher_weight=0.2"], "--teacher_weight needs --teacher"),
    "no directory": (["--teacher={folder}/x"], "no such model directory"),
    "no weights": (["--teacher={folder}/empty"], "no best.npz yet"),
    "another vocabulary": (["--teacher={first}", "--num_pieces=400"], "num_pieces was 300, is 400"),
    "another tokenizer": (["--teacher={first}", "--tokenizer=word"], "tokenizer was 'bpe', is 'wo"),
    "other vocabularies": (["--teacher={first},{other}"], "its vocabulary (310 entries) differs"),
    "another start": (["--teacher={first}", "--init_from={other}"], "its vocabulary (310 entries)"),
    "a new vocabulary": (
        ["--teacher={first}", "--init_from={first}", "--new_vocabulary"],
        "another vocabulary than that of --teacher",
    ),
    "a model of counts": (["--teacher={first}", "--model=ibm1"], "not with --model=ibm1"),
}


@pytest.fixture(scope="module")
def places(folder, corpus, teacher):
    assert train(folder, corpus, "other", "--max_steps=1", "--num_pieces=310").status == 0
    shutil.copytree(folder / "first", folder / "empty")
    (folder / "empty/best.npz").unlink()
    return {"folder": folder, "first": folder / "first", "other": folder / "other"}


@pytest.mark.parametrize("name", BAD)
def test_a_teacher_that_does_not_fit_is_one_line(name, places, folder, corpus, capsys):
    flags, expected = BAD[name]
    flags = [flag.format(**places) for flag in flags]
    rest = [flag for flag in QUICK if "--model=" not in flag and "--set" not in flag]
    rest += [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    small = [] if "--model=ibm1" in flags else small_flags("transformer_tiny")
    done = run_script("train", [*corpus, *rest, *small, *flags], capsys)
    assert done.status == 1 and done.err.count("\n") == 1
    assert expected in done.err
    assert not (folder / name).exists()
