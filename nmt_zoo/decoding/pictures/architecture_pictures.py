"""Pictures of the architecture of a model: boxes for its parts, arrows for what reads what.

The source side is the left column, the target side the right one; both are read upwards.
"""

import itertools
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt_zoo import models
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.models.architecture import KINDS, Architecture, Part, describe

_COLOURS = dict(
    zip(
        KINDS,
        (
            *("#f2f2f2", "#fbdcc0", "#f6c6cc", "#c9e5c5", "#c5dcf2", "#fbf0b5", "#e6d3ba"),
            *("#bfe6e3", "#d9cdee"),
        ),
        strict=True,
    )
)
_LINE, _BACK = "#444444", "#d55e00"  # arrows up, and arrows to the next position
_TITLE_SIZE, _FONT_SIZE = 10, 9
# Inches. Narrow, so that text is legible where a page is as wide as a phone.
_COLUMN, _GUTTER, _MARGIN = 2.3, 0.3, 0.1
_PAD, _GAP, _LANE, _ROW = 0.06, 0.2, 0.13, 0.165
_DPI = 150
# Sizes of a preset without a text: the pieces of Vaswani et al. 2017, and entries of a table.
_EXAMPLE_VOCABULARY, _EXAMPLE_TABLE = 37_000, 1_000_000
_LETTERS = "S source words, T target words, V vocabulary"
_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+")  # A shape such as [S, 512] stays on one line.


class _Box(NamedTuple):
    """A part with its place in inches, from the lower left."""

    part: Part
    lines: list  # of str, wrapped; the first `num_titles` are the title
    num_titles: int
    x: float
    y: float
    width: float
    height: float
    head: float  # height of the text, at the top

    @property
    def top(self):
        return self.y + self.height

    @property
    def middle(self):
        return self.x + self.width / 2


class _Column:
    """Boxes of one side, in the order in which they are drawn; `outer` is 1 if lanes are right."""

    def __init__(self, parts: Sequence[Part], x: float, outer: int) -> None:
        self.outer, self.boxes, self.paths = outer, [], []
        lanes = 2 * _LANE if any(part.next_step or part.skip for part in parts) else 0
        self.lane_x = x + (_COLUMN - lanes if outer == 1 else lanes)
        self.top, self.flow = self._stack(
            parts, x + (0 if outer == 1 else lanes), 0.0, _COLUMN - lanes
        )

    def _stack(self, parts, x, y, width):
        """Places parts above `y`; returns their upper edge and boxes, containers as one box."""
        flow = []
        for part in parts:
            box = self._inside(part, x, y, width) if part.parts else _box(part, x, y, width)
            self.boxes.append(box)
            flow.append(box)
            y = box.top + _GAP
        return y - _GAP, flow

    def _inside(self, part, x, y, width):
        """Places a part that has parts; a lane beside them is for connections that skip some."""
        inner = width - 2 * _PAD - _LANE
        left = x + _PAD + (0 if self.outer == 1 else _LANE)
        top, flow = self._stack(part.parts, left, y + _GAP + _PAD, inner)
        self._connect(flow)
        head = _box(part, x, top + _PAD, width)
        return head._replace(y=y, height=head.top - y)

    def _connect(self, flow):
        """Adds arrows from each box to the next, and around those that are skipped."""
        for lower, upper in itertools.pairwise(flow):
            if upper.part.skip < 0:
                continue
            # The arrow into a container ends at its first part.
            inner = upper.part.parts
            end = next(box for box in self.boxes if box.part is inner[0]) if inner else upper
            self.paths.append(([(end.middle, lower.top), (end.middle, end.y)], False))
        for index, box in enumerate(flow):
            if box.part.skip:
                start = flow[index - abs(box.part.skip)]
                lane = self._edge(box) + self.outer * _LANE
                low, high = start.y - 0.6 * _GAP, box.y + box.height / 2
                points = [(start.middle, low), (lane, low), (lane, high), (self._edge(box), high)]
                self.paths.append((points, False))

    def _edge(self, box):
        return box.x + box.width * (self.outer == 1)

    def connect(self) -> None:
        """Adds all arrows of the column."""
        self._connect(self.flow)
        first = {}
        for box in self.flow:
            first.setdefault(box.part.title, box)
        for box in self.flow:
            for title in box.part.next_step:
                self._connect_back(box, first[title])

    def _connect_back(self, box, reader):
        """Adds the arrow from a box to the one that reads its output one position later."""
        lane = self.lane_x + self.outer * _LANE * (0.5 if box is reader else 1.6)
        edge, high = self._edge(box), box.y + 0.75 * box.height
        low = reader.y + (0.25 if box is reader else 0.5) * reader.height
        self.paths.append(([(edge, high), (lane, high), (lane, low), (edge, low)], True))


