"""Runs begun by the first version are resumed, and end with the weights that it would have found.

`tests/earlier_runs/before` holds model directories as the first version left them in the middle of
a run. `tests/earlier_runs/after` holds the last checkpoints of the same runs, also made by the
first version, or, for the two models with dropout, by the first version that draws its random
numbers as today. Times, TensorBoard files and older checkpoints are left out.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from nmt_zoo.model_directory.weight_files import ADDED, read_archive
from tests.scripts.running import run_script

HERE = Path(__file__).resolve().parents[1] / "earlier_runs"
TEXTS = [
    f"--{split}_{side}=text/{split}.{side}"
    for split in ("train", "valid")
    for side in ("source", "target")
]
TINY = [f"--set={name}=1" for name in ("num_encoder_layers", "num_decoder_layers")]
GRADIENT = [
    *("--tokenizer=word", "--min_word_count=1", "--max_tokens_per_batch=64", "--bleu_lines=0"),
    *("--save_every_steps=4", "--log_every_steps=1", "--eval_every_steps=4"),
    *("--average_checkpoints=1", "--data_dir=cache"),
]
EM = ["--save_every_steps=1", "--log_every_steps=1", "--eval_every_steps=2", "--data_dir=cache"]

# Name of a run -> (flags that it was begun with, its last step).
RUNS = {
    "transformer_tiny": (
        [
            *("--model=transformer_tiny", *TINY, "--set=width=8", "--set=num_heads=2"),
            *("--set=ffn_width=16", *GRADIENT),
            *("--ema_decay=0.9", "--schedule=plateau", "--accumulate_steps=2"),
        ],
        10,
    ),
    "lstm_luong": (
        [
            *("--model=lstm_luong", *TINY, "--set=embedding_width=4", "--set=encoder_units=4"),
            *("--set=decoder_units=8", *GRADIENT),
        ],
        10,
    ),
    "attention_ibm2": (
        ["--model=attention_ibm2", "--set=width=4", "--set=max_positions=8", *GRADIENT],
        10,
    ),
    "ibm1_by_gradient": (["--model=ibm1", "--update=gradient", *GRADIENT], 10),
    "ibm2": (["--model=ibm2", "--set=max_positions=8", *EM], 5),
    "hmm_alignment": (
        ["--model=hmm_alignment", *EM, "--reverse_model_dir=hmm_alignment_reverse"],
        6,
    ),
}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Makes the working directory a folder with the model directories as they were left."""
    shutil.copytree(HERE / "before", tmp_path, dirs_exist_ok=True)
    shutil.copytree(HERE / "text", tmp_path / "text")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_the_first_version_ends_as_it_would_have(runs, name, capsys):
    flags, last = RUNS[name]
    flags = [*flags, *TEXTS, f"--model_dir={name}", f"--max_steps={last}"]
    done = run_script("train", flags, capsys)
    assert done.status == 0, done.err
    assert "resumed at step" in done.out
    expected, _ = read_archive(HERE / "after" / f"{name}.npz")
    found, state = read_archive(runs / name / "checkpoints" / f"{last:08d}.npz")
    assert state["step"] == last
    assert set(found) - set(ADDED) == set(expected) - set(ADDED)
    of_rounding = without_gradient(expected)
    for array in expected:  # Not exactly equal, because other processors round differently.
        atol = 1e-4 if array in of_rounding else 1e-6
        np.testing.assert_allclose(found[array], expected[array], rtol=1e-4, atol=atol)


def without_gradient(arrays):
    """Returns the names of attention's key biases and of their moving averages.

    Attention does not depend on them, because they add the same to all scores of a query. Their
    gradients are rounding errors, which Adam makes as large as a learning rate.
    """
    weights = [name for name in arrays if name.startswith("model/")]
    places = [i for i, name in enumerate(weights) if name.endswith("/key/bias")]
    return {*(weights[i] for i in places), *(f"average/{i:04}" for i in places)}


def test_the_validation_text_of_an_earlier_run_is_noted_when_it_goes_on(runs, capsys):
    flags, last = RUNS["ibm2"]
    flags = [*flags, *TEXTS, "--model_dir=ibm2", f"--max_steps={last}"]
    done = run_script("train", flags, capsys)
    assert done.status == 0 and done.out.count("did not note its validation text") == 1
    other = [flag.replace("--train", "--valid") for flag in TEXTS[:2]]
    done = run_script("train", [*flags, *other], capsys)
    assert done.status == 1 and "validation_text was" in done.err
    assert "did not note" not in done.out


def test_a_vocabulary_of_another_recipe_stays_when_its_run_is_resumed(runs, capsys):
    path = runs / "ibm2" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["options"]["vocab_size"] = 2000  # An earlier default of --dataset=demo for words.
    path.write_text(json.dumps(config), encoding="utf-8")
    flags, last = RUNS["ibm2"]
    flags = [*flags, *TEXTS, "--model_dir=ibm2", f"--max_steps={last}"]
    done = run_script("train", [*flags, "--vocab_size=1000"], capsys)
    assert done.status == 1 and "max_words was 2000, is 1000" in done.err
    done = run_script("train", [*flags, "--max_words=2000", "--vocab_size=2000"], capsys)
    assert done.status == 1 and "older name of --max_words" in done.err
    done = run_script("train", flags, capsys)
    assert done.status == 0 and "as when the run began: --max_words=2000" in done.out, done.err


def test_the_reverse_model_of_an_earlier_run_is_kept_as_it_would_have_been(runs, capsys):
    flags, last = RUNS["hmm_alignment"]
    run_script(
        "train", [*flags, *TEXTS, "--model_dir=hmm_alignment", f"--max_steps={last}"], capsys
    )
    expected, _ = read_archive(HERE / "after" / "hmm_alignment_reverse.npz")
    found, _ = read_archive(runs / "hmm_alignment_reverse" / "best.npz")
    for array in expected:
        np.testing.assert_allclose(found[array], expected[array], rtol=1e-4, atol=1e-6)


def test_an_earlier_language_model_is_taken_as_it_is(runs, capsys):
    before = (runs / "ngram_lm" / "best.npz").read_bytes()
    done = run_script("train", ["--model=ngram_lm", *TEXTS, "--model_dir=ngram_lm"], capsys)
    assert (done.status, "already" in done.out) == (0, True), done.err
    assert (runs / "ngram_lm" / "best.npz").read_bytes() == before


@pytest.mark.parametrize(
    "name", ["transformer_tiny", "lstm_luong", "attention_ibm2", "ibm2", "hmm_alignment"]
)
def test_an_earlier_model_translates(runs, name, capsys):
    flags = [f"--model_dir={name}", "--input=text/valid.source", "--output=out"]
    done = run_script("translate", flags, capsys)
    assert done.status == 0, done.err
    lacks_length = "attention_ibm2: trained by a version that did not measure how long"
    assert (lacks_length in done.err) == (name == "attention_ibm2")
    assert len((runs / "out").read_text(encoding="utf-8").splitlines()) == 10
