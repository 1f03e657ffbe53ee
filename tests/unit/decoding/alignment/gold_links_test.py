"""Tests of gold links marked on pictures of attention."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from nmt_zoo.decoding.alignment.links import parse_gold
from nmt_zoo.decoding.pictures import attention_pictures, figures
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

pytest.importorskip("matplotlib")

SOURCE, TARGET = ["ein", "Haus", "da", "</s>"], ["a", "house", "</s>"]
MAPS = {f"decoder/{i}/cross": np.full((1, 3, 4), 0.25) for i in range(2)}
GOLD = parse_gold("0-0 1-1 2p1", "gold")


def frames(path):
    """Returns the styles of all frames of an .svg, with the places of their upper left corners."""
    found = []
    for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}path"):
        style = element.get("style", "")
        if figures.LINE_COLOURS[1] in style:
            points = np.array(element.get("d").replace("L", "M").strip(" zM").split("M"))
            corner = np.array([point.split() for point in points], float).min(axis=0)
            found.append(("dasharray" in style, *corner))
    return found


def test_every_link_has_a_frame_on_every_panel_and_one_in_the_key(tmp_path):
    path = tmp_path / "a.svg"
    attention_pictures.save_attention(MAPS, SOURCE, TARGET, path, gold=GOLD)
    dashed = [frame[0] for frame in frames(path)]
    assert dashed.count(False) == 2 * 2 + 1 and dashed.count(True) == 2 * 1 + 1
    assert {"sure", "possible"} <= set(svg_texts(path))


def test_frames_stand_at_the_column_of_the_source_and_the_row_of_the_target(tmp_path):
    path = tmp_path / "a.svg"
    attention_pictures.save_attention(MAPS, SOURCE, TARGET, path, layer=1, gold=GOLD)
    (_, *first), (_, *second), (_, *possible) = frames(path)[:3]
    cell = second[0] - first[0]
    assert cell > 5 and second[1] - first[1] == pytest.approx(cell)
    assert possible == pytest.approx([first[0] + 2 * cell, first[1] + cell])


def test_without_links_nothing_is_marked(tmp_path):
    path = tmp_path / "a.svg"
    attention_pictures.save_attention(MAPS, SOURCE, TARGET, path)
    assert not frames(path) and "sure" not in svg_texts(path)
    attention_pictures.save_attention(MAPS, SOURCE, TARGET, path, gold=parse_gold("", "gold"))
    assert len(frames(path)) == 2  # The key alone has two frames.


@pytest.mark.parametrize(
    ("links", "options", "message"),
    [
        ("4-0", {}, r"link \(4, 0\) is outside"),
        ("0-3", {}, r"link \(0, 3\) is outside"),
        ("0-0", {"kind": "encoder"}, "gold links are of source and target"),
    ],
)
def test_links_that_cannot_be_marked_are_refused(tmp_path, links, options, message):
    maps = {**MAPS, "encoder/0/self": np.full((1, 4, 4), 0.25)}
    with pytest.raises(ValueError, match=message):
        attention_pictures.save_attention(
            maps, SOURCE, TARGET, tmp_path / "a.svg", gold=parse_gold(links, "gold"), **options
        )
    assert not list(tmp_path.iterdir())
