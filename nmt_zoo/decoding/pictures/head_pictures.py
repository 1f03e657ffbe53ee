"""Pictures of the summaries of attention heads: which heads align, and what the others look at."""

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.decoding.alignment.head_summaries import (
    KINDS,
    Head,
    best_of,
)
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.panels import Panel, draw_panels

_FONT_SIZE = 8
_CELL = (0.42, 0.24)  # inches; a cell holds a number of four characters
_DPI = 150


class _Table(NamedTuple):
    name: str
    values: np.ndarray  # [layers, heads]
    layers: list[int]
    heads: list[str]
    scale: float | None  # value of the darkest colour, None: the largest value
    best: tuple[int, int] | None  # (row, column) to frame


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
    rows = [_tables(kind, list(group), best_of(heads)) for kind, group in kinds]
    with figures.style([title, *(table.name for row in rows for table in row)], ending):
        panels = [[_panel(table) for table in row] for row in rows]
        figures.save(draw_panels(panels, title, _FONT_SIZE + 2), path, _DPI)


def _tables(kind: str, heads: list[Head], best: Head | None) -> list[_Table]:
    """Returns the numbers of one kind of attention, from its heads by layer."""
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
    tables = []
    for name, (values, scale) in measures.items():
        frame = divmod(heads.index(best), len(names)) if name == "AER" else None
        values = np.reshape(values, [len(layers), len(names)])
        name = f"{KINDS[kind]}\n{name}" if not tables else f"\n{name}"
        tables.append(_Table(name, values, layers, names, scale, frame))
    return tables


def _panel(table: _Table) -> Panel:
    num_layers, num_heads = table.values.shape
    scale = table.scale or max(float(table.values.max()), 1e-9)

    def draw(axes, shown):
        axes.imshow(table.values, cmap=figures.colour_map(), vmin=0, vmax=scale, aspect="auto")
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=2, labelsize=_FONT_SIZE)
        axes.set_xticks(range(num_heads), table.heads)
        axes.set_yticks(range(num_layers), map(str, table.layers))
        axes.set_title(table.name, loc="left", fontsize=_FONT_SIZE, fontweight="bold")
        for (row, column), value in np.ndenumerate(table.values):
            colour = "white" if value > 0.5 * scale else "black"
            place = {"ha": "center", "va": "center", "fontsize": _FONT_SIZE, "color": colour}
            axes.text(column, row, _short(value), **place)
        if table.best:
            row, column = table.best
            corner = (column - 0.46, row - 0.43)
            figures.frame(axes, corner, 0.92, 0.86, edgecolor=figures.LINE_COLOURS[1])

    return Panel((_CELL[0] * num_heads, _CELL[1] * num_layers), draw)


def _short(value: float) -> str:
    """Returns a number of at most four characters."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
