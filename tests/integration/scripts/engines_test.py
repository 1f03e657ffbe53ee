"""Which engine translate.py chooses; it starts without TensorFlow, and the text is the same."""

import json
import os
import shutil

import pytest

from nmt_zoo.command_line import translate
from nmt_zoo.command_line.engines import convert_if_chosen
from nmt_zoo.command_line.flag_values import defined, parse, read
from nmt_zoo.common.files import read_lines
from nmt_zoo.data_pipeline.noise import NAMES
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive, write_archive
from tests.running import run_elsewhere, run_script
from tests.tiny import SMALL, WORDS, save_model

pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")


def translate_elsewhere(model_dir, *flags, text="a b\n"):
    """Translates in a process of its own: (translations, engine with the reason, packages)."""
    flags = [f"--model_dir={model_dir}", "--verbose", *flags]
    done, packages = run_elsewhere("translate", *flags, text=text)
    engine = done.err.splitlines()[0].removeprefix("engine: ")
    return done.out.splitlines(), engine, packages


def chosen(model_dir, *flags):
    """Returns the engine that translate.py chooses, with the reason."""
    with defined(translate.Arguments):
        parse(["translate", f"--model_dir={model_dir}", *flags])
        arguments = read(translate.Arguments)
    directory, _, reason = convert_if_chosen(arguments)
    return f"{'ctranslate2' if directory else 'tensorflow'} ({reason})"


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--engine=auto"], marks=pytest.mark.slow),
        ["--engine=ctranslate2", "--split_sentences=always", "--format=jsonl"],
    ],
)
def test_a_sentence_is_translated_without_tensorflow(transformer, flags):
    lines = "the dog runs . the dog runs .\n"
    _, engine, packages = translate_elsewhere(transformer, *flags, text=lines)
    assert engine.startswith("ctranslate2 (")
    # A translation that was cut is searched again.
    assert not packages or flags == ["--engine=auto"]


def test_the_text_of_both_engines_is_equal(transformer, text, tmp_path):
    outputs = []
    for engine in ("auto", "tensorflow"):
        outputs.append(tmp_path / engine)
        arguments = [f"--model_dir={transformer}", f"--input={text / 'valid.source'}"]
        run_script("translate", [*arguments, f"--output={outputs[-1]}", f"--engine={engine}"])
    ours, theirs = map(read_lines, outputs)
    assert ours == theirs and len(ours) == 20


def test_what_ctranslate2_would_do_otherwise_is_left_to_tensorflow(transformer, text, monkeypatch):
    source = f"--input={text / 'valid.source'}"
    assert chosen(transformer, source).startswith("ctranslate2 (")
    assert chosen(transformer, source, "--markup=srt").startswith("ctranslate2 (")
    assert chosen(transformer, source, "--length_penalty=1").startswith("ctranslate2 (")
    for flags, reason in (
        (["--engine=tensorflow"], "asked for"),
        (["--sample"], "--sample"),
        (["--n_best=2"], "--n_best"),
        (["--format=jsonl"], "--format"),
        (["--precision=bfloat16"], "--precision"),
        (["--length_penalty=1.5"], "--length_penalty=1.5"),
    ):
        assert chosen(transformer, source, *flags) == f"tensorflow ({reason})"
    monkeypatch.setattr("nmt_zoo.command_line.engines._SHORT", 10)
    assert chosen(transformer, source) == "tensorflow (more than 10 bytes of text)"
    monkeypatch.undo()
    find = "nmt_zoo.command_line.engines.importlib.util.find_spec"
    monkeypatch.setattr(find, lambda name: None)
    expected = "tensorflow (the package ctranslate2 is not installed)"
    assert chosen(transformer, source) == expected


def test_the_scores_of_a_reference_are_those_of_tensorflow_unless_asked_otherwise(
    transformer, text, tmp_path
):
    reference = [f"--input={text / 'valid.source'}", f"--reference={text / 'valid.target'}"]
    assert chosen(transformer, *reference) == "tensorflow (--reference)"
    reference += [f"--save_scores={tmp_path / 'scores.json'}", f"--output={tmp_path / 'out'}"]
    for engine in ("tensorflow", "ctranslate2"):
        run_script("translate", [f"--model_dir={transformer}", *reference, f"--engine={engine}"])
        assert json.loads((tmp_path / "scores.json").read_text())["engine"] == engine


