"""What pictures share: fonts, style and atomic writing of files; and the curves of training.

Only matplotlib's object interface is used: no display is needed and no global figure is left open.
"""

import contextlib
import functools
import itertools
import logging
import math
import os
import sys
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import atomic_path, check_writable

# No date and no version: the same input gives the same bytes.
_METADATA = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# White is exactly zero; the lightness then falls in proportion to the weight, in grey print, too.
_COLOURS = [(0, "#ffffff"), (0.18, "#c6dbef"), (0.4, "#6baed6"), (0.68, "#2171b5"), (1, "#08306b")]
# Embeddings, overrides and isolates of the bidirectional algorithm: invisible, but they reorder.
_REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_MAX_LENGTH = 40  # characters of a token
_FINE_DPI = 288  # Measures are not rounded to pixels.
_MARGIN, _GAP = 0.16, 0.32  # inches
_MIN_DPI, _MAX_PIXELS = 72, 60e6  # 8 pt text is still readable; 240 MB of canvas


def colour_map() -> Any:
    """Returns matplotlib's colour map of weights: white is 0, and more is darker."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", _COLOURS)


def text_widths(texts: Sequence[str], font_size: float) -> np.ndarray:
    """Returns the width in inches of each text, on one line, in the font of the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=_FINE_DPI)
    renderer = FigureCanvasAgg(figure).get_renderer()
    artists = [figure.text(0, 0, widened(text), fontsize=font_size) for text in texts]
    return np.array([text.get_window_extent(renderer).width / figure.dpi for text in artists])


def widened(text: str) -> str:
    """Replaces wide characters by a Latin one as wide as they are, one em.

    An .svg viewer may have the Chinese or Japanese font that is missing here.
    """
    return "".join("W" if unicodedata.east_asian_width(c) in "WF" else c for c in text)


def shorten(token: str) -> str:
    """Returns at most 40 printable characters of a token; "▁", a heavy block, is a thin "_"."""
    token = printable(token).replace("▁", "_")
    return token if len(token) <= _MAX_LENGTH else token[: _MAX_LENGTH - 1] + "…"


def printable(text: str) -> str:
    """Escapes characters that an .svg must not contain, and those that reorder other text."""
    bad = ("Cc", "Cs", "Cn", "Zl", "Zp")
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in bad or c in _REORDERING else c for c in text
    )


@contextlib.contextmanager
def style(texts: Sequence[str], ending: str) -> Iterator[None]:
    """Fixes matplotlib's settings, whatever the user's are, with fonts that have every glyph.

    Lines on standard error say which fonts to install if no installed font has a
    character, and what to do if text would be drawn in the wrong direction.
    """
    from matplotlib import ft2font, style

    text = "".join(texts)
    families, missing = _font_families(text)
    if ending != ".svg":  # an .svg holds text, and the viewer finds the font
        if drawn := "".join(c for c in dict.fromkeys(text) if c in missing and c.isprintable()):
            _say_once(
                f"boxes stand for characters that no installed font has: {shorten(drawn)}; install "
                "their font of Noto Sans, or write an .svg, whose viewer chooses the fonts"
            )
        is_reversed = any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)
        if is_reversed and not hasattr(ft2font, "__libraqm_version__"):
            _say_once(
                "this matplotlib draws right-to-left text from left to right; install 3.11 or "
                "newer, or write an .svg"
            )
    # Warnings that a font has only one weight are noise.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    settings = {
        # Each glyph is looked up in these families in turn. The generic name is the last resort of
        # a viewer of the .svg.
        "font.family": [*families, "sans-serif"],
        "font.sans-serif": families,
        "text.parse_math": False,  # "$" is text
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "attention",
        "axes.edgecolor": "#999999",
        "axes.linewidth": 0.6,
        "axes.unicode_minus": False,
    }
    with style.context(["default", settings]), warnings.catch_warnings():
        for character in missing:  # Already reported; matplotlib may warn of other characters.
            warnings.filterwarnings("ignore", message=rf"Glyph {ord(character)} .* missing from")
        yield


