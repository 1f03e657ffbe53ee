"""Tests of train.py with named corpora."""

import re

import pytest

from nmt_zoo.data_pipeline.datasets import DATASETS
from tests.running import run_script
from tests.tiny import pairs, small_flags
from tests.unit.data_pipeline.published import publish
from tests.unit.data_pipeline.web import serving

SMALL = [*small_flags("attention_ibm2"), "--tokenizer=bpe", "--num_pieces=320"]
SMALL += ["--max_steps=2", "--bleu_lines=1"]


def test_every_corpus_is_listed_with_size_licence_and_papers():
    done = run_script("train", ["--list_datasets"])
    for name, dataset in DATASETS.items():
        assert name in done.out
        for text in (dataset.about, dataset.size, dataset.licence, dataset.citation):
            assert text in done.out


def test_offline_says_in_one_line_what_to_put_where(tmp_path):
    folders = [f"--data_dir={tmp_path}", f"--model_dir={tmp_path}/r"]
    done = run_script("train", ["--dataset=wmt14_en_de", "--offline", *folders], "error: --offline")
    for file in DATASETS["wmt14_en_de"].files():
        assert str(tmp_path / "downloads" / file.path) in done.err
        assert file.addresses[0] in done.err


def test_a_setting_that_cannot_be_is_found_before_the_downloads(tmp_path):
    folders = [f"--data_dir={tmp_path}", f"--model_dir={tmp_path}/run"]
    flags = ["--dataset=wmt14_en_de", "--offline", *folders, "--set=num_heads=7"]
    done = run_script("train", flags, refusal="num_heads")
    assert "--offline" not in done.err


@pytest.fixture
def learnable(monkeypatch):
    """Puts Multi30k of short sentences onto a server, and makes it that corpus."""
    english, german = ("".join(f"{s}\n" for s in side) for side in zip(*pairs(200), strict=True))
    corpus = DATASETS["multi30k_en_de"]
    texts = {file.path: german if ".de" in file.path else english for file in corpus.files()}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as server:
        monkeypatch.setitem(DATASETS, "multi30k_en_de", publish(corpus, texts, server))
        yield


@pytest.mark.usefixtures("learnable")
def test_a_corpus_is_downloaded_and_trained_on_with_options_that_its_size_chooses(tmp_path):
    command = ["--dataset=multi30k_en_de", f"--data_dir={tmp_path}", f"--model_dir={tmp_path}/run"]
    done = run_script("train", [*command, "--corpus_weights=1,2"], refusal="expected 1 numbers")
    folder = tmp_path / "multi30k_en_de"
    assert f"{folder}/test.en and {folder}/test.de: 200 of 200 pairs" in done.err
    assert re.search("for 200 pairs, about \\S+ target tokens: --model=lstm_lexical ", done.out)
    assert "training pairs: 200" in run_script("train", [*command, *SMALL]).out
