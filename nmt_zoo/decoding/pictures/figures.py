"""Line plots, and code that all pictures share: fonts, style and atomic writing of files.

Only matplotlib's object interface is used: no display is needed and no global figure is left open.
"""

import collections
import contextlib
import functools
import logging
import math
import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.files import atomic_path

# No date and no version: the same input gives the same bytes.
_METADATA = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
LINE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
# White is exactly zero; the lightness then falls in proportion to the weight, in grey print, too.
_COLOURS = [(0, "#ffffff"), (0.18, "#c6dbef"), (0.4, "#6baed6"), (0.68, "#2171b5"), (1, "#08306b")]
# Embeddings, overrides and isolates of the bidirectional algorithm: invisible, but they reorder.
_REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_MAX_LENGTH = 40  # characters of a token
_MAX_NAMED = 10  # characters of a script without a font
# The name of a letter begins with the name of its script: "NEW TAI LUE LETTER HIGH QA".
_SCRIPT = re.compile("(.+?) (CAPITAL|SMALL|LETTER|VOWEL|SIGN|DIGIT|CHARACTER|SYLLABLE)")
_MIN_DPI, _MAX_PIXELS = 72, 60e6  # 8 pt text is still readable; 240 MB of canvas


def save_curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    path: str | os.PathLike,
    *,
    x_label: str,
    y_label: str,
    y_scale: str = "linear",
    title: str | None = None,
) -> None:
    """Draws lines, such as learning curves or BLEU by sentence length.

    `series` are name -> (x values, y values), equally many of both; NaN leaves a gap. `path` ends
    in .png, .svg or .pdf. The labels of the axes include units. `y_scale` is "linear", or "log" if
    all y values are above 0.
    Raises ValueError: the file ending is unknown, there are no series, or x and y differ in length.
    Raises UserError: the file cannot be written.

    Example:
        >>> save_curves({"dev": ([0, 1000, 2000], [0.0, 19.5, 24.1])}, "bleu.svg",
        ...             x_label="updates", y_label="BLEU")
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    ending = check_path(path)
    if not series:
        raise ValueError("there are no series to draw")
    names = [printable(name) for name in series]
    with style([*names, x_label, y_label, title or ""], ending):
        legend_width = 0.7 + text_widths(names, 10).max() if len(series) > 1 else 0
        figure = Figure(figsize=(6 + legend_width, 4), layout="constrained")
        axes = figure.add_subplot()
        lines = []
        for index, (name, (xs, ys)) in enumerate(series.items()):
            xs, ys = np.asarray(xs), np.asarray(ys)
            if xs.shape != ys.shape or xs.ndim != 1:
                raise ValueError(f"series {name!r}: x has shape {xs.shape}, y has {ys.shape}")
            colour = LINE_COLOURS[index % len(LINE_COLOURS)]
            marker = "o" if len(xs) <= 20 else ""  # without a marker, a single point is invisible
            lines += axes.plot(xs, ys, color=colour, marker=marker, markersize=4, linewidth=1.6)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_title(title or "", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
        axes.set_axisbelow(True)
        if y_scale == "log":
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")
            # Also labels axes that span less than a power of ten.
            axes.yaxis.set_minor_formatter(LogFormatter())
        else:
            axes.ticklabel_format(useOffset=False)
        if all(float(x).is_integer() for line in lines for x in line.get_xdata()):
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
            axes.xaxis.set_major_formatter("{x:,.0f}")
        if len(lines) > 1:  # outside, where it cannot cover a line
            figure.legend(lines, names, loc="outside right upper", frameon=False)
        save(figure, path, dpi=150)


def colour_map() -> Any:
    """Returns matplotlib's colour map of weights: white is 0, and more is darker."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", _COLOURS)