def save_architecture(
    architecture: Architecture,
    path: str | os.PathLike,
    *,
    title: str,
    notes: Sequence[str] = (),
) -> None:
    """Draws the parts of a model, from its input at the bottom to its prediction at the top.

    Each box has the title of a part, what it computes and its number of parameters. Its colour is
    the kind of the part.

    Args:
        architecture: of `models.architecture.describe`.
        path: ends in .png, .svg or .pdf.
        title: name of the model.
        notes: lines below the title.
    Raises ValueError: the file ending is unknown, or a .png would be too large.
    Raises UserError: the file cannot be written.

    Example:
        >>> save_architecture(describe(create("ibm1", 90, 90)), "ibm1.svg", title="ibm1")
    """
    ending = figures.check_path(path)
    texts = [part_text for side in architecture for part in side for part_text in _texts(part)]
    with figures.style([title, *notes, *texts], ending):
        figure = figure_of(architecture, title, notes)
        figures.save(figure, path, figures.check_size(figure.get_size_inches(), ending, _DPI))


def figure_of(architecture: Architecture, title: str, notes: Sequence[str] = ()) -> Any:
    """Returns the picture as matplotlib's figure; arguments as of `save_architecture`."""
    from matplotlib.figure import Figure

    sides = [side for side in architecture if side]
    columns = _columns(sides)
    width = max(len(sides) * (_COLUMN + _GUTTER) - _GUTTER, 2 * _COLUMN)
    name = " ".join(map(figures.shorten, title.split()))  # A path may be long.
    names = _wrapped([name], (_TITLE_SIZE + 2) * 1.12, width)
    head = _wrapped([f"{architecture.parameters:,} parameters", *notes], _FONT_SIZE, width)
    legend = _legend(architecture, width)
    above = max(column.top for column in columns) + _GAP + 0.24 * len(names) + _ROW * len(head)
    below = -_GAP - _ROW * 1.3 * (legend[-1][1] + 2)
    figure = Figure(figsize=(width + 2 * _MARGIN, above - below + 2 * _MARGIN))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-_MARGIN, width + _MARGIN), ylim=(below - _MARGIN, above + _MARGIN))
    axes.set_axis_off()
    for row, text in enumerate(names):
        look = {"va": "top", "fontsize": _TITLE_SIZE + 2, "weight": "bold"}
        axes.text(0, above - 0.24 * row, text, **look)
    for row, text in enumerate(head):
        y = above - 0.24 * len(names) - row * _ROW
        axes.text(0, y, text, va="top", fontsize=_FONT_SIZE)
    for column in columns:
        _draw_column(axes, column)
    _draw_legend(axes, legend)
    axes.text(0, below, _LETTERS, va="bottom", fontsize=_FONT_SIZE)
    return figure


def _columns(sides):
    """Places the parts of each side, with their arrows."""
    columns = []
    for number, side in enumerate(sides):
        outer = 1 if number == len(sides) - 1 else -1
        columns.append(_Column(side, number * (_COLUMN + _GUTTER), outer))
        columns[-1].connect()
    if len(columns) == 2:
        columns[1].paths += _across(*columns)
    return columns


def _across(source, target):
    """Returns the arrows from the source side to the target side, each from a lane of its own."""
    found = {}
    for box in target.boxes:
        for title in box.part.reads:
            found.setdefault(title, []).append(box)
    paths = []
    for number, (title, readers) in enumerate(found.items(), 1):
        start = next(one for one in source.flow if one.part.title == title)
        lane = _COLUMN + _GUTTER * number / (len(found) + 1)
        high = start.y + 0.6 * min(start.height, 2 * start.head)
        if start.part.parts:  # From its head, beside which no other arrow leaves.
            high = start.top - start.head / 2
        for box in readers:
            order = [one.part.title for one in source.flow if one.part.title in box.part.reads]
            place = (1 + order.index(title)) / (1 + len(order))
            low = box.y + place * box.height
            if abs(high - low) < _PAD and len(readers) == 1:
                high = low  # Straight.
            points = [(start.x + start.width, high), (lane, high), (lane, low), (box.x, low)]
            paths.append((points, False))
    return paths


def _texts(part):
    yield from (part.title, *part.lines, f"{part.repeat} × {part.parameters:,} parameters")
    for inner in part.parts:
        yield from _texts(inner)


