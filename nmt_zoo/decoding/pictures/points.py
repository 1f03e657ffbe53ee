"""Pictures of labelled points in the plane, such as words placed by their embeddings."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.decoding.pictures import figures

_FONT_SIZE = 8
_LINE = 1.2 * _FONT_SIZE / 72  # inches, the height of a label
_MARKERS = "os^Dv"
_MARKER = 0.04  # inches, half the width of a point
_HEAD = 0.32  # inches, for the title, and again for the legend
_RADII = (0.07, 0.2, 0.35, 0.55, 0.8, 1.1, 1.5)  # inches from a point to its label
_ALIGNMENT = {1: "left", 0: "center", -1: "right"}


class _Label(NamedTuple):
    box: np.ndarray  # left, bottom, right, top in inches
    direction: int  # 1: right of the point, -1: left of it, 0: above or below
    is_far: bool  # whether the label is so far from its point that a line must join them


def save_points(
    groups: Mapping[str, tuple[Sequence[str], np.ndarray]],
    path: str | os.PathLike,
    *,
    title: str | None = None,
) -> None:
    """Draws groups of labelled points, each group in its colour, with one scale for both axes.

    Labels are beside their points if there is room, otherwise farther away and joined by a line. If
    there is no room at all, they overlap as little as possible. The picture grows with the number
    of points. `groups` are name -> (n labels, their points `[n, 2]`); labels of over 40 characters
    are shortened. `path` ends in .png, .svg or .pdf.
    Raises ValueError: the file ending is unknown, there are no points, labels and points differ in
    number, a point is not finite, or a .png would be too large.
    Raises UserError: the file cannot be written.

    Example:
        >>> save_points({"Spanish": (["por", "qué"], np.array([[0, 0], [1, 2]])),
        ...              "English": (["for", "what"], np.array([[0, 0.2], [1, 1.9]]))}, "words.svg")
    """
    ending = figures.check_path(path)
    _check(groups)
    title = figures.printable(" ".join((title or "").split()))
    names = [figures.printable(name) for name in groups]
    texts = [figures.shorten(label) for labels, _ in groups.values() for label in labels]
    with figures.style([*texts, *names, title], ending):
        points = np.concatenate([points for _, points in groups.values()])
        figure = _draw(points, texts, [len(labels) for labels, _ in groups.values()], names, title)
        figures.save(figure, path, dpi=150)


def _check(groups: Mapping[str, tuple[Sequence[str], np.ndarray]]) -> None:
    if not any(len(labels) for labels, _ in groups.values()):
        raise ValueError("there are no points to draw")
    for name, (labels, points) in groups.items():
        shape = np.shape(points)
        if shape != (len(labels), 2):
            raise ValueError(f"group {name!r}: {len(labels)} labels, but points of shape {shape}")
        if not np.isfinite(points).all():
            raise ValueError(f"group {name!r}: a point is not finite")


def _draw(
    points: np.ndarray, texts: list[str], counts: list[int], names: list[str], title: str
) -> Any:
    """Returns the matplotlib figure; `counts` are the numbers of points of the groups."""
    from matplotlib.figure import Figure

    widths = figures.text_widths(texts, _FONT_SIZE)
    places, size = _to_inches(points, widths.max())
    legend_width = figures.text_widths(names, 10).sum() + 0.6 * len(names)
    width = max(size[0], legend_width, figures.text_widths([title], 11)[0] + 0.2)
    height = size[1] + _HEAD * (1 + bool(title))
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, size[0] / width, size[1] / height))
    axes.set(xlim=(0, size[0]), ylim=(0, size[1]), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    group = np.repeat(np.arange(len(counts)), counts)
    handles = []
    for index in range(len(counts)):
        # A different marker for each group, too, for readers who cannot tell the colours apart.
        look = {"marker": _MARKERS[index % len(_MARKERS)], "color": _colour(index)}
        handles += axes.plot(*places[group == index].T, linestyle="", markersize=4, **look)
    labels = _place_labels(places, widths, size)
    for text, place, label, index in zip(texts, places, labels, group, strict=True):
        _draw_label(axes, text, place, label, _colour(index))
    if title:
        figure.text(0.1 / width, 1 - 0.06 / height, title, fontsize=11, verticalalignment="top")
    figure.legend(
        handles,
        names,
        loc="upper left",
        bbox_to_anchor=(0, 1 - _HEAD * bool(title) / height),
        ncols=len(names),
        frameon=False,
        fontsize=10,
        borderaxespad=0.2,
    )
    return figure


def _colour(index: int) -> str:
    return figures.LINE_COLOURS[index % len(figures.LINE_COLOURS)]


def _to_inches(points: np.ndarray, widest: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the points, from the lower left, and the size of the picture."""
    points = np.asarray(points, np.float64)
    spread = np.ptp(points, axis=0)
    side = np.clip(0.9 * np.sqrt(len(points)), 2.5, 16)
    scale = side / spread.max() if spread.max() > 0 else 1.0
    margin = np.array([widest + 0.2, 0.3])  # room for a label on every side
    return (points - points.min(axis=0)) * scale + margin, spread * scale + 2 * margin


def _place_labels(places: np.ndarray, widths: np.ndarray, size: np.ndarray) -> list[_Label]:
    """Chooses the nearest free place around its point for each label in turn; all in inches."""
    count = len(places)
    # Boxes that are taken: all points, and then the labels placed so far.
    taken = np.concatenate([places - _MARKER, places + _MARKER], axis=1)
    angles = np.arange(16) * np.pi / 8
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    radii, directions = np.repeat(_RADII, 16), np.tile(directions, (len(_RADII), 1))
    labels = []
    for index in range(count):
        half = np.array([widths[index] + 0.02, _LINE]) / 2
        centres = places[index] + directions * (radii[:, None] + half)
        boxes = np.concatenate([centres - half, centres + half], axis=1)
        outside = np.maximum(0, [-boxes[:, :2], boxes[:, 2:] - size]).sum(axis=(0, 2))
        # Any overlap is worse than any distance.
        cost = 1e6 * (_overlaps(boxes, taken) + outside) + radii
        best = int(cost.argmin())
        taken = np.concatenate([taken, boxes[best : best + 1]])
        right, left = boxes[best, 0] > places[index, 0], boxes[best, 2] < places[index, 0]
        is_far = bool(radii[best] > _RADII[0])
        labels.append(_Label(boxes[best], int(right) - int(left), is_far))
    return labels


def _overlaps(boxes: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Returns the area that each of `[c, 4]` boxes shares with `[m, 4]` taken boxes, `[c]`."""
    low = np.maximum(boxes[:, None, :2], taken[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], taken[None, :, 2:])
    return np.maximum(high - low, 0).prod(axis=2).sum(axis=1)


def _draw_label(axes, text: str, place: np.ndarray, label: _Label, colour: str) -> None:
    left, bottom, right, top = label.box
    x = {1: left, 0: (left + right) / 2, -1: right}[label.direction]
    if label.is_far:
        end = np.clip(place, label.box[:2], label.box[2:])
        axes.plot(*zip(place, end, strict=True), color="#999999", linewidth=0.5, zorder=1)
    axes.text(
        x,
        (bottom + top) / 2,
        text,
        color=colour,
        fontsize=_FONT_SIZE,
        horizontalalignment=_ALIGNMENT[label.direction],
        verticalalignment="center",
    )
