"""Tests of the division of a text into training, validation and test."""

import random

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.datasets import Split
from nmt_zoo.data_pipeline.held_out import hold_out
from nmt_zoo.data_pipeline.lines import names_of
from nmt_zoo.data_pipeline.text_form import is_blank, normalised


def text(folder, count=400, name="a"):
    """Writes pairs, of which some sources occur several times, and returns their `Split`."""
    rng = random.Random(1)
    sources = [f"sentence {rng.randrange(count // 2)}" for _ in range(count)]
    targets = [f"{source} translated {i}" for i, source in enumerate(sources)]
    sources[7], targets[8], sources[9] = "", "\u00a0\u200b", "x" * 2000
    return written(folder, sources, targets, name)


def written(folder, sources, targets=None, name="a"):
    """Writes two sides, by default the same; returns their `Split`."""
    split = Split(folder / f"{name}.en", folder / f"{name}.de")
    for path, lines in zip(split, (sources, targets or sources), strict=True):
        write_lines(path, lines)
    return split


def pairs(split):
    sides = ([line for path in names_of(side) for line in read_lines(path)] for side in split)
    return list(zip(*sides, strict=True))


def test_no_source_sentence_is_on_both_sides_and_every_pair_is_counted(tmp_path):
    whole = text(tmp_path)
    found = hold_out(whole, tmp_path / "out", valid_size=30, test_size=20)
    parts = {name: pairs(split) for name, split in found.splits.items()}
    assert {name: len(part) for name, part in parts.items()} == found.sizes
    assert (found.sizes["valid"], found.sizes["test"]) == (30, 20)
    assert sum(found.sizes.values()) + found.num_dropped == 400 and found.num_dropped > 0
    sources = {name: {source for source, _ in part} for name, part in parts.items()}
    assert not sources["train"] & (sources["valid"] | sources["test"])
    assert len(sources["valid"] | sources["test"]) == 50
    everything = pairs(whole)
    assert all(set(part) <= set(everything) for part in parts.values())
    assert parts["train"] == [pair for pair in everything if pair in set(parts["train"])]
    held_out = [line for part in ("valid", "test") for pair in parts[part] for line in pair]
    assert all(not is_blank(line) and len(line) < 1000 for line in held_out)


def test_no_target_sentence_is_on_both_sides_for_a_model_that_reads_targets_only(tmp_path):
    sources, targets = zip(*((f"sentence {i}", f"Satz {i % 100}") for i in range(400)), strict=True)
    whole = written(tmp_path, sources, targets)
    found = hold_out(whole, tmp_path / "out", valid_size=20, by_target=True)
    targets = [{target for _, target in pairs(found.splits[name])} for name in ("train", "valid")]
    assert len(targets[1]) == 20 and not targets[0] & targets[1]
    assert (found.sizes, found.num_dropped) == ({"train": 320, "valid": 20}, 60)
    assert hold_out(whole, tmp_path / "out", valid_size=20).sizes["train"] == 380
    found = hold_out(Split("", str(whole.target)), tmp_path / "out", valid_size=5)
    assert found.splits["valid"].source == "" and len(read_lines(found.splits["valid"].target)) == 5


SENTENCES = [f"sentence {i}" for i in range(400)]


@pytest.mark.parametrize(
    ("lines", "asked", "train", "valid", "dropped"),
    [
        # With other spaces, it is the same sentence.
        (
            [
                *SENTENCES[:30],
                *("  " + s.replace(" ", " \u00a0") + "\u200b " for s in SENTENCES[:30]),
            ],
            {"valid_size": 10},
            40,
            10,
            10,
        ),
        (SENTENCES[:40] * 10, {}, 380, 2, 18),  # Most pairs are kept.
        (SENTENCES[:19] * 3, {}, 57, None, 0),  # Too few to hold out any unasked.
        (SENTENCES[:19] * 3, {"valid_size": 1}, 54, 1, 2),
    ],
)
def test_of_a_sentence_that_is_held_out_all_other_pairs_are_dropped(
    tmp_path, lines, asked, train, valid, dropped
):
    found = hold_out(written(tmp_path, lines), tmp_path / "out", **asked)
    assert (found.sizes["train"], found.sizes.get("valid")) == (train, valid)
    assert found.num_dropped == dropped and found.splits.keys() == found.sizes.keys()
    words = [{normalised(source) for source, _ in pairs(s)} for s in found.splits.values()]
    assert not set.intersection(*words) or valid is None


def test_the_same_text_is_divided_alike_and_only_once(tmp_path):
    whole = text(tmp_path)
    first = hold_out(whole, tmp_path / "out")
    different = {" ".join(source.split()) for source, _ in pairs(whole)}
    assert first.sizes["valid"] == len(different) // 20 and "test" not in first.splits
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")}
    assert hold_out(whole, tmp_path / "out") == first
    assert written == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")}
    next(path for path in written if path.name == "train.target").unlink()  # A kill in between.
    assert pairs(hold_out(whole, tmp_path / "out").splits["train"]) == pairs(first.splits["train"])
    assert hold_out(whole, tmp_path / "out", valid_size=21).splits != first.splits


def test_several_corpora_stay_apart_in_a_folder_without_a_comma(tmp_path):
    both = [text(tmp_path, 200, "a"), text(tmp_path, 300, "b")]
    joined = Split(*(",".join(map(str, side)) for side in zip(*both, strict=True)))
    found = hold_out(joined, tmp_path / "out", valid_size=40)
    files = names_of(found.splits["train"].source)
    assert len(files) == 2
    for path, corpus in zip(files, both, strict=True):
        assert set(read_lines(path)) <= set(read_lines(corpus.source))
    with pytest.raises(UserError, match="x,y: the name has a comma"):
        hold_out(joined, tmp_path / "x,y", valid_size=5)
    one = hold_out(both[0], tmp_path / "x,y", valid_size=5)
    assert len(pairs(one.splits["valid"])) == 5


def test_too_little_text_is_an_error(tmp_path):
    one, whole = written(tmp_path, ["a sentence"], name="one"), text(tmp_path)
    joined = Split(*(f"{a},{b}" for a, b in zip(whole, one, strict=True)))
    count = len({source for source, target in pairs(joined) if source and target.strip()})
    for split, valid, test, error in (
        (whole, 150, 50, r"a\.en: \d+ different .*too few to hold out 200"),
        (whole, 0, 400, r"hold out 400; give a smaller --test_size$"),
        (joined, count - 2, 0, r"one\.en: all of its 1 lines are held out"),
    ):
        with pytest.raises(UserError, match=error):
            hold_out(split, tmp_path / "out", valid_size=valid, test_size=test)
