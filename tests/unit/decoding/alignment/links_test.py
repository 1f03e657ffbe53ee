"""Tests of alignments: read, written, symmetrised and scored."""

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.alignment.links import (
    SYMMETRISATIONS,
    GoldAlignment,
    read_alignments,
    read_gold,
    score_alignments,
    symmetrise,
)


def grid(text):
    """Reads (forward, reverse) links from a picture: rows are source words; f, r, or b for both."""
    rows = [line.split() for line in text.strip().splitlines()]
    cells = [(i, j, mark) for i, row in enumerate(rows) for j, mark in enumerate(row)]
    return tuple([(i, j) for i, j, mark in cells if mark in marks] for marks in ("fb", "rb"))


# (1, 1) is next to a link of both directions and aligns two new words. (1, 2) is next to such a
# link, too, but comes later. (4, 0) and (0, 4) align one new word each, (5, 4) aligns two; none of
# the three is next to a link.
PICTURE = """
    b . . . r
    . f r . .
    . . b . .
    . . . . .
    f . . . .
    . . . . f
"""
BY_HAND = {
    "intersection": [(0, 0), (2, 2)],
    "union": [(0, 0), (0, 4), (1, 1), (1, 2), (2, 2), (4, 0), (5, 4)],
    # From (0, 0): (1, 1) is diagonal to it, and both its words are new. From (2, 2): (1, 2) is
    # next to it, but row 1 and column 2 have links by then.
    "grow-diag": [(0, 0), (1, 1), (2, 2)],
    # Forward links first: (4, 0) aligns row 4, (5, 4) aligns row 5 and column 4. Then (0, 4) aligns
    # nothing new.
    "grow-diag-final": [(0, 0), (1, 1), (2, 2), (4, 0), (5, 4)],
    # (5, 4) aligns two new words, (4, 0) only one new word.
    "grow-diag-final-and": [(0, 0), (1, 1), (2, 2), (5, 4)],
}


@pytest.mark.parametrize("method", SYMMETRISATIONS)
def test_symmetrisation_is_what_a_pencil_gives(method):
    assert symmetrise(*grid(PICTURE), method) == BY_HAND[method]


def test_growing_goes_on_from_what_was_added():
    """Links form a chain, each next to the link before; only the first is in both directions."""
    picture = """
        b . . .
        . f . .
        . . r .
        . . . f
    """
    forward, reverse = grid(picture)
    assert symmetrise(forward, reverse, "grow-diag") == [(0, 0), (1, 1), (2, 2), (3, 3)]
    backwards = [[(3 - i, 3 - j) for i, j in links] for links in (forward, reverse)]
    assert symmetrise(*backwards, "grow-diag") == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("forward", "reverse", "method", "links"),
    [
        ([(0, 0), (2, 2)], [(0, 0)], "grow-diag", [(0, 0)]),  # Growing needs a neighbour.
        ([(0, 0), (2, 2)], [(0, 0)], "grow-diag-final", [(0, 0), (2, 2)]),
        # A word may get a second link if that aligns the other word.
        ([(0, 0), (0, 1)], [(0, 0)], "grow-diag", [(0, 0), (0, 1)]),
        # Forward links come first.
        ([(0, 2)], [(2, 2)], "grow-diag-final-and", [(0, 2)]),
        ([(2, 2)], [(0, 2)], "grow-diag-final-and", [(2, 2)]),
        ([(0, 2)], [(2, 2)], "grow-diag-final", [(0, 2), (2, 2)]),
    ],
)
def test_links_are_added_by_the_rules_of_the_method(forward, reverse, method, links):
    assert symmetrise(forward, reverse, method) == links
    with pytest.raises(ValueError, match=r"'grow'.*intersection, union, grow-diag"):
        symmetrise(forward, reverse, "grow")


def test_gold_has_sure_and_possible_links(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("1-1 2p1 3?2 3-2\n\n")
    first, second = read_gold(path, pairs=[(3, 2), (1, 1)])
    assert first.sure == {(0, 0), (2, 1)}
    assert first.possible == {(0, 0), (1, 0), (2, 1)}
    assert second == GoldAlignment(frozenset(), frozenset())


@pytest.mark.parametrize(
    ("token", "base", "expected", "size"),
    [
        ("3-0", 0, "source positions from 0 to 2", 3),
        ("0-2", 0, "target positions from 0 to 1", 2),
        ("4-1", 1, "source positions from 1 to 3", 3),
    ],
)
def test_a_link_outside_its_sentence_is_named(tmp_path, token, base, expected, size):
    path = tmp_path / "some.txt"
    path.write_text(f"1-1\n{token} 1-1\n")
    for read in [read_gold, *[read_alignments] * (base == 0)]:
        with pytest.raises(UserError) as error:
            read(path, pairs=[(2, 2), (3, 2)])
        assert str(error.value) == (
            f"{path}, line 2: '{token}'; expected {expected}, words counted from {base}; the "
            f"sentence has {size} words"
        )


def test_a_link_of_an_empty_sentence_is_named(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("\n0-0\n")
    with pytest.raises(UserError, match=r"line 2: '0-0'; .* the target has no words"):
        read_alignments(path, pairs=[(0, 1), (1, 0)])


NUMBERED = "0001 1 1 S\n0001 2 2\n0001 3 3 P\n\n3 1 2 p 0.5\n3 0 1 S\n3 1 2 S\n"


def test_gold_in_the_form_of_naacl_2003_is_known(tmp_path, capsys):
    path = tmp_path / "gold.txt"
    path.write_text(NUMBERED)
    first, second, third = read_gold(path, pairs=[(3, 3), (0, 0), (1, 2)])
    assert first.sure == {(0, 0), (1, 1)} and first.possible == {(0, 0), (1, 1), (2, 2)}
    assert not second.possible and third.sure == {(0, 1)}
    assert "1 of 6 links are to word 0 (NULL)" in capsys.readouterr().err
    assert len(read_gold(path)) == 3 and len(read_gold(path, pairs=[(3, 3)] * 9)) == 9
    path.write_text(NUMBERED.replace("0001", "0"))
    assert len(read_gold(path)) == 4


def test_scores_are_those_of_the_definition():
    """Och and Ney 2003: two of three links are possible, and one of two sure links is found."""
    gold = [
        GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})),
        GoldAlignment(frozenset({(0, 1)}), frozenset({(0, 1)})),
    ]
    score = score_alignments([[(0, 0), (1, 1)], [(0, 0)]], gold)
    assert score.precision == pytest.approx(2 / 3)
    assert score.recall == pytest.approx(1 / 2)
    assert score.aer == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_perfect_and_empty_alignments_score_as_such():
    sure, possible = frozenset({(0, 0)}), frozenset({(0, 0), (0, 1)})
    for links in (sure, possible):
        assert score_alignments([links], [GoldAlignment(sure, possible)]) == (0, 1, 1)
    assert score_alignments([[]], [GoldAlignment(sure, possible)]) == (1, 1, 0)
    assert score_alignments([[]], [GoldAlignment(frozenset(), possible)]) == (0, 1, 1)
    assert score_alignments([], []) == (0, 1, 1)
    twice = [[(0, 0), (0, 0), (1, 1)]]  # A link given twice counts once.
    assert score_alignments(twice, [GoldAlignment(sure, sure)]).precision == 1 / 2
