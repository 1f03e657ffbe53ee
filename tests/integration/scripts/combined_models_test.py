"""Several models through the scripts: language models, noisy channels and ensembles."""

import json
import shutil

import numpy as np
import pytest

from nmt_zoo.data_pipeline.datasets import prepare, read_split
from tests.running import assert_same_arrays, client_in_this_process, refusals, run_script, train
from tests.tiny import corpus_flags, small_flags

TARGETS = slice(1, None, 2)  # The flags of `corpus_flags` are source, target, source, target.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("language")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder)


@pytest.fixture(scope="module")
def forward(folder, corpus):
    """IBM Model 1 from source to target."""
    train(folder, "forward", "--model=ibm1", "--max_steps=3", *corpus)
    return folder / "forward"


@pytest.fixture(scope="module")
def backward(folder, corpus):
    """IBM Model 1 from target to source."""
    turned = {"source=": "tmp=", "target=": "source=", "tmp=": "target="}
    flags = corpus
    for old, new in turned.items():
        flags = [flag.replace(old, new, 1) for flag in flags]
    train(folder, "backward", "--model=ibm1", "--max_steps=10", *flags)
    return folder / "backward"


@pytest.fixture(scope="module")
def language(folder, corpus, forward):
    """A model of the target language, with the vocabulary of `forward`."""
    vocabulary = f"--vocab_file={forward / 'tokenizer' / 'target.vocab'}"
    train(folder, "language", "--model=ngram_lm", *corpus[TARGETS], vocabulary)
    return folder / "language"


@pytest.fixture(scope="module")
def small(folder, corpus):
    """A translation model with subword pieces."""
    flags = [*small_flags("attention_ibm2"), "--tokenizer=bpe"]
    flags += ["--num_pieces=300", "--max_steps=1"]
    train(folder, "small", *flags, *corpus)
    return folder / "small"


@pytest.fixture(scope="module")
def gradual(folder, corpus):
    """A Transformer with the vocabularies of `forward`."""
    flags = [*small_flags("transformer_tiny"), "--tokenizer=word", "--min_word_count=1"]
    flags += ["--max_steps=30", "--learning_rate=0.03", "--warmup_steps=1", "--bleu_lines=0"]
    train(folder, "gradual", *flags, *corpus)
    return folder / "gradual"


def translate(folder, *flags, refusal=None):
    return run_script("translate", [f"--input={folder / 'valid.source'}", *flags], refusal)


def test_a_shortlist_with_all_tokens_changes_no_translation(folder, gradual, forward):
    flags = [f"--model_dir={gradual}", "--beam_size=2"]
    plain = translate(folder, *flags)  # Of a vocabulary with fewer than 100 tokens.
    found = translate(folder, *flags, f"--shortlist={forward}")
    assert found.out == plain.out


def test_the_directory_holds_all_that_there_is_to_know(language):
    config = json.loads((language / "config.json").read_text())
    assert config["model"] == "ngram_lm" and config["sizes"]["num_ngrams"] > 100
    (record,) = map(json.loads, (language / "metrics.jsonl").read_text().splitlines())
    assert 1 < record["perplexity"] < 14 and record["kind"] == "valid"


def test_the_same_command_again_changes_nothing(language, folder, corpus, forward):
    before = (language / "best.npz").read_bytes()
    flags = ["--model=ngram_lm", *corpus[TARGETS]]
    vocabulary = f"--vocab_file={forward / 'tokenizer' / 'target.vocab'}"
    done = train(folder, "language", *flags, vocabulary)
    assert "already" in done.out
    assert (language / "best.npz").read_bytes() == before
    train(folder, "language", *flags, vocabulary, "--set=order=2", refusal="order was 3, is 2")
    train(folder, "language", *flags, "--vocab_file=x", refusal="vocab_file was")
    other = f"--valid_target={folder / 'train.target'}"
    train(folder, "language", *flags, vocabulary, other, refusal="validation_text was")


def test_what_was_stopped_half_way_is_made_again(folder, corpus):
    flags = ["--model=ngram_lm", "--tokenizer=word", *corpus[TARGETS]]
    train(folder, "halfway", *flags)
    best = folder / "halfway" / "best.npz"
    before = shutil.copy(best, folder / "before.npz")
    half = best.read_bytes()[:1000]
    for spoil in (best.unlink, lambda: best.write_bytes(half)):
        spoil()
        train(folder, "halfway", *flags)
        assert_same_arrays(best, before)
    assert best.with_suffix(".damaged").read_bytes() == half


