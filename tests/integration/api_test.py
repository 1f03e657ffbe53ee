"""The zoo from Python: train, load, translate, score, align, draw, export."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import nmt_zoo
from nmt_zoo.command_line.calls import arguments_of
from nmt_zoo.configuration.options import OPTIONS
from nmt_zoo.data_pipeline.datasets import DATASETS
from tests.running import ROOT
from tests.tiny import SMALL

SOURCES = ["a dog runs", "a cat sleeps", "a dog sleeps", "a cat runs"] * 10
TARGETS = ["ein Hund rennt", "eine Katze schläft", "ein Hund schläft", "eine Katze rennt"] * 10


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(The model that `train` returns, its folder.)"""
    folder = tmp_path_factory.mktemp("api")
    model = nmt_zoo.train(
        "transformer_tiny",
        model_dir=folder / "run",
        data_dir=folder / "data",
        settings={**SMALL, "width": 32, "dropout": 0.0},
        **{"train_source": SOURCES, "train_target": TARGETS, "tokenizer": "word"},
        **{"max_steps": 60, "learning_rate": 0.01, "warmup_steps": 10, "bleu_lines": 0},
    )
    return model, folder


def test_importing_and_aligning_need_no_tensorflow():
    code = (
        "import sys, nmt_zoo; pair = ['a dog', 'a cat'] * 9, ['ein Hund', 'eine Katze'] * 9;"
        "links = nmt_zoo.align(*pair);"
        "print(links[0], 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].endswith("(1, 1)] False"), done.stderr


def test_a_trained_model_translates_and_scores(trained):
    found = trained[0].translate(SOURCES[:4])
    assert found == TARGETS[:4]
    assert len(found.scores) == 4 and all(score < 0 for score in found.scores)
    right, wrong = trained[0].score(SOURCES[:2], [TARGETS[0], TARGETS[2]])
    assert right > wrong
    assert trained[0].translate("a dog runs", beam_size=1) == TARGETS[:1]


def test_calls_with_other_options_have_a_search_of_their_own(trained):
    model, folder = trained
    greedy, wide = {"beam_size": 1}, {"beam_size": 3, "length_penalty": 2.0}
    first, other, again = (model.translate(SOURCES[:2], **o) for o in (greedy, wide, greedy))
    assert first == again and first.scores == again.scores != other.scores
    expected = nmt_zoo.load(folder / "run").translate(SOURCES[:2], **wide)
    assert other == expected and other.scores == expected.scores


def test_a_language_model_is_shown_although_it_does_not_translate(tmp_path):
    text = {"train_target": TARGETS, "valid_target": TARGETS[:4]}
    model = nmt_zoo.train("ngram_lm", model_dir=tmp_path / "lm", data_dir=tmp_path / "data", **text)
    assert repr(model) == f"<ngram_lm of {tmp_path / 'lm'}>"
    with pytest.raises(nmt_zoo.UserError, match="does not translate"):
        model.translate("ein Hund")


def test_the_python_of_the_readme_runs(trained, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    monkeypatch.chdir(trained[1])
    exec(code.replace("runs/demo", "run"), {})
    assert capsys.readouterr().out.count("\n") == 2
    assert Path("attention.png").exists()


def test_translations_and_attention_show_in_a_notebook(trained):
    page = trained[0].translate(["a dog runs"])._repr_html_()
    assert "<td>a dog runs</td>" in page and ">Hund</span>" in page
    attention = trained[0].attention("a dog runs")
    assert attention.texts == ("a dog runs", "ein Hund rennt")
    assert attention._repr_png_()[:4] == b"\x89PNG"
    attention.save(trained[1] / "attention.svg", head="all")
    assert (trained[1] / "attention.svg").exists()


def test_links_are_positions_of_words(trained):
    (links,) = trained[0].align(["a dog runs"], ["ein Hund rennt"])
    assert all(0 <= i < 3 and 0 <= j < 3 for i, j in links)


def test_an_export_is_published(trained):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")
    trained[0].export(trained[1] / "export", format="ctranslate2")
    assert (trained[1] / "export" / "1" / "model.bin").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nmt_zoo.load("nowhere"), "nowhere"),
        (lambda: nmt_zoo.train("nope", model_dir="nowhere"), "unknown model 'nope'"),
        (lambda: nmt_zoo.train("transformer", model_dir="x"), r"did you mean transformer_tiny\?"),
        (lambda: nmt_zoo.train(dataset="wmt14_en_de"), "give --model_dir, such as runs/x"),
        (lambda: nmt_zoo.train("ibm1", model_dir="nowhere", nothing=1), "nothing"),
        (lambda: nmt_zoo.align(["a"], []), "1 source lines and 0 target lines"),
        (lambda: nmt_zoo.align(["a"], ["b"], model="ibm9"), "expected one of ibm1"),
        (lambda: nmt_zoo.register(3), "expected a model, way of training"),
        (lambda: nmt_zoo.register(OPTIONS[0]), "already a training option 'update'"),
        (lambda: nmt_zoo.register(DATASETS["demo"]), "a dataset needs a name"),
    ],
)
def test_errors_say_what_to_mend(call, message):
    with pytest.raises(nmt_zoo.UserError, match=message):
        call()


def test_keyword_arguments_are_flags():
    options = {"model": "", "seed": None, "verbose": True, "set": {"tied": False, "width": 8}}
    found = arguments_of({**options, "model_dir": ["a", "b"]})
    assert found == [
        *("--verbose=True", "--set=tied=False", "--set=width=8"),
        *("--model_dir=a", "--model_dir=b"),
    ]
