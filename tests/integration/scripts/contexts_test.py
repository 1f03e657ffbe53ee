"""Tests of models that read the sentences before a line, by train.py --context_sentences."""

import json
import random
import shutil

import pytest
import tensorflow as tf

import nmt_zoo
from nmt_zoo.command_line import serve
from nmt_zoo.data_pipeline.documents import Context
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.export.requests_in_graph import lines_of
from tests.odd_text import ODDITIES
from tests.running import (
    EAGERLY,
    assert_same_arrays,
    run_script,
    train,
)
from tests.tiny import small_flags

pytestmark = [*EAGERLY, pytest.mark.filterwarnings("ignore::UserWarning")]
FLAGS = [*small_flags("attention_ibm2"), "--tokenizer=bpe", "--num_pieces=330", "--bleu_lines=0"]
FLAGS += ["--warmup_steps=2", "--save_every_steps=2", "--max_steps=4", "--context_sentences=1"]
SHORT = {"max_length_factor": 1}  # A model that has learnt little ends nowhere, and is warned of.
DOCUMENT = ["one dog", "two dogs run", "", "one cat"]
JOINED = ["one dog", "one dog >>context<< two dogs run", "", "one cat"]


@pytest.fixture(scope="module")
def trained(folder, corpus):
    train(folder, "run", *corpus, *FLAGS)
    return folder / "run"


@pytest.fixture(scope="module")
def model(trained):
    """The model in Python, whose graphs are made once."""
    return nmt_zoo.load(trained)


def scores(model_dir, lines, *flags):
    """Returns the scores of the translations that translate.py finds."""
    path = model_dir.parent / "text"
    path.write_text("".join(f"{line}\n" for line in lines))
    flags = [f"--model_dir={model_dir}", f"--input={path}", "--format=scores", *flags]
    done = run_script("translate", [*flags, "--engine=tensorflow", "--max_length_factor=1"])
    return [line.split("\t")[0] for line in done.out.splitlines()]


def test_a_run_reads_contexts_and_resumes(folder, corpus, trained):
    source, target = ModelDirectory(trained).tokenizer()[1:]
    (ids,) = source.encode([JOINED[1]])
    assert source.pieces(ids).count("▁>>context<<") == 1 and len(source) == len(target)
    (shutil.copytree(trained, folder / "parts") / "checkpoints/00000004.npz").unlink()
    train(folder, "parts", *corpus, *FLAGS)
    assert_same_arrays(trained / "best.npz", folder / "parts/best.npz")


def test_files_texts_and_windows_are_translated_with_the_same_contexts(trained, model):
    expected = scores(trained, DOCUMENT)
    assert scores(trained, DOCUMENT, "--batch_size=1") == expected
    assert [f"{score:.4f}" for score in model.translate(JOINED, **SHORT).scores] == expected
    first, alone = model.translate(["one dog", "two dogs run"], **SHORT).scores
    assert f"{first:.4f}" == expected[0] and f"{alone:.4f}" != expected[1]
    text = model.translate("\n".join(DOCUMENT), **SHORT)[0]
    assert text == "\n".join(model.translate(JOINED, **SHORT))


def test_a_server_answers_as_translate_py_for_contexts_tags_sentences_and_copied_parts(
    trained, folder
):
    odd = shutil.copytree(trained, folder / "odd")
    changes = {"config.json": ('"noise": "copies=0.05', '"noise": "copies=0.5')}
    changes["training_text.json"] = '"tags": []', '"tags": ["<formal>"]'
    for name, (old, new) in changes.items():
        text = (odd / name).read_text()
        assert old in text
        (odd / name).write_text(text.replace(old, new))
    lines = ["one dog . two cats .", "one dog >>context<< <formal> two dogs . one {☕} runs ."]
    lines += ["ONE DOG SEES", ODDITIES["markup"], ODDITIES["replacement character"]]
    (folder / "lines").write_text("\n".join(lines), encoding="utf-8")
    flags = [f"--model_dir={odd}", f"--input={folder / 'lines'}", "--engine=tensorflow"]
    expected = run_script("translate", [*flags, "--compile=never"]).out.split("\n")[:-1]
    served = serve.load(serve.Arguments(model_dir=str(odd), compile=False), "odd")
    default = served.signatures["serving_default"]
    (answer,) = default.answers(default.rows({"text": ["\n".join(lines)]}))
    assert answer["translation"].split("\n") == expected and "☕" in expected[1]
    shown = served.page.answers(served.page.rows({"text": ["\n".join(DOCUMENT)], "line": [1]}))
    assert shown[0]["model"]["source"]["text"] == JOINED[1]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_graph_finds_the_same_contexts(most):
    draw = random.Random(most)
    rows = [draw.choices(["", "a", "b b"], k=draw.randint(1, 8)) for _ in range(40)]
    rows = [["x", *row, "y"] for row in rows]  # Outer blank lines are cut.
    found = lines_of(tf.constant(["\n".join(row) for row in rows]), most)
    expected = [Context(most).of(row) for row in rows]
    assert [[line.decode() for line in row] for row in found.to_list()] == expected


def test_parts_that_are_kept_are_those_of_the_sentence_itself(trained):
    lines = ["one dog www.a.org", "two dogs run"]
    path, output = trained.parent / "kept", trained.parent / "kept.out"
    path.write_text("".join(f"{line}\n" for line in lines))
    flags = [f"--model_dir={trained}", f"--input={path}", "--format=jsonl", f"--output={output}"]
    run_script("translate", [*flags, "--engine=tensorflow", "--max_length_factor=1"])
    first, second = map(json.loads, output.read_text().splitlines())
    assert "www.a.org" in first["translation"] and "www.a.org" not in second["translation"]
    assert second["source"] == "one dog www.a.org >>context<< two dogs run"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--tokenizer=word"], "--tokenizer=bpe"),
        (["--model=ibm1", "--update=em"], "not with --model=ibm1"),
        (["--valid_source=", "--valid_target="], "cannot be held out of documents"),
    ],
)
def test_contexts_that_do_not_fit_are_refused(folder, corpus, flags, reason):
    train(folder, "bad", *corpus, *flags, "--context_sentences=1", refusal=reason)
    assert not (folder / "bad" / "config.json").exists()


def test_tuning_with_other_contexts_is_reported_and_makes_no_ensemble(
    folder, text, corpus, trained
):
    flags = [f"--init_from={trained}", "--max_steps=1", "--bleu_lines=0"]
    done = train(folder, "other", *corpus, *flags)
    assert "--context_sentences=0: the model of --init_from was trained with 1" in done.out
    flags = [f"--model_dir={trained},{folder / 'other'}", f"--input={text / 'valid.source'}"]
    run_script("translate", flags, refusal="--context_sentences=0")
