"""Tests of the checks of a training text: each planted fault gives a line, a sound text none."""

import tempfile

import pytest

from nmt_zoo.common.files import write_lines
from nmt_zoo.data_pipeline.datasets import prepare
from nmt_zoo.data_pipeline.lines import open_split
from nmt_zoo.data_pipeline.text_checks import text_warnings

with tempfile.TemporaryDirectory() as data_dir:
    PAIRS = list(zip(*open_split(prepare("demo", data_dir)["train"]), strict=True))
    PAIRS = [pair for pair in PAIRS if len(pair[0].split()) > 4][:900]
TRAIN, VALID = PAIRS[:700], PAIRS[700:]
ENGLISH, GERMAN = map(list, zip(*TRAIN, strict=True))


def found(folder, train, valid=VALID, *, sides=(0, 1), own=True):
    """Returns the lines about a text, without the names of folders."""

    def opened(name, pairs):
        paths = [folder / f"{name}.{'ab'[side]}" for side in (0, 1)]
        for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
            write_lines(path, lines)
        both = open_split(paths)
        return tuple(both[side] for side in sides)

    held_out = {"validation": opened("valid", valid)} if valid else {}
    lines = text_warnings(opened("train", train), held_out, own=own)
    return [line.replace(f"{folder}/", "") for line in lines]


def turned(pairs):
    return [pair[::-1] for pair in pairs]


def without(lines, number):
    return lines[:number] + lines[number + 1 :] + lines[:1]


CHANGED = [(f'"{source.upper()}"', target) for source, target in VALID[:20]]
FAULTS = {
    "repetitions": (
        [*TRAIN, *VALID[4:34], *TRAIN[7:107], *CHANGED],
        VALID,
        "34 of 200 validation sources are in the training text, too, perhaps with other case, "
        "punctuation or digits (valid.a, line 1 is like train.a, line 831: ",
        "100 of 850 training pairs repeat an earlier one (the first: train.a, line 731, repeats "
        "train.a, line 8)",
    ),
    "another script": (
        [*TRAIN, *((s, "Это не тот язык .") for s in ENGLISH[:50])],
        VALID,
        "the target is in another script than elsewhere (train.b, line 701: 'Это не тот язык .')",
    ),
    "entities": (
        [(s, t.replace("e", "&#233;") if n % 9 == 0 else t) for n, (s, t) in enumerate(TRAIN)],
        VALID,
        "of 700 training pairs that were looked at have entities, &#233; (train.b, line 1: ",
    ),
    "turned": (TRAIN, turned(VALID), "source and target of the validation text are swapped"),
    "shifted": (
        [*zip(ENGLISH, without(GERMAN, 0), strict=True)],
        VALID,
        "the training text is shifted in 7 of 7 samples: from about train.a, line 1 on, line n "
        "belongs to line n-1 of train.b",
    ),
    "shifted later": (
        [*zip(without(ENGLISH, 300), GERMAN, strict=True)],
        [*zip(ENGLISH[:200], without(GERMAN[:200], 0), strict=True)],
        "shifted in 4 of 7 samples: from about train.a, line 301 on, line n belongs to line n+1",
        "the validation text is shifted in 2 of 2 samples",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_reported_with_its_place(name, tmp_path):
    train, valid, *expected = FAULTS[name]
    lines = found(tmp_path, train, valid)
    for part in expected:
        assert [line for line in lines if part in line], (part, lines)


COMMON = [(f"thank you {name}", "danke") for name in ("all", "Sir", "very much", "again")]


@pytest.mark.parametrize(
    ("train", "valid", "own", "count"),
    [
        (turned(TRAIN), turned(VALID), True, 0),
        ([*TRAIN, *TRAIN[:100]], None, True, 1),  # Of which parts will be held out.
        ([*TRAIN, *TRAIN[:200]], VALID, False, 0),  # Published: only pairing and overlap count.
        (TRAIN + VALID, VALID, False, 1),
        (TRAIN + 10 * COMMON, VALID + COMMON, True, 0),
    ],
    ids=["sound", "alone", "published", "overlap", "common"],
)
def test_nothing_else_is_a_fault(train, valid, own, count, tmp_path):
    assert len(found(tmp_path, train, valid, own=own)) == count


def test_a_language_model_is_checked_by_its_own_sentences(tmp_path):
    lines = found(tmp_path, TRAIN + TRAIN[:100] + VALID[:30], VALID, sides=(1,))
    assert ["sentences repeat" in line for line in lines] == [True, False]
    assert "30 of 200 validation sentences are in the training text" in lines[1]


def test_of_a_long_text_a_sample_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt_zoo.data_pipeline.text_checks._MAX_PAIRS", 400)
    monkeypatch.setattr("nmt_zoo.data_pipeline.text_checks._PART", 100)
    assert "of a sample of 400 training pairs repeat" in found(tmp_path, 2 * TRAIN[:50] + TRAIN)[0]