def _font_families(text: str) -> tuple[list[str], set[str]]:
    """Returns installed fonts that together have the text's glyphs, and characters in no font."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    families, missing = ["DejaVu Sans"], set(text)  # It comes with matplotlib.
    for is_again in (False, True):
        if is_again:  # Fonts installed since matplotlib cached its list.
            listed = {font.fname for font in manager.ttflist}
            for path in sorted({*font_manager.findSystemFonts()} - listed):
                with contextlib.suppress(Exception):  # whatever FreeType makes of a damaged font
                    manager.addfont(path)
        for font in sorted(manager.ttflist, key=_preference):
            # "Last Resort" claims every character and draws a box for it.
            if not missing or font.style != "normal" or "Last" in font.name:
                continue
            with contextlib.suppress(OSError, RuntimeError):  # removed since, or damaged
                glyphs = font_manager.get_font(font.fname).get_charmap()
                drawn = {character for character in missing if ord(character) in glyphs}
                families += [font.name] * bool(drawn)
                missing -= drawn
        if not missing:
            break
    return [*dict.fromkeys(families)], missing


def _preference(font: Any) -> tuple:
    is_first = font.name == "DejaVu Sans"
    return not is_first, abs(font.weight - 400), "Noto Sans" not in font.name, font.name


@functools.cache
def _say_once(line: str) -> None:
    """Prints a line on standard error, once in a process."""
    print(line, file=sys.stderr, flush=True)


def check_path(path: str | os.PathLike) -> str:
    """Returns the file ending; raises `UserError` if no picture can be written there."""
    ending = Path(path).suffix.lower()
    if ending not in _METADATA:
        raise UserError(
            f"{path}: a picture's name must end in {', '.join(_METADATA)}; of a page of attention, "
            "in .html"
        )
    check_writable(path)
    return ending


def check_size(size: Sequence[float], ending: str, dpi: float) -> float:
    """Returns the dots per inch, at most `dpi`, of a picture of a size in inches.

    Raises UserError: the picture is too large for a legible .png.
    """
    if ending != ".png":
        return dpi
    dpi = min(dpi, math.sqrt(_MAX_PIXELS / float(np.prod(size))))
    if dpi < _MIN_DPI:
        raise UserError(
            "the picture is too large for a legible .png; draw one layer or one head, or write an "
            ".svg or .pdf"
        )
    return dpi


def save(figure: Any, path: str | os.PathLike, dpi: float) -> None:
    path = Path(path)
    ending = path.suffix.lower()
    dpi = check_size(figure.get_size_inches(), ending, dpi)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=dpi, metadata=_METADATA[ending])


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

    figure = Figure(figsize=(1, 1), dpi=_FINE_DPI)
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
    corner = _MARGIN / width, 1 - _MARGIN / height
    figure.text(*corner, title, fontsize=font_size, verticalalignment="top")
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
        wide = Figure(figsize=(1, 1), dpi=_FINE_DPI).add_axes((0, 0, *panel.size))
        panel.draw(wide, widened)
        room = np.maximum(room, _room(panel, wide))
    return room


def _room(panel, axes):
    """Measures the room on the left, above, on the right and below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    box = axes.get_tightbbox(FigureCanvasAgg(axes.figure).get_renderer())
    x0, y0, x1, y1 = np.array(box.extents) / _FINE_DPI
    return np.maximum([-x0, y1 - panel.size[1], x1 - panel.size[0], -y0], 0)


def _wrapped(text, font_size, width):
    needed = text_widths([text], font_size)[0]
    if needed <= width:
        return text
    return textwrap.fill(text, max(1, int(0.9 * len(text) * width / needed)))


def save_curves(runs: dict[str, list[dict[str, Any]]], path: str | os.PathLike) -> None:
    """Draws log-perplexity and BLEU by the updates of training; dotted lines are of training text.

    `runs` is name -> records. Raises UserError: the file has another ending, or cannot be written.
    """
    from matplotlib.figure import Figure

    ending = check_path(path)
    with style([*runs], ending):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        panels = dict(zip(("perplexity", "bleu"), figure.subplots(1, 2), strict=True))
        lines = itertools.product(runs.items(), {"train": ".:", "valid": ".-"}.items())
        for (run, records), (kind, line) in lines:
            for score, axes in panels.items():
                values = [(x["step"], x.get(score)) for x in records if x["kind"] == kind]
                steps, values = np.array(values, float).reshape(-1, 2).T  # None becomes NaN.
                values = np.log(values) if score == "perplexity" else values
                axes.plot(steps, values, line, label=printable(f"{run}, {kind}"))
        panels["perplexity"].set(xlabel="updates", ylabel="log-perplexity")
        panels["bleu"].set(xlabel="updates", ylabel="BLEU")
        panels["perplexity"].legend(fontsize=8)
        panels["bleu"].set_visible(any("bleu" in x for run in runs.values() for x in run))
        save(figure, path, dpi=150)
