"""Cleaning: lines are mended, bad pairs are dropped, and every pair is counted."""

import random

import pytest

from nmt_zoo.data_pipeline.downloads.cleaning import Cleaner

NASTY = "ab ä\t\v\f\r\x00\x1c\x85\xa0\u2003\u2028\u2029\u3000\u200b\ufeff\xad€😀&;#amp1"


def mend(*lines):
    return Cleaner().mend(list(lines))


def clean(*pairs, filters=True):
    """Cleans pairs; returns (kept pairs, reasons)."""
    cleaner = Cleaner(filters)
    kept = cleaner.clean([source for source, _ in pairs], [target for _, target in pairs])
    return list(zip(*kept, strict=True)), dict(cleaner.dropped)


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        ("Tom &amp; Jerry", "Tom & Jerry"),
        ("it &apos;s &quot; so &quot;", 'it \'s " so "'),
        ("&#91; x &#93; &#x7c; &lt;&gt;", "[ x ] | <>"),
        ("&Auml;rger", "Ärger"),
        ("&amp;amp; once", "&amp; once"),
        ("?a=1&copy=2&para;", "?a=1&copy=2¶"),
        ("AT&T; &nosuchthing; &region; R & D", "AT&T; &nosuchthing; &region; R & D"),
        ("a&nbsp;b&#10;c&#8232;d", "a b c d"),
        ("می\u200cخواهم 👩\u200d🚀", "می\u200cخواهم 👩\u200d🚀"),  # Joiners stay.
    ],
)
def test_entities_are_undone_once_and_counted(escaped, plain):
    assert mend(escaped, "x") == [plain, "x"]
    cleaner = Cleaner()
    cleaner.mend(["&amp; &parameter; &#39;", "&T;"])
    assert cleaner.mended["entities undone"] == 2


def test_odd_spaces_become_a_space_and_invisible_characters_go():
    for odd in "\t\v\f\r\x00\x1c\x1f\x7f\x85\x92\xa0\u1680\u2009\u2028\u2029\u3000":
        assert mend(f"a{odd}b", f"{odd}c {odd} d{odd}", odd) == ["a b", "c d", ""]
    for invisible in "\xad\u200b\u2060\ufeff":
        assert mend(f"a{invisible}b {invisible} c") == ["ab c"]


@pytest.mark.parametrize("seed", range(5))
def test_lines_stay_apart_however_they_are_grouped(seed):
    rng = random.Random(seed)
    lines = ["".join(rng.choices(NASTY, k=rng.randrange(12))) for _ in range(40)]
    together = mend(*lines)
    assert together == [mend(line)[0] for line in lines]
    for line in together:
        assert len(line.splitlines()) <= 1
        assert line.split() == (line.split(" ") if line else [])


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("", "b"), "a side is empty"),
        (("a", " \u2028\u200b"), "a side is empty"),
        (("a" * 2001, "b" * 2000), "longer than 2,000 characters"),
        (("a" * 40, "b" * 151), "length ratio above 3"),
        (("a" * 151, "b" * 40), "length ratio above 3"),
        (("a &amp; b", "a & b"), "both sides are the same"),
        (("a" * 2000, "b" * 2000), None),
        (("a" * 40, "b" * 150), None),
        (("No.", "Auf gar keinen Fall."), None),
    ],
)
def test_a_bad_pair_goes_and_its_reason_is_counted_but_one_at_a_limit_stays(pair, reason):
    kept = [("a", "b")] if reason else [("a", "b"), pair]
    assert clean(("a", "b"), pair) == (kept, {reason: 1} if reason else {})


def test_of_equal_pairs_the_first_stays_also_across_blocks():
    cleaner = Cleaner()
    assert cleaner.clean(["a", "b", "a", "a "], ["x", "x", "y", "x"]) == (
        ["a", "b", "a"],
        ["x", "x", "y"],
    )
    assert cleaner.clean(["x", "a"], ["a", "x"]) == (["x"], ["a"])
    assert cleaner.summary() == {
        "read": 6,
        "kept": 4,
        "dropped": {"seen before": 2},
        "mended": {"needless spaces": 1},
    }


def test_a_corpus_that_people_wrote_loses_only_empty_sides_and_a_test_set_nothing():
    pairs = [("a", "a"), ("a", "a"), ("a", "b" * 9000), ("", "x")]
    assert clean(*pairs, filters=False) == (pairs[:3], {"a side is empty": 1})
    cleaner = Cleaner()
    sides = ["a  &amp;", "", "a"], ["b", "b", "a"]
    assert cleaner.clean(*sides, drops=False) == (["a &", "", "a"], ["b", "b", "a"])
    assert (cleaner.read, cleaner.kept, dict(cleaner.dropped)) == (3, 3, {})
