"""Tests of one model of several target languages, by train.py --target_languages."""

import json
import shutil
from pathlib import Path

import pytest

from nmt_zoo.data_pipeline.lines import Lines, tagged
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from tests.running import assert_same_arrays, run_script, train
from tests.tiny import SMALL_FLAGS, corpus_flags

FLAGS = [*SMALL_FLAGS, "--num_pieces=330", "--max_tokens_per_batch=256", "--bleu_lines=4"]
FLAGS += ["--learning_rate=0.02", "--warmup_steps=5", "--eval_every_steps=20"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Flags of a corpus in two languages: German, and its words backwards."""
    folder = tmp_path_factory.mktemp("languages")
    flags = dict(flag.split("=", 1) for flag in corpus_flags(folder, train=150, valid=10))
    for name in ("--train_target", "--valid_target"):
        text = Path(flags[name]).read_text().splitlines()
        other = folder / f"{name.strip('-')}.back"
        other.write_text("".join(f"{' '.join(line.split()[::-1])}\n" for line in text))
        flags[name] += f",{other}"
    for name in ("--train_source", "--valid_source"):
        flags[name] += f",{flags[name]}"
    return folder, [f"{name}={value}" for name, value in flags.items()]


@pytest.fixture(scope="module")
def trained(corpus):
    folder, text = corpus
    train(folder, "run", *text, *FLAGS, "--target_languages=de,back", "--max_steps=20")
    return folder / "run"


def test_a_model_knows_its_languages_and_resumes(corpus, trained):
    folder, text = corpus
    config = json.loads((trained / "config.json").read_text())
    assert config["languages"]["signs"] == {"de": "▁>>de<<", "back": "▁>>back<<"}
    tokenizer = ModelDirectory(trained).tokenizer(("", "back"))
    ids = tokenizer.source.encode(["one dog", "", ">>de<< one dog"])
    assert tokenizer.source.pieces([ids[0][0], ids[2][0]]) == ["▁>>back<<", "▁>>de<<"]
    assert ids[0][1:] == ids[2][1:] and len(ids[1]) == 1
    (shutil.copytree(trained, folder / "parts") / "checkpoints/00000020.npz").unlink()
    again = [*text, *FLAGS, "--target_languages=de,back", "--max_steps=20"]
    train(folder, "parts", *again)
    assert_same_arrays(trained / "best.npz", folder / "parts/best.npz")


def test_each_validation_text_has_its_scores(trained):
    (valid, *_) = (r for r in read_records(trained / "metrics.jsonl") if r["kind"] == "valid")
    names = [f"valid.source to {name}" for name in ("valid.target", "valid_target.back")]
    for name in names:
        assert valid[f"{name}: perplexity"] > 1 and valid[f"{name}: bleu"] >= 0
    lower, upper = sorted(valid[f"{name}: perplexity"] for name in names)
    assert lower <= valid["perplexity"] <= upper


def test_translations_are_asked_for_by_language(corpus, trained):
    folder, _ = corpus
    text = folder / "text"
    text.write_text("one dog\n")
    flags = [f"--model_dir={trained}", f"--input={text}", "--engine=tensorflow"]
    done = run_script("translate", flags, refusal="--target_language: none is given")
    assert "back, de" in done.err
    for language in ("de", "back"):
        done = run_script("translate", [*flags, f"--target_language={language}"])
        assert done.out.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--target_languages=de"], "1 languages for 2 corpora"),
        (["--target_languages=de,f r"], "'f r' is no name of a language"),
        (["--target_languages=de,", "--tokenizer=bpe"], "'' is no name of a language"),
        (["--target_languages=de,fr", "--vocab_file=x.model"], "no pieces for their tags"),
        (["--target_languages=de,fr", "--tokenizer=word"], "--tokenizer=bpe"),
    ],
)
def test_languages_that_do_not_fit_are_refused(corpus, flags, reason):
    folder, text = corpus
    run_script("train", [f"--model_dir={folder / 'bad'}", *text, *flags], refusal=reason)
    assert not (folder / "bad" / "config.json").exists()


def test_each_line_has_the_tag_of_its_file_and_blank_lines_have_none(tmp_path):
    (tmp_path / "a").write_text("x\n\ny\n")
    (tmp_path / "b").write_text("z\n")
    plain = Lines(tmp_path / "a", tmp_path / "b")
    with_tags = tagged(plain, [">>de<<", ">>fr<<"])
    assert list(with_tags) == [">>de<< x", "", ">>de<< y", ">>fr<< z"] and len(with_tags) == 4
    assert with_tags.digest != plain.digest != tagged(plain, [">>a<<", ">>b<<"]).digest


def test_tags_leave_all_other_pieces_as_they_are():
    lines = ["the small dog runs", "der kleine Hund läuft"] * 3
    plain = train_tokenizer("bpe", lines, lines, vocab_size=320).source
    tagged = plain.with_tags([">>de<<"])
    assert len(tagged) == len(plain) + 1
    assert tagged.encode(lines) == plain.encode(lines)
    (ids,) = tagged.encode([">>de<< the small dog"])
    assert ids[0] == len(plain) and ids[1:] == plain.encode(["the small dog"])[0]
    assert tagged.decode(ids[1:]) == "the small dog"
