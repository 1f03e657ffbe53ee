"""Trains both directions at once by train.py."""

import json
import shutil

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation
from tests.running import assert_same_arrays, run_script
from tests.tiny import corpus_flags, pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("agreement")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder)


def flags(folder, corpus, name, *more):
    names = {"model_dir": name, "reverse_model_dir": f"{name}-reverse", "data_dir": "data"}
    return [*corpus, *(f"--{flag}={folder / path}" for flag, path in names.items()), *more]


HMM = ["--model=hmm_alignment", "--model1_steps=4", "--max_steps=12", "--eval_every_steps=5"]
HMM.append("--bleu_lines=0")


@pytest.fixture(scope="module")
def trained(folder, corpus):
    """The directories of a run that is never interrupted."""
    run_script("train", flags(folder, corpus, "run", *HMM))
    return folder / "run", folder / "run-reverse"


def test_both_directories_hold_whole_models_of_one_iteration(trained):
    (forward, tokenizer, config), (reverse, swapped, reverse_config) = (
        ModelDirectory(path).load() for path in trained
    )
    assert swapped.source.words == tokenizer.target.words
    assert swapped.target.words == tokenizer.source.words
    assert reverse_config["reverse_of"] == str(trained[0])
    assert reverse_config["vocab_sizes"] == config["vocab_sizes"][::-1]
    states = [ModelDirectory(path).summary()["best"]["step"] for path in trained]
    assert states[0] == states[1]
    lines = (trained[0] / "metrics.jsonl").read_text().splitlines()
    kept = [record for record in map(json.loads, lines) if record["kind"] == "train"]
    assert [record["step"] for record in kept] == list(range(1, 13))
    for name in ("log_likelihood", "reverse_log_likelihood"):
        assert kept[0][name] < kept[-1][name] < 0
    source, target = pairs(1, seed=7)[0]
    sides = (tokenizer.source, source), (tokenizer.target, target)
    ids = [np.array(vocabulary.encode([line]), np.int32) for vocabulary, line in sides]
    there = forward.align(*ids).numpy()[0, :-1, :-1]
    back = reverse.align(*ids[::-1]).numpy()[0, :-1, :-1]
    # In this corpus, sentences are translated word by word, in the same order.
    for weights in (there, back):
        assert np.array_equal(weights.argmax(axis=1), np.arange(weights.shape[0]))
    np.testing.assert_allclose(there, back.T, atol=0.2)


def test_killed_and_resumed_equals_never_killed_bit_for_bit(trained, folder, corpus, tmp_path):
    names = "run/best.npz", "run-reverse/best.npz", "run/checkpoints/00000012.npz"
    before = [shutil.copy(folder / name, tmp_path / f"{n}.npz") for n, name in enumerate(names)]
    (folder / names[-1]).unlink()  # As if killed before it; both models have the last iteration.
    done = run_script("train", flags(folder, corpus, "run", *HMM))
    assert "resumed at step" in done.out
    for name, path in zip(names, before, strict=True):
        assert_same_arrays(folder / name, path)


def test_a_resumed_run_writes_a_damaged_reverse_model_again(trained, folder, corpus):
    with np.load(trained[1] / "best.npz") as archive:
        before = {name: archive[name] for name in archive.files if name != "state"}
    (trained[1] / "best.npz").write_bytes(b"PK")
    unfinished = trained[1] / ".unfinished-x.npz"  # Of a write that was killed.
    unfinished.write_bytes(b"PK")
    # The spelling of the directories does not matter.
    here = f"{folder}/../{folder.name}"
    more = f"--model_dir={here}/run/", f"--reverse_model_dir={here}//run-reverse/"
    given = [flag for flag in flags(folder, corpus, "run", *HMM) if "model_dir" not in flag]
    run_script("train", [*given, *more])
    assert not unfinished.exists()
    assert ModelDirectory(trained[1]).summary()["best"]["step"] == 12
    if ModelDirectory(trained[0]).summary()["best"]["step"] == 12:
        with np.load(trained[1] / "best.npz") as archive:
            assert all(np.array_equal(archive[name], before[name]) for name in before)


OTHERS = {
    "model": "ibm1",
    "settings": {"max_jump": 3},
    "vocab_sizes": [9, 9],
    "training_text": "another",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_reverse_model_of_another_kind_is_refused(name, trained, tmp_path):
    forward, reverse = trained
    config = {"options": {"reverse_model_dir": str(reverse)}}
    assert ExpectationMaximisation.companion(ModelDirectory(forward), config).path == reverse
    other = shutil.copytree(reverse, tmp_path / "other")
    content = json.loads((other / "config.json").read_text())
    content |= {name: OTHERS[name]}
    (other / "config.json").write_text(json.dumps(content))
    config["options"]["reverse_model_dir"] = str(other)
    with pytest.raises(UserError, match="on its text and with its settings"):
        ExpectationMaximisation.companion(ModelDirectory(forward), config)


def test_a_reverse_model_whose_run_is_gone_is_refused(trained, folder, corpus):
    left = shutil.copytree(trained[1], folder / "gone-reverse")
    config = json.loads((left / "config.json").read_text())
    config["reverse_of"] = str(folder / "gone")
    (left / "config.json").write_text(json.dumps(config))
    run_script(
        "train",
        flags(folder, corpus, "gone", *HMM),
        refusal=f"the reverse model of an earlier run in {folder}/gone, which is gone",
    )
    assert not (folder / "gone").exists()
