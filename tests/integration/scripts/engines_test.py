"""Which engine translate.py chooses; it starts without TensorFlow, and the text is the same."""

import json
import os
import shutil

import pytest

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive, write_archive
from tests.running import run_elsewhere, run_script
from tests.tiny import SMALL_FLAGS, corpus_flags, small_flags

pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


def train(folder, name, *flags):
    corpus = corpus_flags(folder)
    places = [f"--model_dir={folder / name}", f"--data_dir={folder / 'data'}"]
    run_script("train", [*corpus, *flags, *places, "--max_tokens_per_batch=256"])
    return folder / name


@pytest.fixture(scope="module")
def trained(folder):
    return train(folder, "run", *SMALL_FLAGS, "--num_pieces=300", "--max_steps=60")


def observe(model_dir, *flags, text="a b\n"):
    """Translates in a process of its own: (translations, engine with the reason, packages)."""
    flags = [f"--model_dir={model_dir}", "--verbose", *flags]
    done, packages = run_elsewhere("translate", *flags, text=text)
    engine = done.err.splitlines()[0].removeprefix("engine: ")
    return done.out.splitlines(), engine, packages


def chosen(model_dir, folder, *flags):
    """Translates three lines in this process; returns the engine with the reason."""
    write_lines(folder / "three", read_lines(folder / "valid.source")[:3])
    source = [] if any("--input" in flag for flag in flags) else [f"--input={folder / 'three'}"]
    done = run_script("translate", [f"--model_dir={model_dir}", "--verbose", *source, *flags])
    return next(line for line in done.err.splitlines() if line.startswith("engine: "))[8:]


@pytest.mark.parametrize(
    "flags",
    [["--engine=auto"], ["--engine=ctranslate2", "--split_sentences=always", "--long_lines=split"]],
)
def test_a_sentence_is_translated_without_tensorflow(trained, flags):
    _, found, packages = observe(trained, *flags, text="the dog runs . the dog runs .\n")
    assert found.startswith("ctranslate2 (")
    # A translation that was cut is searched again.
    assert not packages or flags == ["--engine=auto"]


def test_the_text_of_both_engines_is_equal(trained, folder, tmp_path):
    outputs = []
    for engine in ("auto", "tensorflow"):
        outputs.append(tmp_path / engine)
        arguments = [f"--model_dir={trained}", f"--input={folder / 'valid.source'}"]
        arguments += [f"--output={outputs[-1]}", f"--engine={engine}"]
        run_script("translate", arguments)
    ours, theirs = map(read_lines, outputs)
    assert ours == theirs and len(ours) == 20


def test_what_ctranslate2_would_do_otherwise_is_left_to_tensorflow(trained, folder):
    assert chosen(trained, folder).startswith("ctranslate2 (")
    assert chosen(trained, folder, "--length_penalty=1").startswith("ctranslate2 (")
    for flags, reason in (
        (["--engine=tensorflow"], "asked for"),
        (["--sample"], "--sample"),
        (["--n_best=2"], "--n_best"),
        (["--format=jsonl"], "--format"),
        (["--precision=bfloat16"], "--precision"),
        (["--length_penalty=1.5"], "--length_penalty=1.5"),
    ):
        assert chosen(trained, folder, *flags) == f"tensorflow ({reason})"


def test_a_long_file_or_a_missing_package_is_left_to_tensorflow(trained, folder, monkeypatch):
    monkeypatch.setattr("nmt_zoo.command_line.engines._SHORT", 10)
    assert chosen(trained, folder) == "tensorflow (more than 10 bytes of text)"
    monkeypatch.undo()
    find = "nmt_zoo.command_line.engines.importlib.util.find_spec"
    monkeypatch.setattr(find, lambda name: None)
    expected = "tensorflow (the package ctranslate2 is not installed)"
    assert chosen(trained, folder) == expected


def test_the_scores_of_a_reference_are_those_of_tensorflow_unless_asked_otherwise(
    trained, folder, tmp_path
):
    reference = [f"--input={folder / 'valid.source'}", f"--reference={folder / 'valid.target'}"]
    reference += [f"--save_scores={tmp_path / 'scores.json'}", f"--output={tmp_path / 'out'}"]
    assert chosen(trained, folder, *reference) == "tensorflow (--reference)"
    for engine in ("tensorflow", "ctranslate2"):
        assert chosen(trained, folder, *reference, f"--engine={engine}")
        assert json.loads((tmp_path / "scores.json").read_text())["engine"] == engine


def test_other_models_are_left_to_tensorflow_and_refused_if_asked_for(folder):
    other = train(folder, "other", *small_flags("attention_ibm2"), "--max_steps=2")
    found = chosen(other, folder)
    assert found.startswith(f"tensorflow ({other} holds attention_ibm2, which CTranslate2")
    arguments = [f"--model_dir={other}", f"--input={folder / 'three'}", "--engine=ctranslate2"]
    run_script("translate", arguments, refusal="transformer_tiny")
    words = train(
        folder, "words", *small_flags("transformer_tiny"), "--tokenizer=word", "--max_steps=2"
    )
    assert chosen(words, folder) == "tensorflow (--tokenizer=word)"


def test_new_weights_and_a_new_length_penalty_count_at_once_in_a_folder_that_is_read_only(
    trained, folder, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    before, *_ = observe(copy, "--engine=ctranslate2")
    directory = ModelDirectory(copy)
    arrays, state = read_archive(directory.best_path)
    embeddings = arrays["model/target_embedding/embeddings"]
    arrays["model/target_embedding/embeddings"] = embeddings[::-1].copy()
    write_archive(directory.best_path, arrays, state)
    files = sorted(os.listdir(copy))
    copy.chmod(0o500)
    after, *_ = observe(copy, "--engine=ctranslate2")
    assert after != before and sorted(os.listdir(copy)) == files
    copy.chmod(0o700)
    directory.write_search({"length_penalty": 1.5})
    assert observe(copy)[1] == "tensorflow (--length_penalty=1.5)"
