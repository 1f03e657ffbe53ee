"""The networks, texts and pages of docs/tutorials."""

import re
import unicodedata
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from nmt_zoo import models
from nmt_zoo.common import own_code
from nmt_zoo.common.files import read_lines
from nmt_zoo.configuration import options, recipes, resolver
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.downloads.remote_files import RemoteFile
from nmt_zoo.training.ways import catalogue
from nmt_zoo.training.ways.gradient.adam import adam
from tests.running import ROOT, eagerly

# Name -> (words a side, parameters). The first two are printed by the tutorials.
SIZES = {
    "KerasIO": (15_000, 19_960_216),
    "KerasHub": (15_000, 14_449_304),
    "TensorFlowOrg": (7_500, 10_276_172),
    "D2LTransformer": (200, 1_870_280),
    "TensorFlowAttention": (5_000, 5_291_400),
    "Characters": (90, 749_986),
    "D2LAttention": (200, 2_058_696),
}
SOURCE = tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]])
TARGET = tf.constant([[9, 8, 3], [7, 3, 0]])


@pytest.fixture(scope="module", autouse=True)
def tutorials():
    """The modules `run` and `texts`; what is registered is forgotten in the end."""
    tables = models.PRESETS, recipes.BY_MODEL, recipes.BY_WAY, catalogue.WAYS, datasets.DATASETS
    before = [dict(table) for table in (*tables, options.BY_NAME)]
    for file in ("transformers", "recurrent", "rmsprop"):
        own_code.load(str(ROOT / f"docs/tutorials/{file}.py"))
    from docs.tutorials import run, texts

    yield run, texts
    for table, entries in zip((*tables, options.BY_NAME), before, strict=True):
        table.clear()
        table.update(entries)
    own_code._LOADED.clear()


@pytest.fixture(params=SIZES)
def network(request):
    """(name, model) of every network, at its true size."""
    size, _ = SIZES[request.param]
    return request.param, models.create(request.param, size, size)


@eagerly
def test_every_network_has_the_size_of_its_tutorial_and_learns(network):
    name, model = network
    assert model.count_params() == SIZES[name][1]
    given = recipes.BY_MODEL[name]
    optimizer = adam(learning_rate=given["learning_rate"] * 1e-2, warmup_steps=1)
    way = catalogue.WAYS[catalogue.ways_of(name)[-1]](model, optimizer, label_smoothing=0.0)
    batch = {"source_ids": SOURCE, "target_ids": TARGET}
    assert (type(way).__name__ == "RMSprop") == (name in ("KerasIO", "KerasHub", "Characters"))
    before, _ = way.evaluate(batch)["nll"]
    assert float(before) / 5 == pytest.approx(np.log(SIZES[name][0]), rel=0.3)
    way.step(batch)
    assert float(way.evaluate(batch)["nll"][0]) < float(before)


def test_every_network_decodes_step_by_step_as_it_is_trained(network):
    _, model = network
    target_in = models.shift_right(TARGET, model.bos_id)
    whole = model({"source_ids": SOURCE, "target_in_ids": target_in})
    context = model.encode(SOURCE)
    state = model.initial_state(context)
    for step in range(3):
        logits, state, attention = model.decode_step(target_in[:, step], step, state, context)
        np.testing.assert_allclose(logits, whole[:, step], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(ops.sum(attention, axis=1), 1.0, rtol=1e-5)
        assert float(attention[1, 2]) == 0.0  # On padding.


def test_a_way_of_ones_own_takes_the_options_of_the_way_that_it_extends():
    given = {"update": "rmsprop", "learning_rate": 5e-4}
    settled = resolver.options_of("KerasIO", "files", given)
    catalogue.check_options("KerasIO", settled, given)
    assert settled["learning_rate"] == 5e-4


LINE = "¿Qué hora es, Tom? It's 2:30!"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("lowered", "¿qué hora es, tom? it's 2:30!"),
        ("without_marks", "qué hora es tom its 230"),
        ("without_accents", "¿ que hora es , tom ? its !"),
        ("with_marks_apart", "¿qué hora es , tom ? it's 2:30 !"),
    ],
)
def test_texts_have_the_form_of_the_tutorial(tutorials, form, expected):
    assert getattr(tutorials[1], form)(LINE) == unicodedata.normalize("NFC", expected)


def test_texts_are_parts_of_the_file(tmp_path, monkeypatch):
    lines = "".join(f"Line {number}!\tLínea {number}.\n" for number in range(700))
    path = tmp_path / "downloads" / "a.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("spa-eng/spa.txt", lines)
    monkeypatch.setattr(datasets, "_ANKI", RemoteFile("a.zip", (), path.stat().st_size))
    d2l = datasets.prepare("d2l", tmp_path)
    assert read_lines(d2l["train"].source)[::511] == ["line 0 !", "line 511 !"]
    assert read_lines(d2l["test"].target)[::127] == ["línea 512 .", "línea 639 ."]
    sizes = {"train": 490, "valid": 105, "test": 105}
    for name in ("keras_io", "tensorflow_attention_honest"):
        splits = datasets.prepare(name, tmp_path)
        assert {n: len(read_lines(split.source)) for n, split in splits.items()} == sizes
    assert re.fullmatch(r"linea \.", read_lines(splits["test"].source)[0])


def test_figures_count_padding_as_the_tutorials_do(tutorials):
    run, _ = tutorials
    # Two sentences of 3 and 5 tokens with </s>, 4 of them right.
    sums = run.Sums(nll=16.0, correct=4, tokens=8, sentences=2, longest=5)
    assert run.of_tokens(sums) == (2.0, 0.5)
    assert run.of_positions(40)(sums) == (0.2, 76 / 80)
    assert run.of_positions()(sums) == (16 / 12, 8 / 12)
    assert run.of_masked_positions(sums) == (0.4, 0.6)


def test_pages_have_the_tables_and_the_commands(tutorials):
    run, _ = tutorials
    for path, text in run.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run `python -m docs.tutorials.run`"
    for name, tutorial in run.TUTORIALS.items():
        text = (run.ROOT / "docs/tutorials" / tutorial.page).read_text(encoding="utf-8")
        train, _ = run.commands(name)
        words = [word for word in train if not word.startswith("--data_dir")]
        shown = [line.split() for line in text.replace("\\\n", " ").split("\n")]
        if tutorial.model:
            assert any({*words} <= {*line} for line in shown), f"{tutorial.page}: {words}"