def test_noise_is_scored_beside_the_clean_text(transformer, text, tmp_path):
    flags = [f"--input={text / 'valid.source'}", f"--reference={text / 'valid.target'}"]
    flags += [f"--save_scores={tmp_path / 'scores.json'}", f"--output={tmp_path / 'out'}"]
    done = run_script("translate", [f"--model_dir={transformer}", *flags, "--noise=all"])
    record = json.loads((tmp_path / "scores.json").read_text())
    rows = {row["kind"]: row for row in record["noise"]}
    assert [*rows] == ["clean", *NAMES]
    assert rows["clean"]["bleu"] == record["bleu"] and rows["clean"]["altered"] == 0
    assert rows["capitals"]["altered"] == rows["copies"]["altered"] == 20
    assert all(line.split()[0] in rows for line in done.out.splitlines()[-len(rows) :])


def test_translations_say_how_sure_the_model_is_and_unsure_ones_can_be_left_out(
    transformer, text, tmp_path
):
    flags = [f"--model_dir={transformer}", f"--input={text / 'valid.source'}"]
    done = run_script("translate", [*flags, "--format=jsonl"])
    records = [json.loads(line) for line in done.out.splitlines()]
    for record in records:
        assert 0 <= record["confidence"] <= 1
        assert len(record["word_confidence"]) == len(record["translation"].split())
        assert len(record["token_log_probs"]) >= len(record["tokens"])
    # With 20 validation lines, training fits no temperature.
    assert done.err.count("confidence: not calibrated") == 1
    least = sorted(record["confidence"] for record in records)[10]
    flags += [f"--abstain={least}", f"--output={tmp_path / 'out'}"]
    done = run_script("translate", [*flags, f"--reference={text / 'valid.target'}"])
    expected = [r["translation"] if r["confidence"] >= least else "" for r in records]
    assert read_lines(tmp_path / "out") == expected
    count = sum(record["confidence"] < least for record in records)
    assert f"less sure than --abstain): {count} of 20" in done.err
    assert f"scored: {20 - count} of 20 lines" in done.err
    run_script("translate", [*flags, "--engine=ctranslate2"], refusal="--abstain")


def test_other_models_are_left_to_tensorflow_and_refused_if_asked_for(text, tmp_path):
    tokenizer = train_tokenizer("word", 2 * list(WORDS), 2 * list(WORDS.values()), vocab_size=20)
    other, words, source = (
        tmp_path / "other",
        tmp_path / "words",
        f"--input={text / 'valid.source'}",
    )
    save_model(other, "attention_ibm2", {"width": 8}, tokenizer)
    reason = f"tensorflow ({other} holds attention_ibm2, which CTranslate2"
    assert chosen(other, source).startswith(reason)
    arguments = [f"--model_dir={other}", source, "--engine=ctranslate2"]
    run_script("translate", arguments, refusal="transformer_tiny")
    save_model(words, "transformer_tiny", {**SMALL, "tie_embeddings": "target"}, tokenizer)
    assert chosen(words, source) == "tensorflow (--tokenizer=word)"
    config = json.loads((words / "config.json").read_text())
    config["settings"]["of_later"] = 1
    (words / "config.json").write_text(json.dumps(config))
    arguments[0] = f"--model_dir={words}"
    run_script("translate", arguments, refusal="transformer_tiny has no setting 'of_later'; ")


def test_new_weights_and_a_new_length_penalty_count_at_once_in_a_folder_that_is_read_only(
    transformer, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(transformer, copy)
    before, *_ = translate_elsewhere(copy, "--engine=ctranslate2")
    directory = ModelDirectory(copy)
    arrays, state = read_archive(directory.best_path)
    embeddings = arrays["model/target_embedding/embeddings"]
    arrays["model/target_embedding/embeddings"] = embeddings[::-1].copy()
    write_archive(directory.best_path, arrays, state)
    files = sorted(os.listdir(copy))
    copy.chmod(0o500)
    after, *_ = translate_elsewhere(copy, "--engine=ctranslate2")
    assert after != before and sorted(os.listdir(copy)) == files
    copy.chmod(0o700)
    directory.write_search({"length_penalty": 1.5})
    assert chosen(copy) == "tensorflow (--length_penalty=1.5)"