def text_widths(texts: Sequence[str], font_size: float) -> np.ndarray:
    """Returns the width in inches of each text, on one line, in the font of the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=288)  # fine enough not to be rounded to pixels
    renderer = FigureCanvasAgg(figure).get_renderer()
    widths = {}
    for text in set(texts):
        measured = figure.text(0, 0, text, fontsize=font_size).get_window_extent(renderer).width
        # An .svg viewer may have the Chinese or Japanese font that is missing here, in which each
        # wide character takes one em.
        num_wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
        widths[text] = max(measured / figure.dpi, num_wide * font_size / 72)
    return np.array([widths[text] for text in texts])


def shorten(token: str) -> str:
    """Returns at most 40 printable characters of a token."""
    token = printable(token)
    return token if len(token) <= _MAX_LENGTH else token[: _MAX_LENGTH - 1] + "…"


def printable(text: str) -> str:
    """Escapes characters that an .svg must not contain, and those that reorder other text."""
    bad = ("Cc", "Cs", "Cn", "Zl", "Zp")
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in bad or c in _REORDERING else c for c in text
    )


@contextlib.contextmanager
def style(texts: Sequence[str], ending: str, advises: bool = True) -> Iterator[None]:
    """Fixes matplotlib's settings, whatever the user's are, with fonts that have every glyph.

    With `advises`, lines on standard error say which fonts to install if no installed font has a
    character, and what to do if text would be drawn in the wrong direction.
    """
    from matplotlib import style

    text = "".join(texts)
    families, missing = _font_families(text)
    if advises and ending != ".svg":  # an .svg holds text, and the viewer finds the font
        if drawn := "".join(filter(str.isprintable, missing)):
            _say_once(_missing_fonts(drawn))
        if any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
            _check_shaping()
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


def _font_families(text: str) -> tuple[list[str], str]:
    """Returns installed fonts that together have the text's glyphs, and characters in no font."""
    from matplotlib import font_manager

    families = ["DejaVu Sans"]  # comes with matplotlib
    missing = _add_families(families, set(text))
    if missing:  # matplotlib caches the list of fonts; fonts installed since are not in it
        manager = font_manager.fontManager
        known = {font.fname for font in manager.ttflist}
        for path in sorted(set(font_manager.findSystemFonts()) - known):
            with contextlib.suppress(Exception):  # whatever FreeType makes of a damaged font
                manager.addfont(path)
        missing = _add_families(families, missing)
    return families, "".join(c for c in dict.fromkeys(text) if c in missing)


def _add_families(families: list[str], missing: set[str]) -> set[str]:
    """Adds installed fonts with glyphs for missing characters; returns those still missing."""
    from matplotlib import font_manager

    fonts = {
        font.name: font
        for font in font_manager.fontManager.ttflist
        # "Last Resort" claims every character and draws a box for it.
        if 400 <= font.weight <= 500 and font.style == "normal" and "Last" not in font.name
    }

    def preference(font):
        return font.name not in families, font.weight, "Noto Sans" not in font.name, font.name

    for font in sorted(fonts.values(), key=preference):
        if not missing:
            break
        with contextlib.suppress(OSError, RuntimeError):  # removed since, or damaged
            glyphs = font_manager.get_font(font.fname).get_charmap()
            found = {character for character in missing if ord(character) in glyphs}
            if found and font.name not in families:
                families.append(font.name)
            missing = missing - found
    return missing


@functools.cache
def _say_once(line: str) -> None:
    """Prints a line on standard error, once in a process."""
    print(line, file=sys.stderr, flush=True)


def _check_shaping() -> None:
    import matplotlib
    from matplotlib import ft2font

    if not hasattr(ft2font, "__libraqm_version__"):
        _say_once(
            f"matplotlib {matplotlib.__version__} draws right-to-left text from left to right; "
            "install 3.11 or newer, or write an .svg"
        )


def _missing_fonts(characters: str) -> str:
    groups = collections.defaultdict(str)
    for character in characters:
        groups[_font_for(character)] += character
    named = [
        f"{found[:_MAX_NAMED] + '…' * (len(found) > _MAX_NAMED)} (install {font})"
        for font, found in groups.items()
    ]
    return (
        f"boxes stand for characters that no installed font has: {', '.join(named)}; an .svg "
        "leaves the choice of fonts to its viewer"
    )


def _font_for(character: str) -> str:
    name = unicodedata.name(character, "")
    if not name:
        return "a font that has them"
    is_symbol = unicodedata.category(character)[0] == "S"
    if unicodedata.east_asian_width(character) in "WFH" and not is_symbol:
        return "Noto Sans CJK"
    script = _SCRIPT.match(name)
    if script and not is_symbol:
        return f"Noto Sans {script[1].title()}"
    return "Noto Emoji" if ord(character) >= 0x1F000 else "Noto Sans Symbols 2"


def check_path(path: str | os.PathLike) -> str:
    """Returns the file ending; raises `ValueError` if it is not a picture's."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _METADATA:
        raise ValueError(f"a picture's name must end in {', '.join(_METADATA)}")
    return ending


def check_size(size: Sequence[float], ending: str, dpi: float) -> float:
    """Returns the dots per inch, at most `dpi`, of a picture of a size in inches.

    Raises ValueError if the picture is too large for a legible .png.
    """
    if ending != ".png":
        return dpi
    dpi = min(dpi, math.sqrt(_MAX_PIXELS / float(np.prod(size))))
    if dpi < _MIN_DPI:
        raise ValueError(
            "too large for a legible .png; draw one layer or one head, or write an .svg or .pdf"
        )
    return dpi


def save(figure: Any, path: str | os.PathLike, dpi: float) -> None:
    path = Path(path)
    ending = path.suffix.lower()
    dpi = check_size(figure.get_size_inches(), ending, dpi)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=dpi, metadata=_METADATA[ending])
