"""Students: training from the predictions of other models, and on their translations."""

import json
import shutil

import pytest

from tests.running import EAGERLY, assert_same_arrays, refusals, train
from tests.tiny import small_flags

pytestmark = EAGERLY
QUICK = [*small_flags("attention_ibm2"), "--max_tokens_per_batch=128", "--bleu_lines=0"]
QUICK += ["--tokenizer=bpe", "--warmup_steps=2", "--eval_every_steps=2", "--save_every_steps=2"]


@pytest.fixture(scope="module")
def teacher(folder, corpus):
    """Two models with the same vocabulary, separated by a comma."""
    vocabulary = f"--vocab_file={folder / 'first/tokenizer/shared.model'}"
    for name, flags in (
        ("first", ["--num_pieces=300", "--bpe_dropout=0"]),
        ("second", ["--seed=2", vocabulary]),
    ):
        train(folder, name, *corpus, *QUICK, "--max_steps=2", *flags)
    return f"{folder / 'first'},{folder / 'second'}"


def assert_equal(folder, *names, step):
    assert_same_arrays(*(folder / name / f"checkpoints/{step:08}.npz" for name in names))


def test_a_student_that_is_killed_and_resumed_equals_one_that_never_was(folder, corpus, teacher):
    flags = f"--teacher={teacher}", "--token_dropout=0.1", "--max_steps=4"
    train(folder, "whole", *corpus, *QUICK, *flags)
    parts = shutil.copytree(folder / "whole", folder / "parts")
    (parts / "checkpoints/00000004.npz").unlink()  # As if killed before it.
    assert "resumed at step 2\n" in train(folder, "parts", *corpus, *QUICK, *flags).out
    assert_equal(folder, "whole", "parts", step=4)
    vocabularies = [folder / name / "tokenizer/shared.model" for name in ("whole", "first")]
    assert vocabularies[0].read_bytes() == vocabularies[1].read_bytes()
    options = json.loads((folder / "whole/config.json").read_text())["options"]
    assert (options["num_pieces"], options["teacher_weight"]) == (300, 0.5)


def test_a_teacher_of_weight_0_changes_no_bit_and_may_not_change(folder, corpus, teacher):
    shutil.copytree(folder / "first", folder / "changing")
    flags = [*corpus, *QUICK, f"--teacher={folder / 'changing'}", "--teacher_weight=0"]
    train(folder, "weightless", *flags, "--max_steps=2")
    assert_equal(folder, "weightless", "first", step=2)
    shutil.copy(folder / "second/best.npz", folder / "changing/best.npz")
    refusal = "holds a run with other settings: another teacher weights"
    train(folder, "weightless", *flags, "--max_steps=3", refusal=refusal)


BAD = """
--teacher_weight=0.2 -> --teacher_weight needs --teacher
--teacher={folder}/x -> no such model directory
--teacher={folder}/empty -> no best.npz yet
--teacher={first} --num_pieces=400 -> num_pieces was 300, is 400
--teacher={first} --tokenizer=word -> tokenizer was 'bpe', is 'wo
--teacher={folder}/damaged -> best.npz: damaged
--teacher={folder}/counted -> ngram_lm, which does not translate
--teacher={first},{other} -> its vocabulary (326 entries) differs
--teacher={first} --init_from={other} -> its vocabulary (326 entries)
--teacher={first} --init_from={first} --new_vocabulary -> cannot be combined with --teacher
--teacher={first} --model=ibm1 -> not with --model=ibm1
"""


@pytest.fixture(scope="module")
def places(folder, corpus, teacher):
    train(folder, "other", *corpus, *QUICK, "--max_steps=1", "--num_pieces=310")
    shutil.copytree(folder / "first", folder / "empty")
    (folder / "empty/best.npz").unlink()
    best = shutil.copytree(folder / "first", folder / "damaged") / "best.npz"
    best.write_bytes(best.read_bytes()[:-9])
    vocabulary = f"--vocab_file={folder / 'first/tokenizer/shared.model'}"
    train(folder, "counted", *corpus, "--model=ngram_lm", vocabulary)
    return {"folder": folder, "first": folder / "first", "other": folder / "other"}


@pytest.mark.parametrize(("flags", "refusal"), refusals(BAD))
def test_a_teacher_that_does_not_fit_is_one_line(flags, refusal, places, folder, corpus):
    flags = [flag.format(**places) for flag in flags]
    quick = [flag for flag in QUICK if "--set" not in flag or "--model=ibm1" not in flags]
    train(folder, "bad", *corpus, *quick, *flags, refusal=refusal)
    assert not (folder / "bad").exists()