def test_empty_lines_are_dropped_and_counted(folder):
    (folder / "gaps").write_text("one two\n\nthree one\n  \none\n", encoding="utf-8")
    files = [f"--{split}_target={folder / 'gaps'}" for split in ("train", "valid")]
    flags = ["--model=ngram_lm", "--tokenizer=word", "--min_word_count=1", *files]
    done = train(folder, "gaps_model", *flags)
    assert "training text: 3 sentences, 8 tokens with </s>" in done.out
    assert "2 empty lines dropped" in done.out and "(fixed: " in done.out


def test_several_files_are_one_text(folder, corpus):
    path = folder / "train.target"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    parts = [folder / "part1", folder / "part2"]
    for part, text in zip(parts, (lines[:50], lines[50:]), strict=True):
        part.write_text("".join(text), encoding="utf-8")
    for name, files in (("whole", [path]), ("parts", parts)):
        flags = ["--model=ngram_lm", "--tokenizer=word", *corpus[TARGETS]]
        flags.append(f"--train_target={','.join(map(str, files))}")
        train(folder, name, *flags)
    assert_same_arrays(folder / "whole/best.npz", folder / "parts/best.npz")


def test_the_same_flags_as_a_translation_model_give_its_vocabulary(folder, corpus, small):
    """Subword pieces are learned from both sides."""
    pieces = folder / "pieces"
    train(folder, "pieces", "--model=ngram_lm", "--num_pieces=300", *corpus)
    models = [f"--model_dir={small}", f"--language_model={pieces}"]
    translate(folder, *models)


@pytest.mark.slow
def test_perplexity_falls_with_more_text_of_the_same_kind(folder):
    splits = prepare("demo", folder)
    (_, text), (_, valid) = (read_split(splits[name]) for name in ("train", "valid"))
    (folder / "demo.valid").write_text("".join(f"{line}\n" for line in valid), encoding="utf-8")
    vocabulary = sorted({word for line in valid for word in line.split()})
    (folder / "demo.words").write_text("".join(f"{word}\n" for word in vocabulary))
    found = []
    for size in (100, 1000, 10_000):
        (folder / "demo.train").write_text("".join(f"{line}\n" for line in text[:size]))
        files = [f"--{split}_target={folder / f'demo.{split}'}" for split in ("train", "valid")]
        flags = [*files, f"--vocab_file={folder / 'demo.words'}"]
        train(folder, f"demo{size}", "--model=ngram_lm", *flags)
        metrics = (folder / f"demo{size}" / "metrics.jsonl").read_text()
        found.append(json.loads(metrics)["perplexity"])
    assert found == sorted(found, reverse=True) and found[-1] < 0.5 * found[0]


def test_a_language_model_without_weight_changes_nothing(folder, forward, language):
    flags = [f"--model_dir={forward}", "--format=scores"]
    alone, with_model = translate(folder, *flags), [f"--language_model={language}"]
    fused, weighted = (
        translate(folder, *flags, *with_model, f"--language_model_weight={weight}")
        for weight in (0, 0.5)
    )
    assert alone.out == fused.out != weighted.out


def test_the_noisy_channel_translates(folder, backward, language):
    """The words of the text are random, so a translation can be right only as a set of words."""
    flags = [f"--channel_model={backward}", f"--language_model={language}"]
    flags += [f"--reference={folder / 'valid.target'}", f"--save_scores={folder / 'scores.json'}"]
    done = translate(folder, *flags)
    expected = (folder / "valid.target").read_text(encoding="utf-8").splitlines()
    pairs = zip(done.out.splitlines(), expected, strict=True)
    assert np.mean([set(a.split()) == set(b.split()) for a, b in pairs]) > 0.8
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["channel_model"] == str(backward) and scores["language_model_weight"] == 1
    assert scores["length_penalty"] == 0


def test_an_ensemble_of_a_model_with_itself_is_the_model(folder, gradual):
    alone, twice = (
        translate(folder, f"--model_dir={names}", "--format=scores", "--n_best=2")
        for names in (gradual, f"{gradual},{gradual}")
    )
    fields = [[line.split(" ||| ") for line in done.out.splitlines()] for done in (alone, twice)]
    assert [line[:2] for line in fields[0]] == [line[:2] for line in fields[1]]
    scores = [[float(line[2]) for line in lines] for lines in fields]
    np.testing.assert_allclose(*scores, atol=2e-4)


