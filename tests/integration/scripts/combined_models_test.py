"""Several models through the scripts: language models, noisy channels and ensembles."""

import json
import shutil

import numpy as np
import pytest

from nmt_zoo.common.files import read_lines, write_lines
from tests.running import EAGERLY, assert_same_arrays, refusals, run_script, train
from tests.tiny import small_flags

pytestmark = EAGERLY
TARGETS = slice(1, 4, 2)  # The flags of `corpus` are source, target, source, target, and caches.


@pytest.fixture(scope="module")
def forward(folder, corpus):
    """IBM Model 1 from source to target."""
    train(folder, "forward", "--model=ibm1", "--max_steps=3", "--bleu_lines=0", *corpus)
    return folder / "forward"


@pytest.fixture(scope="module")
def backward(folder, corpus):
    """IBM Model 1 from target to source."""
    turned = {"source=": "tmp=", "target=": "source=", "tmp=": "target="}
    flags = corpus
    for old, new in turned.items():
        flags = [flag.replace(old, new, 1) for flag in flags]
    train(folder, "backward", "--model=ibm1", "--max_steps=10", "--bleu_lines=0", *flags)
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
    flags += ["--num_pieces=300", "--max_steps=1", "--bleu_lines=0"]
    train(folder, "small", *flags, *corpus)
    return folder / "small"


@pytest.fixture(scope="module")
def gradual(folder, corpus):
    """A model that learns by gradient, with the vocabularies of `forward`."""
    flags = [*small_flags("attention_ibm2"), "--max_steps=3", "--bleu_lines=0"]
    train(folder, "gradual", *flags, *corpus)
    return folder / "gradual"


@pytest.fixture(scope="module")
def few(folder, text):
    """The first lines of the validation text: (source, target)."""
    for side in ("source", "target"):
        write_lines(folder / f"few.{side}", read_lines(text / f"valid.{side}")[:6])
    return folder / "few.source", folder / "few.target"


@pytest.fixture
def translate(few):
    """Runs translate.py on a few lines."""
    # Translations of a model that has learnt little end nowhere.
    usual = [f"--input={few[0]}", "--max_length_factor=1"]
    return lambda *flags, **more: run_script("translate", [*usual, *flags], **more)


def test_the_same_command_again_changes_nothing(language, folder, text, corpus, forward):
    before = (language / "best.npz").read_bytes()
    flags = ["--model=ngram_lm", *corpus[TARGETS]]
    vocabulary = f"--vocab_file={forward / 'tokenizer' / 'target.vocab'}"
    done = train(folder, "language", *flags, vocabulary)
    assert "already" in done.out
    assert (language / "best.npz").read_bytes() == before
    train(folder, "language", *flags, vocabulary, "--set=order=2", refusal="order was 3, is 2")
    train(folder, "language", *flags, "--vocab_file=x", refusal="vocab_file was")
    other = f"--valid_target={text / 'train.target'}"
    train(folder, "language", *flags, vocabulary, other, refusal="another validation text")


def test_what_was_stopped_half_way_is_made_again_and_files_are_one_text(folder, text, corpus):
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
    lines, parts = read_lines(text / "train.target"), [folder / "part1", folder / "part2"]
    for part, of_part in zip(parts, (lines[:50], lines[50:]), strict=True):
        write_lines(part, of_part)
    train(folder, "parts", *flags, f"--train_target={','.join(map(str, parts))}")
    assert_same_arrays(best, folder / "parts/best.npz")


def test_empty_lines_are_dropped_and_counted(folder):
    (folder / "gaps").write_text("one two\n\nthree one\n  \none\n", encoding="utf-8")
    files = [f"--{split}_target={folder / 'gaps'}" for split in ("train", "valid")]
    flags = ["--model=ngram_lm", "--tokenizer=word", "--min_word_count=1", *files]
    done = train(folder, "gaps_model", *flags)
    assert "training text: 3 sentences, 8 tokens with </s>" in done.out
    assert "2 empty lines dropped" in done.out and "(fixed: " in done.out


def test_the_same_flags_as_a_translation_model_give_its_vocabulary(
    folder, corpus, small, translate
):
    """Subword pieces are learned from both sides."""
    pieces = folder / "pieces"
    train(folder, "pieces", "--model=ngram_lm", "--num_pieces=300", *corpus)
    translate(f"--model_dir={small}", f"--language_model={pieces}", "--beam_size=1")


def test_a_language_model_without_weight_changes_nothing(translate, forward, language):
    flags = [f"--model_dir={forward}", "--format=scores"]
    alone, with_model = translate(*flags), [f"--language_model={language}"]
    fused, weighted = (
        translate(*flags, *with_model, f"--language_model_weight={weight}") for weight in (0, 0.5)
    )
    assert alone.out == fused.out != weighted.out


def test_the_noisy_channel_translates(translate, folder, few, backward, language):
    """The words of the text are random, so a translation can be right only as a set of words."""
    flags = [f"--channel_model={backward}", f"--language_model={language}"]
    flags += [f"--reference={few[1]}", f"--save_scores={folder / 'scores.json'}"]
    done = translate(*flags)
    pairs = zip(done.out.splitlines(), read_lines(few[1]), strict=True)
    assert np.mean([set(a.split()) == set(b.split()) for a, b in pairs]) > 0.8
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["channel_model"] == str(backward) and scores["language_model_weight"] == 1
    assert scores["length_penalty"] == 0


def test_models_of_different_kinds_translate_together(
    translate, folder, few, forward, gradual, language
):
    flags = [f"--model_dir={gradual},{forward}", "--format=scores"]
    scored = [f"--reference={few[1]}", f"--save_scores={folder / 'both.json'}"]
    done = translate(*flags, *scored)
    record = json.loads((folder / "both.json").read_text())
    assert record["ensemble"] == {str(gradual): "attention_ibm2", str(forward): "ibm1"}
    assert len(record["training"]) == 2
    alone = translate(f"--model_dir={gradual}", flags[1])
    fused = translate(*flags, f"--language_model={language}")
    assert len({done.out, alone.out, fused.out}) == 3
    assert len(done.out.splitlines()) == len(alone.out.splitlines())


def test_what_is_asked_by_flags_is_in_the_translations(translate, folder, gradual):
    (folder / "prefix").write_text("Hund\n" * 6, encoding="utf-8")
    (folder / "banned").write_text("sieht\nKatze\n", encoding="utf-8")
    flags = [f"--model_dir={gradual}", "--beam_size=4", "--n_best=2", "--no_repeat_ngram=1"]
    flags += [f"--prefix={folder / 'prefix'}", f"--banned={folder / 'banned'}"]
    done = translate(*flags)
    texts = [line.split(" ||| ")[1].split() for line in done.out.splitlines()]
    assert len(texts) > 6
    for words in texts:
        assert words[0] == "Hund" and not {"sieht", "Katze"} & {*words}
        assert len({*words}) == len(words)
    (folder / "prefix").write_text("Hund\n" * 5, encoding="utf-8")
    done = translate(*flags, refusal="has 5 lines, and the text has 6;")
    assert done.out == "" and done.err.count("\n") == 1  # Before any line is translated.


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
    translate, forward, backward, language, small, flags, message
):
    names = {"forward": forward, "backward": backward, "language": language, "small": small}
    flags = [flag.format(**names) for flag in flags if flag]
    translate(*flags, refusal=message.format(**names))
