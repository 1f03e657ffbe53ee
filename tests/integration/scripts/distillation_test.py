"""Students: training from the predictions, or the translations, of other models."""

import json
import shlex
import shutil

import pytest

from nmt_zoo.data_pipeline.tokenization.vocabularies import BpeVocabulary
from nmt_zoo.model_directory.directory import ModelDirectory
from tests.running import assert_same_arrays, refusals, run_script, train
from tests.tiny import corpus_flags, pairs, small_flags

QUICK = [*small_flags("transformer_tiny"), "--max_tokens_per_batch=128", "--bleu_lines=0"]
QUICK += ["--warmup_steps=2", "--eval_every_steps=5", "--save_every_steps=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("distillation")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder, train=60, valid=6)


@pytest.fixture(scope="module")
def teacher(folder, corpus):
    """Two models with the same vocabulary, separated by a comma."""
    vocabulary = f"--vocab_file={folder / 'first/tokenizer/shared.model'}"
    for name, flags in (
        ("first", ["--num_pieces=300", "--bpe_dropout=0"]),
        ("second", ["--seed=2", vocabulary]),
    ):
        train(folder, name, *corpus, *QUICK, "--max_steps=5", *flags)
    return f"{folder / 'first'},{folder / 'second'}"


def assert_equal(folder, *names, step):
    assert_same_arrays(*(folder / name / f"checkpoints/{step:08}.npz" for name in names))


def test_a_student_that_is_killed_and_resumed_equals_one_that_never_was(folder, corpus, teacher):
    flags = f"--teacher={teacher}", "--r_drop=1", "--max_steps=10"
    train(folder, "whole", *corpus, *QUICK, *flags)
    parts = shutil.copytree(folder / "whole", folder / "parts")
    (parts / "checkpoints/00000010.npz").unlink()  # As if killed before it.
    assert "resumed at step 5\n" in train(folder, "parts", *corpus, *QUICK, *flags).out
    assert_equal(folder, "whole", "parts", step=10)
    vocabularies = [folder / name / "tokenizer/shared.model" for name in ("whole", "first")]
    assert vocabularies[0].read_bytes() == vocabularies[1].read_bytes()
    options = json.loads((folder / "whole/config.json").read_text())["options"]
    assert (options["num_pieces"], options["teacher_weight"]) == (300, 0.5)


@pytest.fixture(scope="module")
def weightless(folder, corpus, teacher):
    """The flags of a run with a copy of the first model as its teacher, of weight 0."""
    shutil.copytree(folder / "first", folder / "changing")
    flags = [*corpus, *QUICK, f"--teacher={folder / 'changing'}", "--teacher_weight=0"]
    train(folder, "weightless", *flags, "--max_steps=5")
    return flags


def test_a_teacher_of_weight_0_changes_no_bit(folder, weightless):
    assert_equal(folder, "weightless", "first", step=5)


def test_a_run_refuses_a_teacher_that_was_retrained(folder, weightless):
    shutil.copy(folder / "second/best.npz", folder / "changing/best.npz")
    train(
        folder,
        "weightless",
        *weightless,
        "--max_steps=6",
        refusal="holds a run with other settings: teacher_weights was",
    )


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
    rest = [flag for flag in QUICK if "--model=" not in flag and "--set" not in flag]
    small = [] if "--model=ibm1" in flags else small_flags("transformer_tiny")
    train(folder, "bad", *corpus, *rest, *small, *flags, refusal=refusal)
    assert not (folder / "bad").exists()


VALID = "--valid_source=valid.en --valid_target=valid.de"
# As BUILD.md and runs/back_translation.sh have them.
COMMANDS = f"""
train --train_source=train.de --train_target=train.en --model_dir=runs/reverse \
    --valid_source=valid.de --valid_target=valid.en
translate --model_dir=runs/reverse --sample --tag=XBT --input=mono.de --output=back.en
train --train_source=train.en,back.en --train_target=train.de,mono.de --corpus_weights=1,1 {VALID} \
    --model_dir=runs/forward
translate --model_dir=runs/teacher --input=train.en --output=taught.de
train --model=transformer_tiny --train_source=train.en --train_target=taught.de {VALID} \
    --model_dir=runs/student
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder in which all commands about text that models wrote were run; their output."""
    folder = tmp_path_factory.mktemp("written")
    text = {"train": pairs(60), "valid": pairs(6, seed=2)}
    for split, found in text.items():
        for side, name in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in found)
            (folder / f"{split}.{name}").write_text(lines, encoding="utf-8")
    mono = [target for _, target in pairs(30, seed=3)]
    mono[4], mono[7] = "", " ".join(["Hund"] * 40)
    (folder / "mono.de").write_text("".join(f"{line}\n" for line in mono), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for script, *arguments in map(shlex.split, COMMANDS.strip().splitlines()):
            if "--model_dir=runs/teacher" in arguments:
                shutil.copytree("runs/forward", "runs/teacher")
            more = ["--max_input_tokens=30"]
            if script == "train":
                more = [*QUICK, "--num_pieces=600", "--max_steps=80", "--learning_rate=0.03"]
                more += ["--data_dir=data", "--set=dropout=0.0", "--copy_share=0"]
            run_script(script, [*arguments, *more])
    return folder


@pytest.mark.slow
def test_the_commands_for_text_that_models_wrote_work(written):
    back = (written / "back.en").read_text().split("\n")[:-1]
    assert len(back) == 30
    empty = [i for i, line in enumerate(back) if not line]
    assert {4, 7} <= {*empty}
    assert all(line.startswith("XBT ") and line[4:].strip() for line in back if line)
    taught = (written / "taught.de").read_text().split("\n")[:-1]
    assert len(taught) == 60
    best = ModelDirectory(written / "runs/student").summary()["best"]
    assert best["perplexity"] < 600  # Of 600 pieces at random.


@pytest.mark.slow
def test_the_tag_is_one_token_and_pairs_without_a_translation_are_left_out(written):
    vocabulary = BpeVocabulary.load(written / "runs/forward/tokenizer/shared.model")
    assert vocabulary.pieces(vocabulary.encode(["XBT dog"])[0])[0] == "▁XBT"
    files = {"train_source": "back.en", "train_target": "mono.de"}
    files |= {"valid_source": "valid.en", "valid_target": "valid.de"}
    flags = [*(f"--{flag}={written / name}" for flag, name in files.items())]
    flags += ["--dry_run", "--num_pieces=600"]
    places = [f"--model_dir={written / 'plan'}", f"--data_dir={written / 'data'}"]
    done = run_script("train", [*flags, *QUICK, *places])
    empty = (written / "back.en").read_text().split("\n")[:-1].count("")
    assert f"dropped: {empty} with an empty side" in done.out
