"""Exports every preset: a session and a program in C translate a text as translate.py does."""

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.files import read_lines
from nmt_zoo.configuration.resolver import options_of
from tests.running import run_script
from tests.tiny import WORDS, corpus_flags, pairs, rate_flags, small_flags

QUICK = ["--max_tokens_per_batch=256", "--max_steps=60", "--bleu_lines=0"]
QUICK += ["--eval_every_steps=60"]
ODD = [
    "漢 zebra",
    "👨‍👩‍👧 🏳️‍🌈",
    "\u00a0one\u3000cat\u2028",
    "e\u0301 ﬁ ½",
    "cat\0cat",
    "</s> <pad> <s>",
]
ODD += ["▁ @@", "x" * 100, " ".join([*WORDS] * 8)]
# A hundred lines. Each has a known word or is empty, because translate.py refuses lines of which no
# word is known.
LINES = [source for source, _ in pairs(88, seed=3)] + ["", " ", "\t"] + [f"dog {x}" for x in ODD]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def corpus(folder):
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return corpus_flags(folder, train=60, valid=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset", [name for name in models.preset_names() if not models.model_class(name).decoder_class]
)
def test_a_hundred_lines_are_translated_alike(preset, folder, corpus, translate_in_c):
    path, text = folder / preset, folder / "lines"
    model = f"--model_dir={path / 'model'}"
    flags = [
        *corpus,
        *small_flags(preset),
        *rate_flags(preset),
        *QUICK,
        *["--num_pieces=300"] * (options_of(preset, "files", {})["tokenizer"] == "bpe"),
        f"--data_dir={folder / 'data'}",
        model,
    ]
    run_script("train", flags)
    arguments = [model, f"--export_dir={path / 'serving'}", f"--check_input={text}"]
    done = run_script("export", arguments)  # Compares all signatures in a session.
    assert "100 lines translated alike" in done.out
    arguments = [
        model,
        f"--input={text}",
        f"--output={path / 'out'}",
        "--format=scores",
        "--keep=none",
    ]
    run_script("translate", arguments)
    expected = [line.split("\t", 1) for line in read_lines(path / "out")]
    found = translate_in_c(path / "serving" / "1", text)
    assert [text for _, text in found] == [text for _, text in expected]
    scores = [float(score) for score, _ in expected]
    np.testing.assert_allclose([score for score, _ in found], scores, atol=2e-4)
