"""The zoo from Python: train, load, translate, score, align, draw, export."""

import html
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nmt_zoo
from nmt_zoo.command_line.calls import arguments_of
from nmt_zoo.configuration.options import BY_NAME
from nmt_zoo.data_pipeline.datasets import DATASETS
from tests.running import ROOT, eagerly, run_script
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
    assert done.stdout.splitlines()[-1].endswith("(1, 1)] False") and not done.stderr


def test_a_trained_model_translates_and_scores(trained):
    found = trained[0].translate(SOURCES[:4])
    assert found == TARGETS[:4]
    assert len(found.scores) == 4 and all(score < 0 for score in found.scores)
    right, wrong = trained[0].score(SOURCES[:2], [TARGETS[0], TARGETS[2]])
    assert right > wrong
    assert trained[0].translate("a dog runs", beam_size=1) == TARGETS[:1]
    assert len(trained[0].translate("a dog runs", sample=True, seed=3)) == 1


@eagerly
@pytest.mark.parametrize("precision", ["bfloat16", "int8", "auto"])
def test_precisions_are_those_of_the_script(precision, trained, monkeypatch, capsys):
    monkeypatch.setattr("nmt_zoo.decoding.search.precision_choice.kernels_gain", lambda: 0.5)
    model = nmt_zoo.load(trained[1] / "run", precision=precision)
    found = model.translate(SOURCES[:2], length_penalty=0.5)
    said = "precision: float32, as products in int8 take 2.0 times as long here\n"
    assert capsys.readouterr().err == (said if precision == "auto" else "")
    exact = trained[0].translate(SOURCES[:2], length_penalty=0.5)
    assert found == exact
    np.testing.assert_allclose(found.scores, exact.scores, atol=0.3)
    assert (found.scores == exact.scores) == (precision == "auto")
    pairs = SOURCES[:2], TARGETS[:2]
    np.testing.assert_allclose(model.score(*pairs), trained[0].score(*pairs), atol=0.3)
    assert model.align(*pairs) == trained[0].align(*pairs)
    (trained[1] / "lines").write_text("".join(f"{line}\n" for line in SOURCES[:2]))
    flags = [f"--model_dir={trained[1] / 'run'}", f"--input={trained[1] / 'lines'}"]
    flags += [f"--precision={precision}", "--length_penalty=0.5"]
    done = run_script("translate", flags)
    assert done.out.splitlines() == found
    assert done.err.startswith(said if precision == "auto" else "")


def test_a_precision_for_which_threads_are_too_few_is_noticed(trained, monkeypatch):
    threads = "tensorflow.config.threading.get_intra_op_parallelism_threads"
    monkeypatch.setattr(threads, lambda: 1)
    monkeypatch.setattr("nmt_zoo.trained_model.num_cores", lambda: 2)
    with pytest.warns(UserWarning, match=r"precision=int8: all searches share the 1 thread\(s\)"):
        nmt_zoo.load(trained[1] / "run", precision="int8")


def test_python_warns_as_the_script_does(trained):
    with pytest.warns(UserWarning, match=r"small letters only: 1 of 2 \(line 2\)"):
        trained[0].translate(["a dog runs", "A dog runs"])
    # A document's lines are no sentences of one line.
    assert trained[0].translate("a dog runs\na cat runs") == ["\n".join((TARGETS[0], TARGETS[3]))]


def test_a_text_is_copied_from_lists(tmp_path):
    lines = {side: ["a b", "b c"] * 20 for side in ("train_source", "train_target")}
    model = nmt_zoo.train("ibm1", model_dir=tmp_path / "run", data_dir=tmp_path, **lines)
    assert model.align(["a b c"], ["a b c"]) == [[(0, 0), (1, 1), (2, 2)]]


def test_types_reach_the_programs_of_users(tmp_path):
    (tmp_path / "user.py").write_text("import nmt_zoo\nnmt_zoo.load('x').transalte(['a'])\n")
    command = Path(sys.executable).with_name("basedpyright"), tmp_path / "user.py"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert 'Attribute "transalte" is unknown' in done.stdout


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


