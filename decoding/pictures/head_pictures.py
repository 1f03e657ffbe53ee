"""Pictures of the summaries of attention heads: which heads align, and what the others look at."""

import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.decoding.alignment.head_summaries import KINDS, Head
from nmt_zoo.decoding.alignment.head_tables import best_of
from nmt_zoo.decoding.pictures.figures import (
    LINE_COLOURS,
    check_path,
    check_size,
    colour_map,
    printable,
    save,
    style,
    text_widths,
)
from nmt_zoo.decoding.pictures.label_layout import MARGIN, wrap

_FONT_SIZE = 8
_CELL = np.array([0.42, 0.24])  # inches; a cell holds a number of four characters
_LEFT, _TOP, _GAP = 0.3, 0.6, 0.2  # inches, around the cells of a panel
_DPI = 150


class _Panel(NamedTuple):
    name: str
    values: np.ndarray  # [layers, heads]
    layers: list[int]
    heads: list[str]
    scale: float | None  # value of the darkest colour, None: the largest value
    best: tuple[int, int] | None  # (row, column) to frame


def save_heads(heads: Sequence[Head], path: str | os.PathLike, *, title: str) -> None:
    """Draws the summaries of heads: a row of panels per kind of attention, a panel per measure.

    A panel has a row per layer and a column per head; every cell holds its number. The head that
    aligns best has a frame.

    Args:
        heads: from `head_summaries.summarise_heads`.
        path: file to write, ending in .png, .svg or .pdf.
        title: a line above the picture.

    Raises:
        ValueError: the file ending is unknown, or a .png would be too large.
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    ending = check_path(path)
    title = printable(title)
    rows = [_panels(kind, list(g), best_of(heads)) for kind, g in itertools.groupby(heads, _kind)]
    with style([title, *(panel.name for row in rows for panel in row)], ending):
        sizes = [[_size(panel) for panel in row] for row in rows]
        body = max(sum(width for width, _ in row) for row in sizes)
        width = 2 * MARGIN + max(body, 4)
        title = wrap(title, _FONT_SIZE + 2, width - 2 * MARGIN)
        title_height = (title.count("\n") + 1) * 1.3 * (_FONT_SIZE + 2) / 72
        height = 2 * MARGIN + title_height + sum(row[0][1] for row in sizes)
        check_size((width, height), ending, _DPI)
        figure = Figure(figsize=(width, height))
        place = {"fontsize": _FONT_SIZE + 2, "verticalalignment": "top"}
        figure.text(MARGIN / width, 1 - MARGIN / height, title, **place)
        top = height - MARGIN - title_height
        for row, row_sizes in zip(rows, sizes, strict=True):
            left = MARGIN
            for panel, size in zip(row, row_sizes, strict=True):
                _draw(figure, panel, left + _LEFT, top - _TOP, (width, height))
                left += size[0]
            top -= row_sizes[0][1]
        save(figure, path, _DPI)


def _kind(head: Head) -> str:
    return head.kind


def _panels(kind: str, heads: list[Head], best: Head | None) -> list[_Panel]:
    """Returns the panels of one kind of attention, from its heads by layer."""
    layers = list(dict.fromkeys(head.layer for head in heads))
    names = list(dict.fromkeys(str(head.head) for head in heads))
    measures = {
        "entropy (nats)": ([head.entropy for head in heads], None),
        "distance (share of length)" if kind == "cross" else "distance (tokens)": (
            [head.distance for head in heads],
            None,
        ),
        "share on <s>" if kind == "decoder" else "share on </s>": ([h.share for h in heads], 1.0),
    }
    if heads[0].score:
        measures["AER"] = ([head.score.aer for head in heads], 1.0)
    panels = []
    for name, (values, scale) in measures.items():
        frame = divmod(heads.index(best), len(names)) if name == "AER" else None
        values = np.reshape(values, [len(layers), len(names)])
        name = f"{KINDS[kind]}\n{name}" if not panels else f"\n{name}"
        panels.append(_Panel(name, values, layers, names, scale, frame))
    return panels


def _size(panel: _Panel) -> tuple[float, float]:
    """Returns width and height of a panel with its labels, in inches."""
    cells = np.array(panel.values.shape[::-1]) * _CELL
    name = 1.15 * text_widths(panel.name.split("\n"), _FONT_SIZE).max() if panel.name else 0
    return max(_LEFT + cells[0], name) + _GAP, _TOP + cells[1] + _GAP


def _draw(figure: Any, panel: _Panel, left: float, top: float, whole: tuple[float, float]) -> None:
    """Draws a panel whose cells begin at a place from the lower left of a picture, in inches."""
    from matplotlib.patches import Rectangle

    num_layers, num_heads = panel.values.shape
    width, height = _CELL * [num_heads, num_layers]
    box = left / whole[0], (top - height) / whole[1], width / whole[0], height / whole[1]
    axes = figure.add_axes(box)
    scale = panel.scale or max(float(panel.values.max()), 1e-9)
    axes.imshow(panel.values, cmap=colour_map(), vmin=0, vmax=scale, aspect="auto")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2, labelsize=_FONT_SIZE)
    axes.set_xticks(range(num_heads), panel.heads)
    axes.set_yticks(range(num_layers), map(str, panel.layers))
    for (row, column), value in np.ndenumerate(panel.values):
        colour = "white" if value > 0.5 * scale else "black"
        place = {"ha": "center", "va": "center", "fontsize": _FONT_SIZE, "color": colour}
        axes.text(column, row, _short(value), **place)
    if panel.best:
        row, column = panel.best
        for line in ({"edgecolor": "white", "linewidth": 3}, {"edgecolor": LINE_COLOURS[1]}):
            look = {"facecolor": "none", "linewidth": 1.6, **line}
            axes.add_patch(Rectangle((column - 0.46, row - 0.43), 0.92, 0.86, **look))
    axes.annotate(
        panel.name,
        (0, 1),
        xycoords="axes fraction",
        xytext=(-72 * _LEFT, 14),
        textcoords="offset points",
        verticalalignment="bottom",
        fontsize=_FONT_SIZE,
        fontweight="bold",
    )


def _short(value: float) -> str:
    """Returns a number of at most four characters."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
