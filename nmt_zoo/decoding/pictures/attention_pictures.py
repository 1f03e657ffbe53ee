"""Pictures of attention: heat maps as .png, .svg or .pdf, with alignments made by people."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.alignment import subword_merging
from nmt_zoo.decoding.alignment.links import GoldAlignment
from nmt_zoo.decoding.alignment.map_names import KINDS, layer_names
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.panels import Panel, draw_panels

_BAR_WIDTH = 0.13  # inches
_PAD = 3.6  # points between a label and its panel
_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
# Frames of gold links, which can be told apart in print and without colours, too.
_FRAMES = {
    "sure": {"edgecolor": figures.LINE_COLOURS[1], "linestyle": "-"},
    "possible": {"edgecolor": figures.LINE_COLOURS[1], "linestyle": (0, (1.5, 1))},
}


# Titles of the rows, which attend, and of the columns, which are attended to.
AXES = {
    "cross": ("translation", "source (attended to)"),
    "encoder": ("source", "source (attended to)"),
    "decoder": ("translation", "translation so far (attended to)"),
}


class _Map(NamedTuple):
    name: str
    weights: np.ndarray  # [rows, columns]


class Drawing(NamedTuple):
    """Options of `save_attention`: the parts of the attention to draw, and their look."""

    # "cross", "encoder" (self-attention) or "decoder" (self-attention). The decoder reads its
    # target shifted right, so the columns of "decoder" are "<s>" and all tokens but the last: row t
    # has not seen token t.
    kind: str = "cross"
    layer: int | None = None  # Only this layer, counted from 1; None draws all layers.
    # Only this head, counted from 1, or "mean" over all heads; None draws all heads. The panels of
    # a single layer, or of a single head per layer, are wrapped into a block.
    head: int | str | None = None
    # Whether to merge subword pieces into words, see `subword_merging.merge_words`.
    merge_subwords: bool = False
    # Links to mark on every "cross" panel, by the positions of the tokens or words drawn. Each gets
    # a frame, dashed if the link is possible but not sure.
    gold: GoldAlignment | None = None
    title: str | None = None  # A line above the picture; long titles are wrapped.
    # (source sentence, translation), written below the title; None: they are not written.
    texts: tuple[str, str] | None = None
    # Dots per inch of a .png, lowered to as little as 72 if the picture would be huge.
    dpi: float = 150
    # Whether to print which fonts to install if no installed font has a character.
    advises: bool = True


def save_attention(
    maps: Mapping[str, np.ndarray],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | os.PathLike,
    **drawing: Any,
) -> None:
    """Draws attention weights as a grid of heat maps: one row per layer, one column per head.

    Rows of a map are tokens that attend, columns are tokens that are attended to. All panels share
    one colour scale, from 0 to the largest weight drawn, rounded up. `maps` are weights in [0, 1],
    without padding, named "decoder/0/cross" [H, T, S], "encoder/0/self" [H, S, S] and
    "decoder/0/self" [H, T, T], layers counted from 0. Tokens may be words, with "</s>" if the maps
    have it; those of over 40 characters are shortened. `path` ends in .png, .svg or .pdf; `drawing`
    has fields of `Drawing`, such as `head="mean"`.

    Raises ValueError: the file ending, kind, layer or head is unknown; weights do not fit the
    tokens; gold links lie outside of the sentences, or the kind is not "cross"; a .png would be too
    large. Raises UserError: the file cannot be written.

    Example:
        >>> weights = np.eye(3)[None]
        >>> save_attention({"decoder/0/cross": weights}, ["ein", "Haus", "</s>"],
        ...                ["a", "house", "</s>"], "attention.png")
    """
    kind, layer, head, merge_subwords, gold, title, texts, dpi, advises = Drawing(**drawing)
    ending = figures.check_path(path)
    layers = _find_layers(maps, kind)
    rows, columns = {
        "cross": (target_tokens, source_tokens),
        "encoder": (source_tokens, source_tokens),
        "decoder": (target_tokens, ["<s>", *target_tokens[:-1]]),
    }[kind]
    for number, weights in layers.items():
        _check_weights(f"layer {number}", weights, (len(rows), len(columns)))
    panels, row_length = _select_panels(layers, layer, head)
    if merge_subwords:
        merged = [subword_merging.merge_words(panel.weights, columns, rows) for panel in panels]
        panels = [panel._replace(weights=m[0]) for panel, m in zip(panels, merged, strict=True)]
        _, columns, rows = merged[0]
    rows, columns = (
        [figures.shorten(token) for token in rows],
        [figures.shorten(token) for token in columns],
    )
    frames = _frames(gold, kind, (len(columns), len(rows)))
    named = zip(("source: ", "translation: "), texts or ("", ""), strict=True)
    lines = [title or "", *(name + text for name, text in named if text)]
    title = "\n".join(figures.printable(" ".join(line.split())) for line in lines if line)
    with figures.style([*rows, *columns, title], ending, advises):
        grid = [panels[i : i + row_length] for i in range(0, len(panels), row_length)]
        figures.save(_draw(grid, (rows, columns), AXES[kind], title, frames), path, dpi)


def title_of(
    name: str,
    maps: Mapping[str, np.ndarray],
    kind: str = "cross",
    layer: int | None = None,
    head: int | str | None = None,
) -> str:
    """Describes a picture of `save_attention`: model, kind of attention, layers and heads.

    Example:
        >>> title_of("a model", {"decoder/0/cross": np.ones([8, 1, 1])}, head="mean")
        'a model: attention to the source, layer 1, mean of 8 heads'
    """
    layers = _find_layers(maps, kind)
    chosen = list(layers) if layer is None else [layer]
    num_heads = len(layers[chosen[0]])
    heads = list(range(1, num_heads + 1)) if head is None else [head]
    which = {
        "cross": "cross-attention" if len(kinds(maps)) > 1 else "attention to the source",
        "encoder": "self-attention of the encoder",
        "decoder": "self-attention of the decoder",
    }[kind]
    mean = f"mean of {num_heads} heads"
    parts = which, _numbers("layer", chosen), mean if head == "mean" else _numbers("head", heads)
    return f"{name}: {', '.join(parts)}"


def _numbers(name: str, numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{name} {first}" if first == last else f"{name}s {first} to {last}"


def kinds(maps: Mapping[str, np.ndarray]) -> list[str]:
    """Returns the kinds of attention that `save_attention` can draw from some maps."""
    return [kind for kind in KINDS if layer_names(maps, kind)]


def usual_layer(maps: Mapping[str, np.ndarray], kind: str) -> int:
    """Returns the layer to draw if none is chosen: the last but one, which aligns best."""
    return [*_find_layers(maps, kind)][-2:][0]


def choose(
    maps: Mapping[str, np.ndarray],
    kind: str,
    layer: int | str | None,
    head: int | str | None,
    name: str,
) -> dict[str, Any]:
    """Returns the kind, layer and head of a `Drawing` as flags give them, for maps of any text.

    `layer` is a number, "all", or None for the usual one; `head` is a number, "mean" or "all".
    Raises `UserError`, with the `name` of the model, if it has no such kind, layer or head.
    """
    available = kinds(maps)
    if not available:
        raise UserError(f"{name} has no attention, so there is nothing to draw")
    if kind not in available:
        have = " or ".join(f"--attention={kind}" for kind in available)
        raise UserError(f"{name} has no {kind} attention; give {have}")
    layer = usual_layer(maps, kind) if layer is None else layer
    layer, head = (None if value == "all" else value for value in (layer, head))
    for flag, value, chosen in (("layer", layer, (layer, None)), ("head", head, (layer, head))):
        try:
            _select_panels(_find_layers(maps, kind), *chosen)
        except ValueError as error:
            raise UserError(f"--{flag}={value}: {error}") from None
    return {"kind": kind, "layer": layer, "head": head}


def _find_layers(maps: Mapping[str, np.ndarray], kind: str) -> dict[int, np.ndarray]:
    """Returns the maps of one kind by the number of their layer, from 1."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; the kinds are {', '.join(KINDS)}")
    names = layer_names(maps, kind)
    if not names:
        raise ValueError(f"there are no {kind!r} maps, only: {', '.join(maps) or 'none'}")
    return {number: np.asarray(maps[name], np.float32) for number, name in names.items()}


