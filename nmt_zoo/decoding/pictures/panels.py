"""A grid of panels whose bodies have fixed sizes, so that a picture grows with what it shows."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.decoding.pictures.figures import text_widths, widened

_MARGIN, _GAP = 0.16, 0.32  # inches
_MEASURE_DPI = 288  # Fine enough not to be rounded to pixels.


class Panel(NamedTuple):
    """A part of a picture."""

    size: tuple[float, float]  # Width and height in inches, without the labels around it.
    # Draws on matplotlib's axes, with all labels. Each label is passed through the second argument.
    draw: Callable[[Any, Callable[[str], str]], None]


def draw_panels(rows: Sequence[Sequence[Panel]], title: str, font_size: float) -> Any:
    """Returns a matplotlib figure of panels in rows and columns, below a title.

    Every panel is drawn and measured before it gets its place, so that no label is cut off, shrunk
    or drawn over another panel. Rows may differ in length; long lines of the title are wrapped;
    `font_size` is the title's, in points.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1), dpi=_MEASURE_DPI)
    grid = np.zeros([len(rows), max(map(len, rows)), 6])
    every = {}
    for row, panels in enumerate(rows):
        for column, panel in enumerate(panels):
            axes = every[row, column] = figure.add_axes((0, 0, *panel.size))
            grid[row, column] = [*_around(panel, axes), *panel.size]
    # Whole pixels at 75, 150 or 300 dpi, so that lines and cells meet exactly.
    left, top, right, bottom, widths, heights = np.moveaxis(np.ceil(grid * 75 - 1e-6) / 75, 2, 0)
    pitches = left.max(axis=0) + (widths + right).max(axis=0) + _GAP
    steps = top.max(axis=1) + (heights + bottom).max(axis=1) + _GAP
    width = 2 * _MARGIN + max(pitches.sum() - _GAP, 4 if title else 0)
    lines = [_wrapped(line, font_size, width - 2 * _MARGIN) for line in title.split("\n")]
    title = "\n".join(lines)
    above = _MARGIN + (np.ceil((title.count("\n") + 1.4) * font_size * 1.25) / 75 if title else 0)
    height = above + steps.sum() - _GAP + _MARGIN
    figure.set_size_inches(width, height)
    place = _MARGIN / width, 1 - _MARGIN / height
    figure.text(*place, title, fontsize=font_size, verticalalignment="top")
    xs = _MARGIN + np.cumsum(pitches) - pitches + left.max(axis=0)
    tops = above + np.cumsum(steps) - steps + top.max(axis=1)
    for (row, column), axes in every.items():
        size = rows[row][column].size
        box = np.array([xs[column], height - tops[row] - size[1], *size])
        axes.set_position(box / [width, height, width, height])
    return figure


def _around(panel, axes):
    """Draws a panel, and returns the room for its labels on each side, in inches."""
    from matplotlib.figure import Figure

    labels = []
    panel.draw(axes, lambda label: labels.append(label) or label)
    room = _room(panel, axes)
    if any(widened(label) != label for label in labels):
        wide = Figure(figsize=(1, 1), dpi=_MEASURE_DPI).add_axes((0, 0, *panel.size))
        panel.draw(wide, widened)
        room = np.maximum(room, _room(panel, wide))
    return room


def _room(panel, axes):
    """Measures the room on the left, above, on the right and below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    box = axes.get_tightbbox(FigureCanvasAgg(axes.figure).get_renderer())
    x0, y0, x1, y1 = np.array(box.extents) / _MEASURE_DPI
    return np.maximum([-x0, y1 - panel.size[1], x1 - panel.size[0], -y0], 0)


def _wrapped(text, font_size, width):
    needed = text_widths([text], font_size)[0]
    if needed <= width:
        return text
    return textwrap.fill(text, max(1, int(0.9 * len(text) * width / needed)))
