"""Pictures of the architecture of a model: boxes for its parts, from its input upwards.

The source side is the left column, the target side the right one.
"""

import itertools
import os
import textwrap
from collections.abc import Sequence
from typing import Any

from nmt_zoo import models
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.models.architecture import Architecture, Part, describe

_COLOURS = {
    "input": "#f2f2f2",
    "embedding": "#fbdcc0",
    "attention": "#f6c6cc",
    "recurrent": "#c9e5c5",
    "layer": "#c5dcf2",
    "table": "#e6d3ba",
    "output": "#d9cdee",
}
_LINE, _EDGE = "#444444", "#777777"
# Inches. Narrow, so that text is legible where a page is as wide as a phone.
_COLUMN, _GUTTER, _MARGIN, _PAD, _GAP, _ROW = 2.6, 0.4, 0.15, 0.08, 0.22, 0.165
_FONT_SIZE, _CHARACTERS = 9, 36  # of a line in a box
_DPI = 150
# Sizes of a preset without a text: the pieces of Vaswani et al. 2017, and entries of a table.
_EXAMPLE_VOCABULARY, _EXAMPLE_TABLE = 37_000, 1_000_000


def save_architecture(
    architecture: Architecture,
    path: str | os.PathLike,
    *,
    title: str,
    notes: Sequence[str] = (),
) -> None:
    """Draws the parts of a model, from its input at the bottom to its prediction at the top.

    Each box has the title of a part, what it computes, the shapes of its weights and the number of
    its parameters.

    Args:
        architecture: of `models.architecture.describe`.
        path: ends in .png, .svg or .pdf.
        title: name of the model.
        notes: lines below the title.
    Raises UserError: the file ending is unknown, a .png would be too large, or the file cannot be
    written.

    Example:
        >>> save_architecture(describe(create("ibm1", 90, 90)), "ibm1.svg", title="ibm1")
    """
    from matplotlib.figure import Figure

    ending = figures.check_path(path)
    sides = [side for side in architecture if side]
    heads = [title, f"{architecture.parameters:,} parameters", *notes]
    width = max(len(sides) * (_COLUMN + _GUTTER) - _GUTTER, 1.5 * _COLUMN)
    rows = [row for text in heads for row in textwrap.wrap(text, int(15 * width))]
    texts = [row for part in itertools.chain(*sides) for row in _rows(part)]
    with figures.style([*rows, *texts], ending):
        figure = Figure()
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        tops = []
        for number, side in enumerate(sides):
            top, readers = _draw_side(axes, side, number * (_COLUMN + _GUTTER))
            for low in readers if number else ():
                x = _COLUMN + _GUTTER / 2
                points = [(_COLUMN, tops[0] - _ROW), (x, tops[0] - _ROW), (x, low)]
                _draw_arrow(axes, [*points, (_COLUMN + _GUTTER, low)])
            tops.append(top)
        top = max(tops) + _GAP + _ROW * len(rows)
        for number, row in enumerate(rows):
            weight = "normal" if number else "bold"
            axes.text(0, top - _ROW * number, row, va="top", fontsize=_FONT_SIZE, weight=weight)
        axes.set(xlim=(-_MARGIN, width + _MARGIN), ylim=(-_MARGIN, top + _MARGIN))
        figure.set_size_inches(width + 2 * _MARGIN, top + 2 * _MARGIN)
        figures.save(figure, path, _DPI)


def _draw_side(axes: Any, parts: Sequence[Part], x: float) -> tuple[float, list[float]]:
    """Draws a column; returns its upper edge, and the heights of parts that read the source."""
    y, readers, ends = 0.0, [], []
    for frame, group in itertools.groupby(parts, key=lambda part: part.frame):
        bottom = y
        y += (_PAD + _ROW) * bool(frame)
        for part in group:
            rows = _rows(part)
            height = _ROW * len(rows) + 2 * _PAD
            inset = _PAD * bool(frame)
            _draw_box(axes, (x + inset, y), _COLUMN - 2 * inset, height, _COLOURS[part.kind])
            for number, row in enumerate(rows):
                centre = x + _COLUMN / 2, y + height - _PAD - (number + 0.5) * _ROW
                look = {"weight": "normal" if number else "bold", "va": "center_baseline"}
                axes.text(*centre, row, ha="center", fontsize=_FONT_SIZE, **look)
            ends += [y, y + height]
            readers += [y + height / 2] * part.reads_source
            y += height + _GAP
        if frame:
            y += _PAD
            _draw_box(axes, (x, bottom), _COLUMN, y - _GAP - bottom, "white", zorder=0)
            axes.text(x + _PAD, bottom + _PAD / 2, frame, fontsize=_FONT_SIZE, style="italic")
    for low, high in zip(ends[1::2], ends[2::2], strict=False):
        _draw_arrow(axes, [(x + _COLUMN / 2, low), (x + _COLUMN / 2, high)])
    return y - _GAP, readers


def _rows(part: Part) -> list[str]:
    """Returns the lines of text of a part."""
    count = (f"{part.parameters:,} parameters",) if part.parameters else ()
    rows = (textwrap.wrap(line, _CHARACTERS) for line in (*part.lines, *count))
    return [part.title, *itertools.chain(*rows)]


def _draw_box(axes, corner, width, height, colour, zorder=1):
    from matplotlib.patches import FancyBboxPatch

    look = {"facecolor": colour, "edgecolor": _EDGE, "linewidth": 0.7, "zorder": zorder}
    shape = "round,pad=0,rounding_size=0.05"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, **look))


def _draw_arrow(axes, points):
    """Draws an arrow along points."""
    look = {"color": _LINE, "linewidth": 1.0, "zorder": 2}
    axes.plot(*zip(*points[:-1], strict=True), **look)
    arrow = {"arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0, **look}
    axes.annotate("", points[-1], points[-2], arrowprops=arrow)


def save_preset(preset: str, settings: dict[str, Any], path: str | os.PathLike) -> None:
    """Draws a preset with vocabularies and tables of an example's size, without making weights.

    `settings` are those that differ from the preset's. Errors as of `save_architecture` and
    `models.create`.
    """
    sizes = dict.fromkeys(models.model_class(preset).corpus_sizes, _EXAMPLE_TABLE)
    model = models.sketch(preset, *[_EXAMPLE_VOCABULARY] * 2, **sizes, **settings)
    changed = [f"{name}={value}" for name, value in settings.items()]
    tables = f", tables of {_EXAMPLE_TABLE:,}" if sizes else ""
    notes = [
        origin_of(preset),
        *([f"with {', '.join(changed)}"] if changed else []),
        f"for example: vocabularies of {_EXAMPLE_VOCABULARY:,} words{tables}",
    ]
    save_architecture(describe(model), path, title=preset, notes=notes)


def origin_of(preset: str) -> str:
    """Returns which paper a preset follows, without the published score."""
    return {**models.PRESETS, **models.LANGUAGE_MODELS}[preset][2].partition(";")[0]