def _box(part, x, y, width):
    """Makes the box of the text of a part."""
    room = width - 2 * _PAD
    title = f"{part.repeat} × {part.title}" if part.parts else part.title
    titles = _wrapped([title], _TITLE_SIZE * 1.12, room)  # Bold text is wider.
    lines = [*titles, *_wrapped([*part.lines, *_counts(part)], _FONT_SIZE, room)]
    height = _ROW * len(lines) + 2 * _PAD
    return _Box(part, lines, len(titles), x, y, width, height, height)


def _counts(part):
    """Returns the line on the number of parameters of a part; empty if it has none."""
    one = sum(inner.parameters for inner in part.parts)
    if part.parts and part.parameters == part.repeat * one:
        return [f"{part.repeat} × {one:,} parameters"]
    return [f"{part.parameters:,} parameters"] if part.parameters else []


def _wrapped(lines, font_size, width):
    """Divides lines at spaces outside of brackets so that each is at most `width` inches wide."""
    words = [word for line in lines for word in _WORD.findall(line)]
    widths = dict(zip(words, figures.text_widths(words, font_size), strict=True))
    space = 0.32 * font_size / 72
    found = []
    for line in lines:
        used = width
        for number, word in enumerate(_WORD.findall(line)):
            if number and used + space + widths[word] <= width:
                found[-1] += f" {word}"
                used += space + widths[word]
            else:
                found.append(word)
                used = widths[word]
    return found


def _draw_column(axes, column):
    from matplotlib.patches import FancyBboxPatch, Rectangle

    for box in sorted(column.boxes, key=lambda box: not box.part.parts):  # Containers below.
        look = {"edgecolor": "#777777", "linewidth": 0.7, "zorder": 1}
        corners = {"boxstyle": "round,pad=0,rounding_size=0.05"}
        place = (box.x, box.y), box.width, box.height
        colour = "white" if box.part.parts else _COLOURS[box.part.kind]
        axes.add_patch(FancyBboxPatch(*place, **corners, facecolor=colour, **look))
        if box.part.parts:
            head = (box.x, box.top - box.head), box.width, box.head
            axes.add_patch(Rectangle(*head, facecolor="#e4e4e4", **look))
        for row, text in enumerate(box.lines):
            is_title = row < box.num_titles
            axes.text(
                *(box.middle, box.top - _PAD - (row + 0.5) * _ROW, text),
                ha="center",
                va="center_baseline",
                fontsize=_TITLE_SIZE if is_title else _FONT_SIZE,
                weight="bold" if is_title else "normal",
                zorder=3,
            )
    for points, is_back in column.paths:
        _draw_path(axes, points, is_back)


def _draw_path(axes, points, is_back):
    """Draws an arrow along points; `is_back`: to the next position."""
    look = {"color": _BACK if is_back else _LINE, "linewidth": 1.0, "zorder": 2}
    style = {"linestyle": (0, (3, 2))} if is_back else {}
    axes.plot(*zip(*points[:-1], strict=True), solid_capstyle="butt", **look, **style)
    arrow = {"arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0, **look}
    axes.annotate("", points[-1], points[-2], arrowprops=arrow)


def _legend(architecture, width):
    """Returns (kind or "next", row, x) of each entry of the legend."""
    parts = [part for side in architecture for part in side]
    every = [*parts, *(inner for part in parts for inner in part.parts)]
    kinds = [kind for kind in KINDS if any(part.kind == kind for part in every)]
    kinds += ["to the next position"] * any(part.next_step for part in every)
    found, row, x = [], 0, 0.0
    for kind, text in zip(kinds, figures.text_widths(kinds, _FONT_SIZE), strict=True):
        if x + text + 0.3 > width:
            row, x = row + 1, 0.0
        found.append((kind, row, x))
        x += text + 0.45
    return found


def _draw_legend(axes, legend: Any) -> None:
    from matplotlib.patches import Rectangle

    for kind, row, x in legend:
        y = -_GAP - (row + 1) * _ROW * 1.3
        axes.text(x + 0.26, y + 0.05, kind, va="center_baseline", fontsize=_FONT_SIZE)
        if kind in _COLOURS:
            look = {"facecolor": _COLOURS[kind], "edgecolor": "#777777", "linewidth": 0.7}
            axes.add_patch(Rectangle((x, y), 0.2, 0.12, **look))
        else:
            _draw_path(axes, [(x, y + 0.06), (x + 0.02, y + 0.06), (x + 0.22, y + 0.06)], True)


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
