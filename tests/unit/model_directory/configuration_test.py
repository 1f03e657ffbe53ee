"""Tests of the checks of config.json and of the files of a model directory."""

import json
import re
import shutil

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import options
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
from nmt_zoo.model_directory.combined_models import check_same_tokenizer, load_models
from nmt_zoo.model_directory.configuration import read_configuration
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays
from nmt_zoo.model_directory.weight_files import write_archive
from tests.tiny import SMALL

SETTINGS = {**SMALL, "tie_embeddings": "target"}
CONFIG = {
    "format": 1,
    "model": "transformer_tiny",
    "settings": SETTINGS,
    "tokenizer": "word",
    "dataset": "files",
    "options": dict(options_of("transformer_tiny", "files", {})),
    "vocab_sizes": [7, 8],
    "sizes": {},
    "vocabulary_crc32": {},
}


def test_another_version_is_refused_by_name_and_an_option_added_since_has_its_default(
    tmp_path, monkeypatch
):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "format": 2}))
    with pytest.raises(UserError, match="another version of nmt_zoo; train again or use that"):
        read_configuration(path)
    path.write_text(json.dumps(CONFIG))
    for table, value in ((options.BY_NAME, options.BY_NAME["seed"]), (options.DEFAULTS, 7)):
        monkeypatch.setitem(table, "mine", value)
    assert read_configuration(path)["options"] == {**CONFIG["options"], "mine": 7}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A model directory with untrained weights."""
    tokenizer = train_tokenizer("word", ["a b c a b c"], ["c d e f c d e f"])
    directory = ModelDirectory(tmp_path_factory.mktemp("template") / "m")
    directory.start(CONFIG, tokenizer)
    arrays = {name: v.numpy() for name, v in model_arrays(directory.new_model()).items()}
    write_archive(directory.best_path, arrays, {"step": 1, "perplexity": 2.0})
    return directory.path


@pytest.fixture
def directory(template, tmp_path):
    return ModelDirectory(shutil.copytree(template, tmp_path / "m"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"width": 40_000, "num_encoder_layers": 60}, r"weights, which take .*choose smaller"),
        ({"width": 10**9}, r"a weight of 1000000000 x 1000000000 numbers"),
        ({"width": 15}, "width must be even"),
        ({"norm": "middle"}, "norm must be one of post, pre"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_it_is_built(directory, settings, expected):
    directory.config_path.write_text(json.dumps({**CONFIG, "settings": {**SETTINGS, **settings}}))
    with pytest.raises(UserError, match=f"^{directory.config_path}: .*{expected}"):
        directory.load()


def test_a_changed_byte_of_a_vocabulary_or_a_second_run_is_noticed(directory):
    before = directory.config_path.read_bytes()
    with pytest.raises(UserError, match="another run has just begun here"):
        ModelDirectory(directory.path).start(CONFIG, directory.tokenizer())
    assert directory.config_path.read_bytes() == before
    for path in (directory.path / "tokenizer").iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"c", b"x"))
        with pytest.raises(UserError, match=f"^{path}: damaged .*restore the vocabulary"):
            directory.load()
        path.unlink()
        with pytest.raises(UserError, match=f"^{path}: no such file"):
            directory.load()
        path.write_bytes(whole)
    assert directory.load()[2]["vocabulary_crc32"] == json.loads(before)["vocabulary_crc32"]


@pytest.mark.parametrize(
    "state", [{"step": "1"}, {"step": None}, {"perplexity": "2"}, {"averaged_steps": 7}]
)
def test_a_best_model_of_which_nonsense_is_said_is_damaged(directory, state, capsys):
    write_archive(directory.best_path, directory.read_best()[0], {"step": 1, **state})
    with pytest.raises(UserError, match=f"^{directory.best_path}: damaged .*train.py command"):
        directory.load()
    assert directory.best_state() is None
    assert f"{directory.best_path}: damaged" in capsys.readouterr().err
    assert directory.best_path.with_suffix(".damaged").exists()


def test_weights_of_another_type_or_that_are_not_finite_are_refused_by_name(directory):
    arrays, state = directory.read_best()
    name, array = next(item for item in arrays.items() if item[1].ndim > 1)
    for kind in ("int32", "float64"):
        write_archive(directory.best_path, {**arrays, name: array.astype(kind)}, state)
        with pytest.raises(UserError, match=f"{name} is {kind}, the model needs float32"):
            directory.load()
    shown = re.escape(f"{directory.best_path}: {name.removeprefix('model/')} is not finite")
    for value in (float("nan"), float("inf")):
        array[-1, -1] = value
        write_archive(directory.best_path, arrays, state)
        with pytest.raises(UserError, match=f"^{shown}; .*lower --learning_rate"):
            directory.load()


def test_a_model_has_the_length_penalty_chosen_for_it_and_an_ensemble_their_mean(directory):
    other = ModelDirectory(shutil.copytree(directory.path, directory.path.parent / "other"))
    directory.write_search({"length_penalty": 1.0})
    other.write_search({"length_penalty": 2.0})
    penalties = [load_models(some)[2]["length_penalty"] for some in ([other], [directory, other])]
    assert penalties == [2.0, 1.5]


def test_models_of_texts_in_different_forms_are_not_combined(tmp_path):
    one, other = (
        Tokenizer("word", *[WordVocabulary([*SPECIALS, "a"], form=form)] * 2)
        for form in ("nfc", "none")
    )
    directories = [ModelDirectory(tmp_path / name) for name in "xy"]
    check_same_tokenizer(one, directories[0], one, directories[1])
    with pytest.raises(UserError, match=r"x: its text has --normalise=nfc, and that of .*y none; "):
        check_same_tokenizer(one, directories[0], other, directories[1])
