"""Runs every preset, at small sizes, through all four scripts.

A new model class adds to `KINDS` the kinds of attention that can be drawn.
"""

import functools
import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.alignment.links import read_alignments
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models.fertility import FertilityModel
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.rnn import RecurrentTranslationModel
from nmt_zoo.models.transformer import Transformer
from nmt_zoo.models.transformer_simple import SimpleTransformer
from nmt_zoo.models.word_attention import WordAttention
from tests.running import client_in_this_process, run_script
from tests.tiny import corpus_flags, pairs, rate_flags, small_flags

# With a dozen words, steps are so quick that the model can be trained until translations depend on
# their sources; tracing takes most of the time.
QUICK = [
    *("--tokenizer=word", "--max_tokens_per_batch=256", "--max_steps=60", "--bleu_lines=2"),
    "--eval_every_steps=60",
    "--average_checkpoints=1",  # An average could be kept, but its perplexity is not recorded.
]
# Two lines whose translations training shows, an empty line, and a line with unknown words.
SHOWN = [source for source, _ in pairs(2, seed=2)]
LINES = [*SHOWN, "", "cat sees the 漢 zebra"]

KINDS = {
    Transformer: ("cross", "encoder", "decoder"),
    SimpleTransformer: ("cross", "encoder", "decoder"),
    RecurrentTranslationModel: ("cross",),
    WordAttention: ("cross",),
    AlignmentModel: ("cross",),
    FertilityModel: ("cross",),
}
# At these sizes, each of these presets is another preset with fewer or more layers or without a
# table of positions or fertilities, or differs from it only in dropout, in cells or scores, or in
# the place of a normalisation. The laws of all models are tested with these, too; here only
# `make test-slow` runs them.
LIKE_ANOTHER = (
    *("ibm1", "hmm_alignment", "attention_ibm1"),
    *("rnn_attention", "lstm_luong", "lstm_luong_deep", "lstm_conv"),
    *("transformer_coursework", "transformer_small", "transformer_base", "transformer_big"),
    "transformer_deep_shallow",
    "lm_sep",
)
# Presets that are exported here: one that plans lengths, and one with all that an LSTM can have.
# scripts_test.py exports a Transformer; `make test-slow` exports all.
EXPORTED = ("hmm_fertility", "lstm_lexical")


class Trained(NamedTuple):
    """A model directory, the flags of the run that made it, and the output of that run."""

    preset: str
    folder: Path
    flags: list
    said: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("presets")


@pytest.fixture(scope="module")
def corpus(folder):
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return corpus_flags(folder, train=400, valid=6)  # Few epochs, because each takes extra time.


def pytest_generate_tests(metafunc):
    """Runs a test with every preset; marks presets that only `make test-slow` runs."""
    if "trained" not in metafunc.fixturenames:
        return
    quick = {*models.preset_names()} - {*LIKE_ANOTHER}
    if "export" in metafunc.function.__name__:
        quick = EXPORTED
    presets = [
        pytest.param(name, marks=[] if name in quick else pytest.mark.slow)
        for name in models.preset_names()
        if not models.model_class(name).decoder_class  # See phrases_test.py.
    ]
    metafunc.parametrize("trained", presets, indirect=True, scope="module")


@pytest.fixture(scope="module")
def trained(request, folder, corpus):
    preset, path = request.param, folder / request.param
    flags = [
        *corpus,
        *small_flags(preset),
        *rate_flags(preset),
        *QUICK,
        f"--data_dir={folder / 'data'}",
    ]
    flags.append(f"--model_dir={path}")
    return Trained(preset, path, flags, run_script("train", flags).err)


@pytest.fixture(scope="module")
def loaded(trained):
    model, tokenizer, _ = ModelDirectory(trained.folder).load()
    return model, tokenizer


@pytest.fixture(scope="module")
def translated(trained, folder):
    """A function of the beam size: the lines of translate.py for `LINES`, "score<tab>text" each."""

    @functools.cache
    def translate(beam_size):
        path = folder / f"{trained.preset}.{beam_size}"
        arguments = [f"--model_dir={trained.folder}", f"--beam_size={beam_size}", "--format=scores"]
        arguments += [f"--input={folder / 'lines'}", f"--output={path}"]
        run_script("translate", arguments)
        return path.read_bytes().decode()

    return translate


def log_probs(model, source_ids, target_ids):
    """Returns the log-probabilities of whole sentences, `[B]`."""
    scores = model.score(source_ids, target_ids)
    return np.where(target_ids != PAD_ID, scores, 0.0).sum(axis=1)