def _check_weights(name: str, weights: np.ndarray, expected: tuple[int, int]) -> None:
    if weights.ndim != 3 or weights.shape[1:] != expected or not weights.size:
        raise ValueError(
            f"{name}: the weights have shape {weights.shape}, which is not [heads, *{expected}], "
            "the numbers of tokens"
        )
    if not np.all((weights > -0.01) & (weights < 1.01)):  # 0.01 for the rounding of bfloat16
        raise ValueError(f"{name}: attention weights must lie between 0 and 1")


def _select_panels(
    layers: Mapping[int, np.ndarray], layer: int | str | None, head: int | str | None
) -> tuple[list[_Map], int]:
    """Returns the panels to draw, row by row, and the number of panels in a row."""
    if layer is not None and layer not in layers:
        raise ValueError(f"there is no layer {layer}; layers: {', '.join(map(str, layers))}")
    chosen = list(layers) if layer is None else [layer]
    panels = []
    for number in chosen:
        for name, weights in _select_heads(layers[number], head).items():
            # Layers and heads are named only if there are several: recurrent models have one map.
            names = [f"layer {number}"] * (len(layers) > 1) + [name] * (len(layers[number]) > 1)
            panels.append(_Map(", ".join(names), weights))
    count = len(panels)
    if 1 in (len(chosen), count // len(chosen)):  # wrapped to the full rows nearest to a square
        return panels, min(n for n in range(1, count + 1) if n * n >= count and count % n == 0)
    return panels, count // len(chosen)


def _select_heads(weights: np.ndarray, head: int | str | None) -> dict[str, np.ndarray]:
    """Returns [T, S] by the name of the head."""
    num_heads = len(weights)
    if head == "mean":
        return {f"mean of {num_heads} heads": weights.mean(axis=0)}
    if head is not None and head not in range(1, num_heads + 1):
        raise ValueError(f"there is no head {head!r}; heads: 1 to {num_heads}, or 'mean'")
    chosen = range(1, num_heads + 1) if head is None else [head]
    return {f"head {number}": weights[number - 1] for number in chosen}


def _frames(gold: GoldAlignment | None, kind: str, sizes: tuple[int, int]) -> dict[str, list]:
    """Returns the (column, row) of the links of each kind of frame."""
    if gold is None:
        return {}
    if kind != "cross":
        raise ValueError(f"gold links are of source and target; {kind!r} maps have only one")
    for link in gold.possible:
        if not all(0 <= position < size for position, size in zip(link, sizes, strict=True)):
            raise ValueError(f"gold link {link} is outside of {sizes} source and target tokens")
    return {"sure": sorted(gold.sure), "possible": sorted(gold.possible - gold.sure)}


def _draw(
    grid: list[list[_Map]],
    labels: tuple[list[str], list[str]],
    titles: tuple[str, str],
    title: str,
    frames: dict,
) -> Any:
    """Returns the matplotlib figure; labels and titles are of rows and of columns."""
    # Cells must be sqrt(2) times as wide as a line is high, 0.19 inches at 8 points, so that lines
    # at 45 degrees do not touch. Whole pixels at 75 dpi.
    cell = float(np.ceil(75 * np.clip(3.5 / max(map(len, labels)), 0.2, 0.4) - 1e-6) / 75)
    font_size = 8 + 10 * (cell - 0.2)
    largest = max(float(panel.weights.max()) for row in grid for panel in row)
    scale = min([step for step in _SCALES if largest <= step * 1.001], default=1.0)
    size = cell * len(labels[1]), cell * len(labels[0])

    def panel(head_map):
        def draw(axes, shown):
            # Some viewers of .svg and .pdf blur neighbouring image pixels, so a cell gets 12 x 12.
            image = head_map.weights.repeat(12, axis=0).repeat(12, axis=1)
            extent = (-0.5, len(labels[1]) - 0.5, len(labels[0]) - 0.5, -0.5)
            axes.imshow(image, vmin=0, vmax=scale, extent=extent, **_shades())
            _label(axes, *([shown(label) for label in side] for side in labels), font_size)
            axes.set_title(head_map.name, loc="left", fontsize=font_size, fontweight="bold")
            axes.set_xlabel(titles[1], loc="left", fontsize=font_size)
            axes.set_ylabel(titles[0], loc="bottom", fontsize=font_size)
            for name, cells in frames.items():
                for column, row in cells:
                    corner = (column - 0.42, row - 0.42)
                    figures.frame(axes, corner, 0.84, 0.84, **_FRAMES[name])

        return Panel(size, draw)

    def draw_bar(axes, shown):
        axes.imshow(np.linspace(1, 0, 256)[:, None], extent=(0, 1, 0, scale), **_shades())
        axes.set(xticks=[], yticks=[0, scale / 2, scale])
        axes.set_ylabel("attention weight", fontsize=8)
        axes.yaxis.set_label_position("right")
        axes.yaxis.tick_right()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.tick_params(length=0, labelsize=8)
        if frames:
            _draw_key(axes)

    bar = Panel((_BAR_WIDTH, float(np.clip(size[1], 1.2, 3))), draw_bar)
    rows = [[panel(head_map) for head_map in row] for row in grid]
    rows[0].append(bar)
    return draw_panels(rows, title, font_size + 2)


def _shades() -> dict[str, Any]:
    return {"cmap": figures.colour_map(), "interpolation": "none", "aspect": "auto"}


def _draw_key(axes: Any) -> None:
    from matplotlib.patches import Rectangle

    looks = [{"facecolor": "none", "linewidth": 1.4, **look} for look in _FRAMES.values()]
    handles = [Rectangle((0, 0), 1, 1, **look) for look in looks]
    place = {"loc": "upper left", "bbox_to_anchor": (-1, -0.05), "borderpad": 0}
    size = {"fontsize": 8, "handlelength": 1, "handleheight": 1, "frameon": False}
    axes.legend(handles, [*_FRAMES], **place, **size)


def _label(axes: Any, rows: list[str], columns: list[str], font_size: float) -> None:
    """Writes the tokens along a panel and draws faint lines between its cells."""
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("bottom")
    axes.tick_params(length=0, pad=_PAD, labelsize=font_size)
    axes.set_yticks(range(len(rows)), rows)
    # With these anchors, labels of an .svg stay in place even if the viewer has another font.
    slanted = {"rotation": 45, "rotation_mode": "anchor", "ha": "left", "va": "center"}
    axes.set_xticks(range(len(columns)), columns, **slanted)
    lines = {"color": "#dddddd", "linewidth": 0.4}
    axes.hlines(np.arange(1, len(rows)) - 0.5, -0.5, len(columns) - 0.5, **lines)
    axes.vlines(np.arange(1, len(columns)) - 0.5, -0.5, len(rows) - 0.5, **lines)