@pytest.mark.filterwarnings("ignore:lines with characters that training never saw")
def test_the_python_of_the_readme_runs(trained, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    monkeypatch.chdir(trained[1])
    exec(code.replace("runs/demo", "run"), {})
    assert capsys.readouterr().out.count("\n") == 2
    assert Path("attention.png").exists()


def test_attention_is_a_page_a_picture_file_and_a_line(trained):
    attention = trained[0].attention("a dog runs")
    assert attention.texts == ("a dog runs", "ein Hund rennt")
    page = html.unescape(re.search('srcdoc="([^"]*)"', attention._repr_html_())[1])
    assert page.startswith("<!doctype html>") and '"text":"ein Hund rennt"' in page
    assert '"choice":{"layer":1,"head":"mean"}' in page
    attention.save(trained[1] / "attention.svg", head="all")
    assert (trained[1] / "attention.svg").exists()
    assert "'ein Hund rennt' to 'a dog runs'" in repr(attention)


def test_a_trained_model_is_its_learning_curve(trained):
    assert trained[0]._repr_png_()[:4] == b"\x89PNG"
    trained[0].draw_curves(trained[1] / "curves.svg")
    text = (trained[1] / "curves.svg").read_text(encoding="utf-8")
    assert "log-perplexity" in text and f"{trained[1] / 'run'}, valid" in text
    with pytest.raises(nmt_zoo.UserError, match="must end in"):
        trained[0].draw_curves("curves.txt")


def test_a_notebook_shows_names_tables_bars_and_errors_in_a_line(trained):
    manager = pytest.importorskip("jupyter_client.manager")
    bar = "with Progress('encoding', 2, 'lines') as bar: bar.bar.delay = 0; bar.update(1)"

    def run(code):
        shown = []
        client.execute_interactive(code, output_hook=shown.append, timeout=300)
        return [m["content"] for m in shown if m["msg_type"] not in ("status", "execute_input")]

    with manager.run_kernel(kernel_name="python3", cwd=ROOT) as client:
        run(f"import nmt_zoo; model = nmt_zoo.load({str(trained[1] / 'run')!r})")
        table = run("model.translate(['a dog runs <>'] * 22)")[-1]["data"]["text/html"]
        (error,) = run("nmt_zoo.load('nowhere')")
        names = client.complete("nmt_zoo.", 8, reply=True)["content"]["matches"]
        lines = run(f"from nmt_zoo.common.progress import Progress\n{bar}")
    assert table.count("<tr>") == 21 and "a dog runs &lt;&gt;</td>" in table and "2 more" in table
    assert error["traceback"] == ["UserError: nowhere: no such model directory; train.py makes one"]
    assert sorted(names) == sorted(nmt_zoo.__all__)
    assert {line["name"] for line in lines} == {"stdout"}
    assert "1/2" in "".join(line["text"] for line in lines)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nmt_zoo.load("nowhere"), "nowhere"),
        (
            lambda: nmt_zoo.load("nowhere", precision="INT4"),
            "bfloat16, int8, auto, found 'INT4'; did you mean int8",
        ),
        (lambda: nmt_zoo.train("nope", model_dir="nowhere"), "unknown model 'nope'"),
        (lambda: nmt_zoo.train("transformer", model_dir="x"), r"did you mean transformer_tiny\?"),
        (lambda: nmt_zoo.train(dataset="wmt14_en_de"), "give --model_dir, such as runs/x"),
        (lambda: nmt_zoo.train("ibm1", model_dir="nowhere", nothing=1), "nothing"),
        (lambda: nmt_zoo.align(["a"], []), "1 source lines and 0 target lines"),
        (lambda: nmt_zoo.align(["a"], ["b"], model="ibm9"), "expected one of ibm1"),
        (lambda: nmt_zoo.align(["a", None], ["b", "c"]), "line 2: expected a text, found None"),
        (lambda: nmt_zoo.train(train_source=[], train_target=[]), "at least one line"),
        (lambda: nmt_zoo.train("ibm1", train_source=["a\nb"]), "no line feed"),
        (lambda: nmt_zoo.import_model("x", "nowhere"), "no such folder, and no name such as"),
        (lambda: nmt_zoo.register(3), "expected a model, way of training"),
        (lambda: nmt_zoo.register(BY_NAME["update"]), "already a training option 'update'"),
        (lambda: nmt_zoo.register(DATASETS["demo"]), "a dataset needs a name"),
    ],
)
def test_errors_say_what_to_mend(call, message):
    with pytest.raises(nmt_zoo.UserError, match=message):
        call()


def test_errors_of_a_model_say_what_to_mend(trained):
    for lines, options, message in (
        (7, {}, "lines, line 1: expected a text, found 7"),
        ("a", {"beam": 5}, "is it beam_size"),
        ("a", {"beam_size": 0}, "a whole number from 1 to 1000"),
        ("a", {"temperature": 0.5}, "--temperature needs --sample"),
        ("a", {"output": "b"}, "output: there is no such argument"),
    ):
        with pytest.raises(nmt_zoo.UserError, match=message):
            trained[0].translate(lines, **options)


def test_keyword_arguments_are_flags():
    options = {"model": "", "seed": None, "verbose": True, "set": {"tied": False, "width": 8}}
    found = arguments_of({**options, "model_dir": ["a", "b"]})
    assert found == [
        *("--verbose=True", "--set=tied=False", "--set=width=8"),
        *("--model_dir=a", "--model_dir=b"),
    ]
