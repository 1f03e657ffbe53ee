"""Tests of one model of several target languages, by train.py --target_languages."""

import json
import shutil

import pytest

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from tests.running import assert_same_arrays, refusals, run_script, train
from tests.tiny import small_flags

FLAGS = [*small_flags("attention_ibm2"), "--tokenizer=bpe", "--num_pieces=330", "--bleu_lines=2"]
FLAGS += ["--warmup_steps=2", "--save_every_steps=2", "--max_steps=4"]
FLAGS.append("--target_languages=de,back")


@pytest.fixture(scope="module")
def both(folder, corpus):
    """Flags of a corpus in two languages: German, and its words backwards."""
    flags = []
    for flag in corpus[:4]:
        name, path = flag.strip("-").split("=")
        if name.endswith("target"):
            backwards = [" ".join(line.split()[::-1]) for line in read_lines(path)]
            path = folder / f"{name}.back"
            write_lines(path, backwards)
        flags.append(f"{flag},{path}")
    return flags


@pytest.fixture(scope="module")
def trained(folder, both):
    train(folder, "run", *both, *FLAGS)
    return folder / "run"


def test_a_model_knows_its_languages_and_resumes(folder, both, trained):
    config = json.loads((trained / "config.json").read_text())
    assert config["languages"]["signs"] == {"de": "▁>>de<<", "back": "▁>>back<<"}
    tokenizer = ModelDirectory(trained).tokenizer(("", "back"))
    ids = tokenizer.source.encode(["one dog", "", ">>de<< one dog"])
    assert tokenizer.source.pieces([ids[0][0], ids[2][0]]) == ["▁>>back<<", "▁>>de<<"]
    assert ids[0][1:] == ids[2][1:] and len(ids[1]) == 1
    (shutil.copytree(trained, folder / "parts") / "checkpoints/00000004.npz").unlink()
    train(folder, "parts", *both, *FLAGS)
    assert_same_arrays(trained / "best.npz", folder / "parts/best.npz")


def test_each_validation_text_has_its_scores(trained):
    (valid, *_) = (r for r in read_records(trained / "metrics.jsonl") if r["kind"] == "valid")
    names = [f"valid.source to {name}" for name in ("valid.target", "valid_target.back")]
    for name in names:
        assert valid[f"{name}: perplexity"] > 1 and valid[f"{name}: bleu"] >= 0
    lower, upper = sorted(valid[f"{name}: perplexity"] for name in names)
    assert lower <= valid["perplexity"] <= upper


def test_translations_are_asked_for_by_language(folder, trained):
    (folder / "text").write_text("one dog\n")
    flags = [f"--model_dir={trained}", f"--input={folder / 'text'}", "--engine=tensorflow"]
    done = run_script("translate", flags, refusal="--target_language: none is given")
    assert "back, de" in done.err
    for language in ("de", "back"):
        done = run_script("translate", [*flags, f"--target_language={language}"])
        assert done.out.count("\n") == 1


BAD = """
--target_languages=de -> 1 languages for 2 corpora
'--target_languages=de,f r' -> 'f r' is no name of a language
--target_languages=de, --tokenizer=bpe -> '' is no name of a language
--target_languages=de,fr --vocab_file=x.model -> no pieces for their tags
--target_languages=de,fr --tokenizer=word -> --tokenizer=bpe
"""


@pytest.mark.parametrize(("flags", "refusal"), refusals(BAD))
def test_languages_that_do_not_fit_are_refused(folder, both, flags, refusal):
    train(folder, "bad", *both, *flags, refusal=refusal)
    assert not (folder / "bad" / "config.json").exists()


def test_tags_leave_all_other_pieces_as_they_are():
    lines = ["the small dog runs", "der kleine Hund läuft"] * 3
    plain = train_tokenizer("bpe", lines, lines, vocab_size=320).source
    tagged = plain.with_tags([">>de<<"])
    assert len(tagged) == len(plain) + 1
    assert tagged.encode(lines) == plain.encode(lines)
    (ids,) = tagged.encode([">>de<< the small dog"])
    assert ids[0] == len(plain) and ids[1:] == plain.encode(["the small dog"])[0]
    assert tagged.decode(ids[1:]) == "the small dog"
