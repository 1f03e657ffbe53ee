"""Trains both directions at once, by the update and by train.py."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.model_directory.directory import ModelDirectory, restore
from nmt_zoo.training.ways.expectation_maximisation.agreement import em_steps, index_directions
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    agree,
    collapsed_step,
    first_collapsed,
)
from nmt_zoo.training.ways.expectation_maximisation.em_update import Agreement
from nmt_zoo.training.ways.expectation_maximisation.iteration import POSITIONS, first_estimate
from nmt_zoo.training.ways.expectation_maximisation.reverse_direction import reverse_directory
from nmt_zoo.training.ways.preparation import WordTable
from tests.running import ROOT, run_script
from tests.tiny import corpus_flags, pairs
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.em_update_test import log_likelihood


def new_update(corpus, positions, **options):
    """Returns (`Agreement`, `Directions`)."""
    directions = index_directions(corpus)
    both = (corpus, EncodedCorpus(corpus.target, corpus.source))
    twins = []
    for words, way in zip(directions, both, strict=True):
        count = words.source_words.size
        twins.append(models.create("ibm1", 40, 40, positions=positions, num_word_pairs=count))
        WordTable(way).fill(twins[-1])
    return Agreement(twins[0], directions, twins[1], **options), directions


@pytest.mark.parametrize("positions", POSITIONS)
def test_iterations_are_those_of_the_numeric_core_in_both_directions(positions):
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=3))
    update, directions = new_update(corpus, positions, model1_steps=2)
    estimates, expected, found = [first_estimate(words) for words in directions], [], []
    for step in range(5):
        if step == 2:
            own = POSITIONS[positions].first(**update.model.settings)
            estimates = [estimate._replace(positions=own) for estimate in estimates]
        estimates, log_likelihoods = em_steps(directions, estimates)
        expected.append(log_likelihoods)
        result = update.step(directions)
        found.append([result[f"{way}log_likelihood"][0] for way in ("", "reverse_")])
    np.testing.assert_allclose(found, expected)
    twins = (update, update.reverse)
    for twin, words, estimate in zip(twins, directions, estimates, strict=True):
        np.testing.assert_allclose(twin.translation, estimate.translation, rtol=1e-6)
        packed = estimate.positions.pack(words, update.size)
        np.testing.assert_allclose(twin.packed, packed, rtol=1e-6)


@pytest.mark.parametrize("positions", POSITIONS)
def test_with_a_sparse_prior_iterations_begin_with_what_the_models_have(positions):
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=4, words=8))
    update, directions = new_update(corpus, positions, alpha=0.1)
    update.step(directions)
    for _ in range(3):
        expected = [
            log_likelihood(update.model, corpus),
            log_likelihood(update.reverse.model, EncodedCorpus(corpus.target, corpus.source)),
        ]
        result = update.step(directions)
        found = [result[f"{way}log_likelihood"][0] for way in ("", "reverse_")]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.any(update.model.table.spread > 0.2)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_a_restored_update_goes_on_bit_for_bit_in_both_directions(leave_one_out):
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=5))
    options = {"alpha": 0.1, "model1_steps": 2, "leave_one_out": leave_one_out}
    whole, directions = new_update(corpus, "jumps", **options)
    saved = {}
    for step in range(5):
        saved[step] = {name: np.array(value) for name, value in whole.variables().items()}
        whole.step(directions)
    for stop in (1, 3):
        again, _ = new_update(corpus, "jumps", **options)
        restore(again.variables(), saved[stop], "checkpoint")
        for _ in range(stop, 5):
            again.step(directions)
        for name, value in whole.variables().items():
            np.testing.assert_array_equal(again.variables()[name], value, err_msg=name)


def test_iterations_that_leave_one_out_are_those_of_the_numeric_core():
    """And the models get the translations that the counts of all links give."""
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=3))
    options = {"alpha": 0.1, "model1_steps": 2, "leave_one_out": True}
    update, directions = new_update(corpus, "jumps", **options)
    states, expected, found = [first_collapsed(words) for words in directions], [], []
    for step in range(4):
        if step == 2:
            own = POSITIONS["jumps"].first(**update.model.settings)
            states = [state._replace(positions=own) for state in states]
        states = [
            collapsed_step(words, state, alpha=0.1)
            for words, state in zip(directions, states, strict=True)
        ]
        states = agree(directions, states)
        expected.append([state.log_likelihood for state in states])
        result = update.step(directions)
        found.append([result[f"{way}log_likelihood"][0] for way in ("", "reverse_")])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    twins = (update, update.reverse)
    for twin, words, state in zip(twins, directions, states, strict=True):
        counts = np.full(words.source_words.size, 0.1)
        np.add.at(counts, words.cell_pairs, state.counted)
        wanted = counts / words.spread(words.source_sums(counts))
        np.testing.assert_allclose(twin.translation, wanted, rtol=1e-5)


# train.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("agreement")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder)


def flags(folder, corpus, name, *more):
    names = {"model_dir": name, "reverse_model_dir": f"{name}-reverse", "data_dir": "data"}
    return [*corpus, *(f"--{flag}={folder / path}" for flag, path in names.items()), *more]


HMM = ("--model=hmm_alignment", "--model1_steps=10", "--max_steps=40", "--eval_every_steps=15")


@pytest.fixture(scope="module")
def trained(folder, corpus):
    """The directories of a run that is never interrupted."""
    assert run_script("train", flags(folder, corpus, "run", *HMM)).status == 0
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
    source, target = pairs(1, seed=7)[0]
    sides = (tokenizer.source, source), (tokenizer.target, target)
    ids = [np.array(vocabulary.encode([line]), np.int32) for vocabulary, line in sides]
    there = forward.align(*ids).numpy()[0, :-1, :-1]
    back = reverse.align(*ids[::-1]).numpy()[0, :-1, :-1]
    # In this corpus, sentences are translated word by word, in the same order.
    for weights in (there, back):
        assert np.array_equal(weights.argmax(axis=1), np.arange(weights.shape[0]))
    np.testing.assert_allclose(there, back.T, atol=0.2)


def test_the_reverse_model_translates_and_both_align(trained, folder, tmp_path, capsys):
    source, target = (folder / f"valid.{side}" for side in ("source", "target"))
    out = tmp_path / "out"
    arguments = [f"--model_dir={trained[1]}", f"--input={target}", f"--output={out}"]
    assert run_script("translate", arguments, capsys).status == 0
    lines = out.read_text().splitlines(), source.read_text().splitlines()
    assert sum(a == b for a, b in zip(*lines, strict=True)) >= len(lines[0]) / 2
    arguments = [f"--model_dir={trained[0]}", f"--reverse_model_dir={trained[1]}"]
    arguments += [f"--source={source}", f"--target={target}", f"--alignments={out}"]
    done = run_script("align", [*arguments, "--symmetrise=agree"], capsys)
    assert done.status == 0, done.err
    for line, links in zip(lines[1], out.read_text().splitlines(), strict=True):
        assert links == " ".join(f"{i}-{i}" for i in range(len(line.split())))


def test_killed_and_resumed_equals_never_killed_bit_for_bit(trained, folder, corpus, capsys):
    arguments = flags(folder, corpus, "killed", *HMM)
    process = subprocess.Popen(
        [sys.executable, "train.py", *arguments],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    checkpoints, deadline = folder / "killed/checkpoints", time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        if any(int(path.stem) >= 17 for path in checkpoints.glob("[0-9]*.npz")):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    assert process.wait() == -signal.SIGKILL
    done = run_script("train", arguments, capsys)
    assert done.status == 0 and "resumed at step" in done.out
    for name in ("/best.npz", "-reverse/best.npz", "/checkpoints/00000040.npz"):
        with np.load(f"{folder}/run{name}") as one, np.load(f"{folder}/killed{name}") as other:
            assert set(one.files) == set(other.files)
            for key in set(one.files) - {"state"}:
                assert np.array_equal(one[key], other[key]), key


def test_a_reverse_model_that_was_damaged_is_written_again(trained, folder, corpus, capsys):
    with np.load(trained[1] / "best.npz") as archive:
        before = {name: archive[name] for name in archive.files if name != "state"}
    (trained[1] / "best.npz").write_bytes(b"PK")
    unfinished = trained[1] / ".unfinished-x.npz"  # Of a write that was killed.
    unfinished.write_bytes(b"PK")
    assert run_script("train", flags(folder, corpus, "run", *HMM), capsys).status == 0
    assert not unfinished.exists()
    assert ModelDirectory(trained[1]).summary()["best"]["step"] == 40
    if ModelDirectory(trained[0]).summary()["best"]["step"] == 40:
        with np.load(trained[1] / "best.npz") as archive:
            assert all(np.array_equal(archive[name], before[name]) for name in before)


def test_a_run_is_resumed_whatever_the_spelling_of_its_directories(trained, folder, corpus, capsys):
    here = f"{folder}/../{folder.name}"
    more = f"--model_dir={here}/run/", f"--reverse_model_dir={here}//run-reverse/"
    given = [flag for flag in flags(folder, corpus, "run", *HMM) if "model_dir" not in flag]
    done = run_script("train", [*given, *more], capsys)
    assert done.status == 0, done.err


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
    assert reverse_directory(ModelDirectory(forward), config).path == reverse
    other = shutil.copytree(reverse, tmp_path / "other")
    content = json.loads((other / "config.json").read_text())
    content |= {name: OTHERS[name]}
    (other / "config.json").write_text(json.dumps(content))
    config["options"]["reverse_model_dir"] = str(other)
    with pytest.raises(UserError, match="on its text and with its settings"):
        reverse_directory(ModelDirectory(forward), config)


def test_a_reverse_model_whose_run_is_gone_is_refused(trained, folder, corpus, capsys):
    left = shutil.copytree(trained[1], folder / "gone-reverse")
    config = json.loads((left / "config.json").read_text())
    config["reverse_of"] = str(folder / "gone")
    (left / "config.json").write_text(json.dumps(config))
    done = run_script("train", flags(folder, corpus, "gone", *HMM), capsys)
    assert done.status == 1 and not (folder / "gone").exists()
    assert f"the reverse model of an earlier run in {folder}/gone, which is gone" in done.err


BAD_FLAGS = {
    "gradient": (["--update=gradient"], "not with --model=hmm_alignment --update=gradient"),
    "a network": (["--model=transformer_tiny"], "not with --model=transformer_tiny"),
    "averages": (["--average_checkpoints=3"], "leave out --average_checkpoints=3"),
    "one directory": (
        ["--reverse_model_dir={folder}/never/../never"],
        "is the same as --model_dir; give",
    ),
    "a run's own": (["--reverse_model_dir={folder}/run"], "run: holds a model that is not the"),
    "another run's": (
        ["--reverse_model_dir={folder}/run-reverse"],
        "holds a model that is not the",
    ),
    "a file": (["--reverse_model_dir={folder}/train.source"], "is not a folder"),
    "the reverse as a run": (
        ["--model_dir={folder}/run-reverse", "--reverse_model_dir="],
        "reverse_of was '{folder}/run', is None",
    ),
    "one direction of two": (
        ["--model_dir={folder}/run", "--reverse_model_dir="],
        "reverse_model_dir was '{folder}/run-reverse', is ''",
    ),
}


def test_metrics_have_the_likelihood_of_both_directions(trained):
    lines = (trained[0] / "metrics.jsonl").read_text().splitlines()
    kept = [record for record in map(json.loads, lines) if record["kind"] == "train"]
    assert [record["step"] for record in kept] == list(range(1, 41))
    for name in ("log_likelihood", "reverse_log_likelihood"):
        assert kept[0][name] < kept[-1][name] < 0