def test_the_same_command_again_resumes_and_changes_nothing(trained):
    files = [*trained.folder.rglob("*.npz"), trained.folder / "metrics.jsonl"]
    before = [path.read_bytes() for path in files]
    done = run_script("train", trained.flags)
    assert "resumed at step 60" in done.out
    assert {"best.npz", "00000060.npz", "metrics.jsonl"} <= {path.name for path in files}
    assert [path.read_bytes() for path in files] == before


def test_a_loaded_model_has_the_perplexity_that_training_saw(trained, folder, loaded):
    model, tokenizer = loaded
    sources, targets = (
        vocabulary.encode((folder / f"valid.{side}").read_text("utf-8").splitlines())
        for side, vocabulary in (("source", tokenizer.source), ("target", tokenizer.target))
    )
    mean = log_probs(model, padded(sources), padded(targets)).sum() / sum(map(len, targets))
    record = json.loads((trained.folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert record["kind"] == "valid"
    assert math.exp(-mean) == pytest.approx(record["perplexity"], rel=1e-4)


def test_a_model_that_plans_the_length_of_translations_has_measured_it(loaded):
    if not loaded[0].tracks_coverage:
        pytest.skip("its own probabilities end a translation")
    # In this corpus, sentences are as long as their translations.
    np.testing.assert_allclose(loaded[0].length.parameters, [0, 1, 0.01], atol=1e-6)


@pytest.mark.parametrize("beam_size", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_every_line_has_one_translation_and_an_empty_one_an_empty_one(
    trained, translated, beam_size
):
    lines = translated(beam_size).split("\n")
    assert len(lines) == len(LINES) + 1 and lines.pop() == ""
    scores, _ = zip(*(line.split("\t", 1) for line in lines), strict=True)
    assert lines[2] == "0.0000\t"
    assert all(float(score) < 0 for score, line in zip(scores, LINES, strict=True) if line)
    assert len(set(scores)) > 2  # They depend on the source, even where texts are equal.


def test_greedy_translations_are_those_that_training_showed(trained, translated):
    for line, output in zip(SHOWN, translated(1).split("\n"), strict=False):
        assert f"    {line}\n      -> {output.split(chr(9), 1)[1]}\n" in trained.said


def test_the_export_translates_as_the_model(trained, folder):
    path = folder / f"{trained.preset}.serving"
    flags = [f"--model_dir={trained.folder}", f"--export_dir={path}", "--beam_size=3"]
    with client_in_this_process():  # No new process is needed: scripts_test.py starts one.
        done = run_script("export", [*flags, f"--check_input={folder / 'lines'}"])
    assert f"{len(LINES)} lines translated alike" in done.out


def test_aligns_the_words_of_a_text_if_it_can(trained, loaded, folder, tmp_path):
    text = [f"--{side}={folder / f'valid.{side}'}" for side in ("source", "target")]
    sizes = [(len(s.split()), len(t.split())) for s, t in pairs(6, seed=2)]
    out = tmp_path / "links"
    arguments = [f"--model_dir={trained.folder}", *text, f"--alignments={out}"]
    if not loaded[0].has_alignment:
        refusal = f"the {trained.preset} of {trained.folder} cannot align words"
        run_script("align", arguments, refusal)
        assert not out.exists()
        return
    run_script("align", arguments)
    for links, (_, num_targets) in zip(read_alignments(out, pairs=sizes), sizes, strict=True):
        assert len({target for _, target in links}) == len(links) <= num_targets


# scripts_test.py draws all three kinds of a Transformer.
@pytest.mark.parametrize(
    "kind", ["cross", "encoder", pytest.param("decoder", marks=pytest.mark.slow)]
)
def test_draws_the_attention_that_it_has_and_says_what_it_has_not(trained, loaded, kind, tmp_path):
    picture = tmp_path / "a.svg"
    arguments = [f"--model_dir={trained.folder}", f"--attention={kind}", f"--output={picture}"]
    arguments += ["--source=one dog", "--target=eins Hund"]
    if models.preset_settings(trained.preset).get("score") == "none":
        drawn, reason = (), f"{trained.preset} has no attention, so there is nothing to draw"
    else:
        drawn = KINDS[models.PRESETS[trained.preset][0]]
        reason = f"{trained.preset} has no {kind} attention; give --attention=cross"
    if kind not in drawn:
        run_script("visualize_attention", arguments, reason)
        assert not picture.exists()
        return
    run_script("visualize_attention", arguments)
    texts = {text.text for text in ElementTree.parse(picture).iter()}
    source, target = (
        set(vocabulary.pieces(vocabulary.encode([text])[0]))
        for vocabulary, text in ((loaded[1].source, "one dog"), (loaded[1].target, "eins Hund"))
    )
    assert {"cross": source | target, "encoder": source, "decoder": target}[kind] <= texts
