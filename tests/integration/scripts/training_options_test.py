"""Options of train.py that change the updates: runs resume exactly, and bad options are refused."""

import json
import re
import shutil

import numpy as np
import pytest

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from nmt_zoo.model_directory.weight_files import read_archive
from tests.running import assert_same_arrays, eagerly, refusals, run_script, train
from tests.tiny import SMALL_FLAGS, corpus_flags, small_flags

COMMON = ["--max_tokens_per_batch=128", "--log_every_steps=2", "--bleu_lines=0"]
QUICK = [*SMALL_FLAGS, "--num_pieces=300", *COMMON]
# For options that no model knows of: TensorFlow traces its updates in a fraction of the time.
CHEAP = [*small_flags("attention_ibm2"), *COMMON]
OPTIONS = [
    *("--precision=float16", "--ema_decay=0.9"),
    *("--weight_decay=0.1", "--schedule=cosine", "--decay_steps=40"),
    *("--warmup_steps=2", "--eval_every_steps=5", "--save_every_steps=7"),
    *("--bpe_dropout=0.3", "--token_dropout=0.1", "--noise=copies=0.3,typos=0.2"),
]


@pytest.fixture(scope="module")
def guide(folder, corpus):
    """The flag that names a model which aligns the same pieces."""
    flags = ["--tokenizer=bpe", "--num_pieces=300", "--max_steps=2", "--model1_steps=1"]
    flags += ["--model=hmm_alignment", "--model2_steps=0", "--bleu_lines=0"]
    train(folder, "guide", *corpus, *flags)
    return f"--guide={folder / 'guide'}"


@pytest.fixture(scope="module")
def trained(folder, corpus, guide):
    train(folder, "whole", *corpus, *QUICK, *OPTIONS, guide, "--max_steps=10")
    return folder / "whole"


def config_of(path):
    return json.loads((path / "config.json").read_text())


def test_killed_and_resumed_equals_never_killed(trained, guide, folder, corpus):
    checkpoint = "checkpoints/00000010.npz"
    (shutil.copytree(trained, folder / "parts") / checkpoint).unlink()  # As if killed before it.
    flags = [*corpus, *QUICK, *OPTIONS, guide, "--max_steps=10"]
    done = train(folder, "parts", *flags)
    assert "resumed at step 7\n" in done.out
    assert {name.split("/")[0] for name in read_archive(trained / checkpoint)[0]} == {
        *("model", "seed", "optimizer", "average", "loss_scale", "token_dropout")
    }
    assert_same_arrays(trained / checkpoint, folder / "parts" / checkpoint)


def test_a_run_of_16_bits_records_its_scale(trained):
    records = [r for r in read_records(trained / "metrics.jsonl") if r["kind"] == "train"]
    assert [r["step"] for r in records] == [2, 4, 6, 8, 10]
    assert all(r["loss_scale"] >= 1 and 0 <= r["overflows"] <= 1 for r in records)


def test_a_guide_is_another_head_of_the_same_text_and_stays_the_same(
    trained, guide, folder, corpus
):
    assert config_of(trained)["settings"]["alignment_head"] == "first"
    path = folder / "guide/best.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    flags = [*corpus, *QUICK, *OPTIONS, guide, "--max_steps=10"]
    train(folder, "whole", *flags, refusal="another guide weights")
    path.write_bytes(whole)


BAD_GUIDES = """
--num_pieces=290 -> guide/tokenizer/shared.model
--tokenizer=word -> its text is encoded by --tokenizer=word, and that of
--model=lstm_seq2seq --num_pieces=300 -> has no attention that could
--model=attention_ibm2 -> --guide: not with --model=attention
"""


@pytest.mark.parametrize(("flags", "refusal"), refusals(BAD_GUIDES))
def test_a_guide_that_does_not_fit_is_refused_before_the_text_is_encoded(
    flags, refusal, guide, folder, corpus
):
    done = train(folder, "misfit", *corpus, *flags, guide, refusal=refusal)
    assert "dropped:" not in done.out and not (folder / "misfit").exists()


@eagerly
def test_a_resumed_run_keeps_the_precision_that_it_began_with(folder, corpus):
    flags = [*corpus, *CHEAP]
    train(folder, "half", *flags, "--precision=bfloat16", "--max_steps=1")
    done = train(folder, "half", *flags, "--precision=auto", "--max_steps=2")
    assert re.search("^options as when the run began: .*--precision=bfloat16$", done.out, re.M)
    assert "times as fast" not in done.out
    assert config_of(folder / "half")["options"]["precision"] == "bfloat16"


def test_training_without_gradients_has_an_automatic_precision(folder, corpus):
    flags = [*corpus, "--model=ibm1", "--precision=auto", "--bleu_lines=0"]
    for steps in (1, 2):
        done = train(folder, "counts", *flags, f"--max_steps={steps}")
        reason = "precision: float32, because --update=em trains without gradients\n"
        assert (reason in done.out) == (steps == 1)


