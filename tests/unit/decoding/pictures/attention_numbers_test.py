"""Tests of attention written as numbers: what is read back is what was written."""

import json

import numpy as np
import pytest

from nmt_zoo.decoding.alignment.links import parse_gold
from nmt_zoo.decoding.pictures.attention_numbers import save_numbers

SOURCE, TARGET = ["שלום", "<script>", "</s>"], ["a'\"b", "</s>"]
MAPS = {
    "decoder/0/cross": np.random.default_rng(0).random([2, 2, 3]).astype(np.float32),
    "encoder/0/self": np.full([2, 3, 3], 1 / 3, np.float32),
}


def read(path):
    """Returns (maps, other entries) of a file of numbers."""
    if path.suffix.lower() == ".json":
        entries = json.loads(path.read_text("utf-8"))
        return {k: np.array(w, np.float32) for k, w in entries.pop("maps").items()}, entries
    with np.load(path, allow_pickle=False) as file:
        entries = {name: file[name] for name in file.files}
    maps = {name: entries.pop(name) for name in list(entries) if "/" in name}
    return maps, {name: value.tolist() for name, value in entries.items()}


@pytest.mark.parametrize(
    ("ending", "links"), [(".npz", None), (".NPZ", ""), (".npz", "0-0 1p0"), (".json", "0-0 1p0")]
)
def test_what_is_read_back_is_what_was_written(tmp_path, ending, links):
    gold = None if links is None else parse_gold(links, "gold")
    for name in "ab":
        path = tmp_path / f"{name}{ending}"
        save_numbers(MAPS, SOURCE, TARGET, path, model="m of x", gold=gold)
    maps, entries = read(path)
    assert maps.keys() == MAPS.keys()
    for name, weights in maps.items():
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights, MAPS[name])
    expected = {
        "model": "m of x",
        "source_tokens": SOURCE,
        "target_tokens": TARGET,
        "decoder_input_tokens": ["<s>", TARGET[0]],
    }
    if gold:
        expected["gold_sure"] = [[0, 0]] if links else []
        expected["gold_possible"] = [[0, 0], [1, 0]] if links else []
    assert entries == expected
    assert len(list(tmp_path.iterdir())) == 2
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
