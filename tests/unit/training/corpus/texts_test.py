"""Tests of the text that a run is trained on."""

import unicodedata

import pytest

from nmt_zoo.common.files import write_lines
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.data_pipeline.datasets import Split
from nmt_zoo.training.corpus.texts import open_text
from tests.unit.data_pipeline.small import foreign_model

LINES = ["½ cup of tea", "می\u200cخواهم", "the ﬁre", "plain words", "a  b\u00a0c", "Größe größer"]


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_lines(folder / "a.en", [*LINES, "x", "\u3000\u200b"] * 9)
    write_lines(folder / "a.de", [*LINES, "\u00a0", "x"] * 9)
    split = Split(str(folder / "a.en"), str(folder / "a.de"))
    return {"train": split, "valid": split}


@pytest.mark.parametrize("preset", ["transformer_tiny", "ngram_lm"])
def test_target_lines_that_a_ready_model_cannot_write_are_counted(preset, splits, tmp_path, capsys):
    for rule, count in (("nmt_nfkc", 27), ("identity", 0)):
        path = tmp_path / f"{rule}.model"
        training = {"vocab_size": 330, "hard_vocab_limit": False, "byte_fallback": True}
        training |= {"model_type": "unigram", "normalization_rule_name": rule}
        path.write_bytes(foreign_model(LINES * 9, **training))
        options = {**DEFAULTS, "vocab_file": str(path)}
        open_text(preset, splits, options).train_tokenizer(options)
        said = capsys.readouterr().out
        assert ("cannot be written" in said) == bool(count)
        if count:
            assert f"{count} of 72 target lines cannot be written exactly" in said
            assert "such as line 1: '½ cup of tea' becomes '1⁄2 cup of tea'" in said


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_pairs_with_a_blank_side_are_dropped_and_the_form_is_that_of_the_option(
    kind, splits, tmp_path, capsys
):
    found = []
    for form in ("nfc", "none"):
        parts = [unicodedata.normalize("NFD", line) for line in LINES]
        write_lines(tmp_path / "valid", parts)
        write_lines(tmp_path / "valid.de", parts)
        valid = Split(*(str(tmp_path / name) for name in ("valid", "valid.de")))
        options = {**DEFAULTS, "tokenizer": kind, "num_pieces": 340, "normalise": form}
        text = open_text("transformer_tiny", {**splits, "valid": valid}, options)
        tokenizer = text.train_tokenizer(options)
        encoded = text.encode(tokenizer, options, tmp_path / "data")
        assert "dropped: 18 with an empty side" in capsys.readouterr().out
        found.append(
            encoded.valid.target.ids.tolist()
            == encoded.corpus.target.ids.tolist()[: encoded.valid.target.ids.size]
        )
    assert found == [True, False]