def test_models_of_different_kinds_translate_together(folder, forward, gradual, language):
    both = f"--model_dir={gradual},{forward}"
    flags = [both, f"--reference={folder / 'valid.target'}"]
    done = translate(folder, *flags, f"--save_scores={folder / 'both.json'}")
    record = json.loads((folder / "both.json").read_text())
    assert record["ensemble"] == {str(gradual): "transformer_tiny", str(forward): "ibm1"}
    assert len(record["training"]) == 2
    alone = translate(folder, f"--model_dir={gradual}")
    assert done.out != alone.out and len(done.out.splitlines()) == len(alone.out.splitlines())
    fused = translate(folder, both, f"--language_model={language}")
    assert fused.out != done.out


def test_what_is_asked_by_flags_is_in_the_translations(folder, gradual):
    (folder / "prefix").write_text("Hund\n" * 20, encoding="utf-8")
    (folder / "banned").write_text("sieht\nKatze\n", encoding="utf-8")
    flags = [f"--model_dir={gradual}", "--beam_size=4", "--n_best=2", "--no_repeat_ngram=1"]
    flags += [f"--prefix={folder / 'prefix'}", f"--banned={folder / 'banned'}"]
    done = translate(folder, *flags)
    texts = [line.split(" ||| ")[1].split() for line in done.out.splitlines()]
    assert len(texts) > 20
    for words in texts:
        assert words[0] == "Hund" and not {"sieht", "Katze"} & {*words}
        assert len({*words}) == len(words)
    (folder / "prefix").write_text("Hund\n" * 19, encoding="utf-8")
    done = translate(folder, *flags, refusal="has 19 lines, and the text has 20;")
    assert done.out == "" and done.err.count("\n") == 1  # Before any line is translated.


def test_draws_are_repeated_with_the_same_seed(folder, gradual):
    flags = [f"--model_dir={gradual}", "--sample", "--n_best=3"]
    one, same, other = (
        translate(folder, *flags, *more)
        for more in (["--seed=1"], ["--seed=1", "--batch_size=3"], ["--seed=2"])
    )
    texts = [[line.split(" ||| ")[:2] for line in d.out.splitlines()] for d in (one, same, other)]
    assert len(texts[0]) == 60 and texts[0] == texts[1] != texts[2]


def test_an_ensemble_is_exported(folder, forward, gradual):
    arguments = [f"--model_dir={gradual},{forward}", f"--export_dir={folder / 'served'}"]
    with client_in_this_process():
        done = run_script("export", arguments)
    assert "lines translated alike" in done.out


MISFITS = """
--model_dir={forward},{small} -> encoded by --tokenizer=bpe, and that of {forward} by word; train
--model_dir={forward},{backward} -> (14 entries) differs from the source vocabulary of {forward}
--model_dir={forward}, -> the name of a model directory is empty
--model_dir={forward},{language} -> ngram_lm, which does not translate
'' -> give --model_dir or --channel_model
--model_dir={forward} --channel_model={backward} -> cannot be combined with --channel_model
--channel_model={backward} -> needs --language_model
--model_dir={forward} --language_model_weight=1 -> needs --language_model
--model_dir={language} -> ngram_lm, which does not translate
--model_dir={forward} --language_model={backward} -> ibm1, a translation model
--model_dir={backward} --language_model={language} -> --vocab_file={backward}/tokenizer/target
--channel_model={forward} --language_model={language} -> --vocab_file={forward}/tokenizer/source
--channel_model={small} --language_model={language} -> attention_ibm2; the noisy channel needs
--model_dir=x --language_model=y --language_model_weight=-1 -> from 0 to 100, found -1
"""


@pytest.mark.parametrize(("flags", "message"), refusals(MISFITS))
def test_models_that_do_not_fit_are_refused(
    folder, forward, backward, language, small, flags, message
):
    names = {"forward": forward, "backward": backward, "language": language, "small": small}
    flags = [flag.format(**names) for flag in flags if flag]
    translate(folder, *flags, refusal=message.format(**names))


def test_a_language_model_cannot_be_exported(folder, language):
    arguments = [f"--model_dir={language}", f"--export_dir={folder / 'export'}"]
    run_script("export", arguments, refusal="ngram_lm, which does not translate")
