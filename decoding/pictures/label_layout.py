"""Lays out the parts of a picture of attention.

Sizes are computed in inches from measured text before anything is drawn, so the figure grows with
the sentence, and no label is cut off, shrunk or drawn over another label.
"""

import math
import textwrap
from typing import NamedTuple

import numpy as np

from nmt_zoo.decoding.pictures.figures import text_widths

MARGIN, PAD = 0.16, 0.05  # inches
_GAP = 0.32  # inches
BAR_WIDTH, BAR_SPACE = 0.13, 0.65  # inches; the space is for the bar's ticks and name
KEY_HEIGHT = 0.55  # inches, below the bar


class Layout(NamedTuple):
    """Places and sizes of all parts of a picture; lengths in inches, font size in points."""

    font_size: float
    width: float
    height: float
    title: str
    boxes: list[tuple[float, float, float, float]]  # of each panel: left, top, width, height
    bar_height: float
    name_offset: float  # of a panel's name above the panel
    title_offset: float  # of the title of the rows to the left of the panel


def lay_out(
    labels: tuple[list[str], list[str]],
    titles: tuple[str, str],
    names: list[str],
    row_length: int,
    title: str,
    has_key: bool,
) -> Layout:
    """Computes the places and sizes of all parts.

    Args:
        labels: of the rows, on the left of every panel, and of the columns, above it.
        titles: of the rows, and of the columns.
        names: names of the panels; empty for panels without a name.
        row_length: number of panels side by side.
        title: lines above the picture, or empty; long lines are wrapped.
        has_key: whether a key to the marks is below the bar.
    """
    rows, columns = labels
    # A line of text is 1.2 times as high as its font size. Cells must be sqrt(2) times as wide as
    # that, 0.19 inches at 8 points, so that lines at 45 degrees do not touch.
    cell = _snap(float(np.clip(3.5 / max(len(rows), len(columns)), 0.2, 0.4)))
    font_size = 8 + 10 * (cell - 0.2)
    line = 1.2 * font_size / 72
    slant = math.sqrt(0.5)
    lengths = text_widths(columns, font_size)
    overhang = lengths * slant - (len(columns) - 0.5 - np.arange(len(columns))) * cell
    axis_title = line + 2 * PAD  # To the left of the rows, and below the columns.
    left = _snap(text_widths(rows, font_size).max() + PAD + axis_title)
    right = max(0, overhang.max() + slant * line)
    name_height = 2 * line if any(names) else 0
    top = _snap(name_height + (lengths.max() + line) * slant + PAD)
    body = cell * len(columns), cell * len(rows)
    name_width = 1.2 * text_widths(names, font_size).max()  # names are bold
    name_width = max(name_width, text_widths(titles, font_size)[1])
    pitch_x = _snap(left + max(body[0] + right, name_width) + _GAP)
    pitch_y = _snap(top + body[1] + axis_title + _GAP)

    num_rows = math.ceil(len(names) / row_length)
    width = 2 * MARGIN + pitch_x * row_length + BAR_WIDTH + BAR_SPACE
    if title:
        width = max(width, 4)
        wrapped = (wrap(part, font_size + 2, width - 2 * MARGIN) for part in title.split("\n"))
        title = "\n".join(wrapped)
    title_height = _snap((title.count("\n") + 1.4) * (font_size + 2) * 1.2 / 72) if title else 0
    bar_height = float(np.clip(pitch_y * num_rows - top - _GAP, 1.2, 3))
    beside = top + bar_height + KEY_HEIGHT * has_key
    height = 2 * MARGIN + title_height + max(pitch_y * num_rows - _GAP, beside)
    boxes = [
        (
            MARGIN + index % row_length * pitch_x + left,
            MARGIN + title_height + index // row_length * pitch_y + top,
            *body,
        )
        for index in range(len(names))
    ]
    return Layout(font_size, _snap(width), _snap(height), title, boxes, bar_height, top, left)


def _snap(length: float) -> float:
    """Rounds up to whole pixels at 75, 150 or 300 dpi, so that lines and cells meet exactly."""
    return math.ceil(length * 75 - 1e-6) / 75


def wrap(text: str, font_size: float, width: float) -> str:
    """Breaks a text of a font size in points into lines of at most about a width in inches."""
    needed = text_widths([text], font_size)[0]
    if needed <= width:
        return text
    return textwrap.fill(text, max(1, int(0.9 * len(text) * width / needed)))
