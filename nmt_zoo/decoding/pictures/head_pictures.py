"""Pictures of the summaries of attention heads: which heads align, and what the others look at."""

import itertools
import os
from collections.abc import Sequence

import numpy as np

from nmt_zoo.decoding.alignment.head_summaries import Head, best_of
from nmt_zoo.decoding.alignment.map_names import KINDS
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.figures import Panel, draw_panels

_FONT_SIZE = 8
_CELL = (0.42, 0.24)  # inches; a cell holds a number of four characters
_DPI = 150


def save_heads(heads: Sequence[Head], path: str | os.PathLike, *, title: str) -> None:
    """Draws the summaries of heads: a row of panels per kind of attention, a panel per measure.

    A panel has a row per layer and a column per head; every cell holds its number. The head that
    aligns best has a frame. `path` ends in .png, .svg or .pdf.
    Raises ValueError: the file ending is unknown, or a .png would be too large.
    Raises UserError: the file cannot be written.
    """
    ending = figures.check_path(path)
    title = figures.printable(title)
    kinds = itertools.groupby(heads, lambda head: head.kind)
    with figures.style([title], ending):  # All else is ASCII.
        panels = [_panels(kind, list(group), best_of(heads)) for kind, group in kinds]
        figures.save(draw_panels(panels, title, _FONT_SIZE + 2), path, _DPI)


def _panels(kind, heads, best):
    """Returns the panels of one kind of attention, from its heads by layer."""
    layers = list(dict.fromkeys(head.layer for head in heads))
    numbers = list(dict.fromkeys(str(head.head) for head in heads))
    values = np.reshape([head[3:6] for head in heads], [len(layers), len(numbers), 3])
    names = [
        f"{KINDS[kind]}\nentropy (nats)",
        "\ndistance (share of length)" if kind == "cross" else "\ndistance (tokens)",
        "\nshare on <s>" if kind == "decoder" else "\nshare on </s>",
    ]
    scales = [max(float(values[..., i].max()), 1e-9) for i in (0, 1)]
    axes = layers, numbers
    panels = [
        _panel(name, values[..., i], axes, scale)
        for i, (name, scale) in enumerate(zip(names, [*scales, 1.0], strict=True))
    ]
    if heads[0].score:
        rates = np.reshape([head.score.aer for head in heads], values.shape[:2])
        frame = divmod(heads.index(best), len(numbers))
        panels.append(_panel("\nAER", rates, axes, 1.0, frame))
    return panels


def _panel(name, values, labels, scale, frame=None):
    """Returns the panel of a measure, `[layers, heads]`; `scale` has the darkest colour.

    `labels` are of the layers and heads; `frame` is the (row, column) of a cell to frame.
    """

    def draw(axes, shown):
        axes.imshow(values, cmap=figures.colour_map(), vmin=0, vmax=scale, aspect="auto")
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=2, labelsize=_FONT_SIZE)
        axes.set_xticks(range(len(labels[1])), labels[1])
        axes.set_yticks(range(len(labels[0])), map(str, labels[0]))
        axes.set_title(name, loc="left", fontsize=_FONT_SIZE, fontweight="bold")
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value > 0.5 * scale else "black"
            look = {"ha": "center", "va": "center", "fontsize": _FONT_SIZE, "color": colour}
            axes.text(column, row, _short(value), **look)
        if frame:
            corner = (frame[1] - 0.46, frame[0] - 0.43)
            figures.frame(axes, corner, 0.92, 0.86, edgecolor=figures.LINE_COLOURS[1])

    return Panel((_CELL[0] * len(labels[1]), _CELL[1] * len(labels[0])), draw)


def _short(value: float) -> str:
    """Returns a number of at most four characters."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
