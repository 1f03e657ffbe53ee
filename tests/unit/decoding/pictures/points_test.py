"""Tests of pictures of labelled points: their content and legibility."""

import itertools

import numpy as np
import pytest

from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.points import save_points
from tests.unit.decoding.pictures.attention_pictures_test import MAGIC, svg_texts

pytest.importorskip("matplotlib")

TWO = {
    "Spanish": (["por", "qué"], np.array([[0, 0], [1, 2]])),
    "English": (["for", "$5_0 what"], np.array([[0, 0.2], [1, 1.9]])),
}


def pairs_of_words(count):
    """Makes words and their translations, with points near each other."""
    generator = np.random.default_rng(1)
    places = generator.normal(size=(count, 2))
    words = [f"palabra{'s' * (i % 7)}{i}" for i in range(count)]
    return {
        "Spanish": (words, places),
        "English": ([f"word{i}" for i in range(count)], places + generator.normal(0, 0.05, (2,))),
    }


@pytest.mark.parametrize("ending", MAGIC)
def test_the_same_points_give_the_same_bytes(tmp_path, ending):
    paths = [tmp_path / f"{name}{ending}" for name in "ab"]
    for path in paths:
        save_points(TWO, path, title="Words")
    assert paths[0].read_bytes().startswith(MAGIC[ending])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_every_label_group_and_the_title_are_written(tmp_path):
    save_points(TWO, tmp_path / "a.svg", title="cost: $5")
    texts = svg_texts(tmp_path / "a.svg")
    assert sorted(texts) == sorted(
        ["cost: $5", "Spanish", "English", "por", "qué", "for", "$5_0 what"]
    )


def drawn(tmp_path, monkeypatch, groups, **options):
    """Draws; returns (boxes of all texts, places of all points, box of the figure) in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    original, found = Figure.savefig, []

    def look(figure, *args, **more):
        original(figure, *args, **more)
        figure.dpi = more["dpi"]
        renderer = FigureCanvasAgg(figure).get_renderer()
        (axes,) = figure.axes
        boxes = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
        heads = [*figure.texts, *figure.legends[0].get_texts()]
        boxes.update({text.get_text(): text.get_window_extent(renderer) for text in heads})
        lines = [line for line in axes.lines if line.get_linestyle() == "None"]
        points = np.concatenate(
            [axes.transData.transform(np.transpose(line.get_data())) for line in lines]
        )
        found.extend((boxes, points, figure.bbox))

    monkeypatch.setattr(Figure, "savefig", look)
    monkeypatch.setattr(figures, "_font_families", lambda text: (["DejaVu Sans"], ""))
    save_points(groups, tmp_path / "a.png", **options)
    return found


@pytest.mark.parametrize("count", [1, 2, 8, 40])
def test_labels_neither_overlap_nor_hide_points_nor_are_cut_off(tmp_path, monkeypatch, count):
    groups = pairs_of_words(count)
    title = "A title that is longer than a small picture is wide"
    boxes, points, picture = drawn(tmp_path, monkeypatch, groups, title=title)
    assert len(boxes) == 2 * count + 3
    for box in boxes.values():
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= picture.x1 and box.y1 <= picture.y1
        assert not any(box.contains(*point) for point in points), box
    for a, b in itertools.combinations(boxes.values(), 2):
        assert not a.overlaps(b), (a, b)


def test_both_axes_have_one_scale_and_points_stand_where_they_are(tmp_path, monkeypatch):
    _, points, _ = drawn(tmp_path, monkeypatch, TWO)
    expected = np.concatenate([places for _, places in TWO.values()])
    scale = np.ptp(points, axis=0) / np.ptp(expected, axis=0)
    np.testing.assert_allclose(scale[0], scale[1])
    np.testing.assert_allclose(points - points[0], (expected - expected[0]) * scale, atol=1e-6)


def test_points_in_one_place_are_drawn(tmp_path):
    save_points({"all": (list("abc"), np.ones((3, 2)))}, tmp_path / "a.svg")
    assert svg_texts(tmp_path / "a.svg") == [*"abc", "all"]


def test_strange_labels_are_spelled_out_and_long_ones_shortened(tmp_path):
    save_points({"a\x0b": (["b\x00", "c" * 99], np.eye(2))}, tmp_path / "a.svg")
    assert svg_texts(tmp_path / "a.svg") == [r"b\x00", "c" * 39 + "…", r"a\x0b"]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "no points"),
        ({"a": ([], np.zeros((0, 2)))}, "no points"),
        ({"a": (["x"], np.zeros((2, 2)))}, r"'a': 1 labels, but points of shape \(2, 2\)"),
        ({"a": (["x"], np.zeros((1, 3)))}, r"\(1, 3\)"),
        ({"a": (["x"], np.array([[0, np.nan]]))}, "not finite"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, groups, message):
    with pytest.raises(ValueError, match=message):
        save_points(groups, tmp_path / "a.svg")
    assert list(tmp_path.iterdir()) == []