@eagerly
def test_a_run_starts_from_whole_weights_and_only_from_those_it_began_with(
    folder, corpus, tmp_path
):
    quick = [*corpus, *CHEAP, "--tokenizer=bpe", "--num_pieces=300"]
    train(folder, "parent", *quick, "--max_steps=1")
    parent, child = folder / "parent", folder / "child"
    flags = [*quick, *corpus_flags(tmp_path, train=80)[:2], f"--init_from={parent}"]
    flags += ["--learning_rate=1e-9", "--average_checkpoints=1", "--warmup_steps=9"]
    best = parent / "best.npz"
    whole = best.read_bytes()
    for content, expected in ((None, "no best.npz yet"), (whole[:-9], "best.npz: damaged")):
        best.write_bytes(content) if content else best.unlink()
        train(folder, "child", *flags, "--max_steps=1", refusal=expected)
        assert not child.exists()
    best.write_bytes(whole)
    done = train(folder, "child", *flags, "--max_steps=1")
    assert f"starting from the best weights of {parent}" in done.out
    assert "ended within its warm-up, at step 1 of --warmup_steps=9" in done.out
    begun, first = (read_archive(path / "best.npz")[0] for path in (child, parent))
    assert first.keys() == begun.keys()
    for name in first:
        if "length" not in name:  # Lengths of translations are measured in the new text.
            np.testing.assert_allclose(begun[name], first[name], atol=1e-6, err_msg=name)
    vocabulary = [path / "tokenizer/shared.model" for path in (child, parent)]
    assert vocabulary[0].read_bytes() == vocabulary[1].read_bytes()
    # Another run may have a vocabulary of its own.
    own = [flag for flag in flags if "num_pieces" not in flag]
    done = train(folder, "own", *own, "--new_vocabulary", "--num_pieces=310", "--max_steps=1")
    assert re.search(r"^vocabulary of both sides: \d+ of 316 entries kept, \d+ new", done.out, re.M)
    checkpoints = (child / "checkpoints").rename(folder / "set aside")  # As if killed before them.
    directory = ModelDirectory(parent)
    weights, state = directory.read_best()
    directory.write_best({name: weight + 1 for name, weight in weights.items()}, state)
    train(folder, "child", *flags, "--max_steps=1", refusal="another init weights")
    shutil.rmtree(child / "checkpoints", ignore_errors=True)
    checkpoints.rename(child / "checkpoints")
    shutil.rmtree(parent)  # A run that has begun goes on without its parent.
    done = train(folder, "child", *flags, "--max_steps=2")
    assert "resumed at step 1" in done.out and "starting from" not in done.out


def test_a_limit_that_leaves_no_time_begins_no_run(folder, corpus):
    refusal = "which left no time for an update; give more"
    train(folder, "late", *corpus, *CHEAP, "--max_minutes=0.0001", refusal=refusal)
    assert not (folder / "late/config.json").exists()


BAD = """
--init_from={} --tokenizer=word -> tokenizer was 'bpe', is 'wo
--init_from={} --set=num_heads=4 -> num_heads was 2, is 4
--init_from={} --model=transformer_small -> holds transformer_tiny
--init_from={} --set=width=32 --new_vocabulary -> width was 16, is 32; leave these flags out
--init_from={}/x -> no such model directory
--init_from={} --set=dropout=2 -> dropout must be in [0, 1), found 2
--new_vocabulary -> --new_vocabulary needs --init_from
--guide={}/x -> no such model directory
"""


@pytest.mark.parametrize(("flags", "refusal"), refusals(BAD))
def test_options_that_do_not_fit_are_one_line(flags, refusal, transformer, folder, corpus):
    flags = [flag.format(transformer) for flag in flags]
    train(folder, "bad", *corpus, *QUICK, *flags, refusal=refusal)
    assert not (folder / "bad").exists()


def test_the_size_of_the_users_text_chooses_what_is_not_given(text, folder, corpus):
    def chosen(*flags):
        flags = [*flags, "--corpus_weights=1,2"]  # Is refused after the choice is printed.
        return train(folder, "chosen", *flags, refusal="expected 1 numbers").out

    flags = r"--num_pieces=\d+ --bpe_dropout=0.1 --schedule=cosine --decay_steps=\d+"
    line = rf"for 200 pairs, about \d+ target tokens: {flags} --set dropout=0.3 --set positions=rot"
    assert re.search(line, chosen(*corpus, "--model=transformer_tiny"))
    # Small texts of many characters get a vocabulary that holds them.
    texts = ["".join(chr(0x4E00 + 25 * i + j) for j in range(25)) for i in range(40)]
    write_lines(folder / "characters", texts)
    write_lines(folder / "english", read_lines(text / "train.source")[:40])
    own = [f"--train_source={folder}/characters", f"--train_target={folder}/english"]
    out = chosen(*own, "--model=ibm1_factored", "--tokenizer=bpe")
    assert "target tokens: --num_pieces=1500 " in out
    without_model = [flag for flag in QUICK if not flag.startswith("--model=")]
    refusal = "lstm_lexical has no such setting"
    train(folder, "chosen", *corpus, *without_model, "--set=nothing=0", refusal=refusal)
    done = run_script("train", ["--list_settings", "--model=transformer_tiny"])
    assert re.search('^norm=pre +"post" as published', done.out, re.M)


@eagerly
def test_a_run_without_limits_ends_where_its_learning_rate_is_0(folder, corpus):
    flags = ["--schedule=linear", "--decay_steps=3", "--warmup_steps=1"]
    done = train(folder, "falling", *corpus, *CHEAP, *flags)
    assert "until --max_steps=3 or" in done.out and "change nothing" not in done.out
    assert (folder / "falling/checkpoints/00000003.npz").exists()
    done = train(folder, "falling", *corpus, *CHEAP, "--max_steps=4")
    assert ", --schedule=linear, --decay_steps=3, " in done.out
    assert "; updates after 3 change nothing: their learning rate is 0\n" in done.out
