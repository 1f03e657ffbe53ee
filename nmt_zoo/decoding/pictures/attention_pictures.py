"""Pictures of attention: heat maps as .png, .svg or .pdf."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.alignment.map_names import KINDS, layers_by_kind
from nmt_zoo.decoding.alignment.subword_merging import merge_words
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.figures import Panel, draw_panels

_BAR_WIDTH = 0.13  # inches
_PAD = 3.6  # points between a label and its panel
# Weights of full colour; at least 0.3, so that attention to all tokens alike is faint.
_SCALES = (0.3, 0.5, 1.0)
# Titles of the rows, which attend, and of the columns, which are attended to.
AXES = {
    "cross": ("translation", "source (attended to)"),
    "encoder": ("source", "source (attended to)"),
    "decoder": ("translation", "translation so far (attended to)"),
}


class Drawing(NamedTuple):
    """Options of `save_attention`: the parts of the attention to draw, and their look."""

    # "cross", "encoder" (self-attention) or "decoder" (self-attention). The decoder reads its
    # target shifted right, so the columns of "decoder" are "<s>" and all tokens but the last: row t
    # has not seen token t.
    kind: str = "cross"
    # A layer, counted from 1, or "all"; None: that of `alignment`, otherwise the last but one.
    layer: int | str | None = None
    # A head, counted from 1, "mean" over all heads, or "all"; None: as the layer, or "mean" of one
    # that is given. Panels of a single layer, or a single head per layer, are wrapped into a block.
    head: int | str | None = None
    alignment: tuple[int, int | str] | None = None  # Layer and head of the model's links.
    # Whether to merge subword pieces into words, see `subword_merging.merge_words`.
    merge_subwords: bool = False
    # The model's name in a title, which also has kind, layers and heads and is wrapped if it is
    # long; None: there is no title.
    name: str | None = None
    # (source sentence, translation), written below the title; None: they are not written.
    texts: tuple[str, str] | None = None
    # Dots per inch of a .png, lowered to as little as 72 if the picture would be huge.
    dpi: float = 150


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
    has fields of `Drawing`, such as `head="all"`.

    Raises UserError: the file ending, kind, layer or head is unknown, a .png would be too large, or
    the file cannot be written.
    Raises ValueError: weights do not fit the tokens.

    Example:
        >>> weights = np.eye(3)[None]
        >>> save_attention({"decoder/0/cross": weights}, ["ein", "Haus", "</s>"],
        ...                ["a", "house", "</s>"], "attention.png")
    """
    kind, *choice, merge_subwords, name, texts, dpi = Drawing(**drawing)
    ending = figures.check_path(path)
    layers, chosen, heads = _select(maps, kind, *choice)
    rows, columns = {
        "cross": (target_tokens, source_tokens),
        "encoder": (source_tokens, source_tokens),
        "decoder": (target_tokens, ["<s>", *target_tokens[:-1]]),
    }[kind]
    for number in chosen:
        _check_weights(f"layer {number}", layers[number], (len(rows), len(columns)))
    names = _layer_names(maps, kind)
    panels = _panels(layers, chosen, heads, names)
    if merge_subwords:
        merged = [merge_words(weights, columns, rows) for _, weights in panels]
        panels = [(panel[0], words[0]) for panel, words in zip(panels, merged, strict=True)]
        _, columns, rows = merged[0]
    labels = [figures.shorten(token) for token in rows], [figures.shorten(x) for x in columns]
    named = zip(("source: ", "translation: "), texts or ("", ""), strict=True)
    lines = [_title(name, maps, kind, layers, chosen, heads)] if name else []
    if name and len(panels) == 1:
        panels = [("", panels[0][1])]  # The title says it.
    lines += [name + text for name, text in named if text]
    title = "\n".join(figures.printable(" ".join(line.split())) for line in lines)
    length = len(heads)
    if 1 in (len(chosen), length):  # wrapped to the full rows nearest to a square
        count = len(panels)
        length = min(n for n in range(1, count + 1) if n * n >= count and count % n == 0)
    with figures.style([*labels[0], *labels[1], title], ending):
        grid = [panels[i : i + length] for i in range(0, len(panels), length)]
        titles = ("translation", "source") if names[chosen[0]] in maps else AXES[kind]
        figures.save(_draw(grid, labels, titles, title), path, dpi)


def check_choice(
    maps: Mapping[str, np.ndarray], kind: str, layer: int | str | None, head: Any, name: str
) -> None:
    """Raises `UserError`, with the `name` of a model that lacks what `save_attention` would draw.

    `maps` may be of any text.
    """
    try:
        _select(maps, kind, layer, head)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def _select(maps, kind, layer, head, alignment=None):
    """Returns layer from 1 -> weights `[H, rows, columns]`, the layers to draw, and the heads."""
    available = layers_by_kind(maps)
    if not available:
        raise UserError("it has no attention, so there is nothing to draw")
    if kind not in available:
        raise UserError(f"it has no {kind} attention, only: {', '.join(available)}")
    names = available[kind]
    layers = {number: np.asarray(maps[name], np.float32) for number, name in names.items()}
    usual = alignment if alignment and kind == "cross" else ([*layers][-2:][0], "mean")
    if head is None:
        head = usual[1] if layer is None else "mean"
    chosen = _chosen("layer", [*layers], usual[0] if layer is None else layer)
    heads = [*range(1, len(layers[chosen[0]]) + 1)]
    if head == "mean":
        return layers, chosen, ["mean"] if len(heads) > 1 else heads
    return layers, chosen, _chosen("head", heads, head)


def _chosen(what, numbers, choice):
    if choice == "all":
        return numbers
    if choice not in numbers:
        more = ", or 'mean'" * (what == "head")
        raise UserError(
            f"there is no {what} {choice!r}; {what}s: {', '.join(map(str, numbers))}{more}"
        )
    return [choice]


def _title(name, maps, kind, layers, chosen, heads):
    """Describes a picture: model, kind of attention, layers and heads."""
    names, num_heads = _layer_names(maps, kind), len(layers[chosen[0]])
    if names[chosen[0]] in maps:  # No attention, but links, phrases or a posterior.
        return f"{name}: {' and '.join(names[number] for number in chosen)}"
    which = "cross-attention" if kind == "cross" and len(layers_by_kind(maps)) > 1 else KINDS[kind]
    parts = [which, *[_numbers("layer", chosen)] * (len(layers) > 1)]
    if num_heads > 1:
        parts.append(f"mean of {num_heads} heads" if "mean" in heads else _numbers("head", heads))
    return f"{name}: {', '.join(parts)}"


def _layer_names(maps: Mapping[str, np.ndarray], kind: str) -> dict[int, str]:
    """Returns the title of each layer: its number, or the name of a map without attention."""
    layers = layers_by_kind(maps)[kind].items()
    return {number: f"layer {number}" if "/" in name else name for number, name in layers}


def _numbers(name: str, numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{name} {first}" if first == last else f"{name}s {first} to {last}"


def _check_weights(name: str, weights: np.ndarray, expected: tuple[int, int]) -> None:
    if weights.ndim != 3 or weights.shape[1:] != expected or not weights.size:
        raise ValueError(
            f"{name}: the weights have shape {weights.shape}, which is not [heads, *{expected}], "
            "the numbers of tokens"
        )
    if not np.all((weights > -0.01) & (weights < 1.01)):  # 0.01 for the rounding of bfloat16
        raise ValueError(f"{name}: attention weights must lie between 0 and 1")


def _panels(layers, chosen, heads, layer_names):
    """Returns (name, weights `[rows, columns]`) of the panels to draw, row by row."""
    panels = []
    for number in chosen:
        weights = layers[number]
        for head in heads:
            # Layers and heads are named only if there are several: recurrent models have one map.
            names = [layer_names[number]] * (len(layers) > 1)
            if len(weights) > 1:
                names.append(f"mean of {len(weights)} heads" if head == "mean" else f"head {head}")
            panel = weights.mean(axis=0) if head == "mean" else weights[head - 1]
            panels.append((", ".join(names), panel))
    return panels


def _draw(
    grid: list[list[tuple[str, np.ndarray]]],
    labels: tuple[list[str], list[str]],
    titles: tuple[str, str],
    title: str,
) -> Any:
    """Returns the matplotlib figure; labels and titles are of rows and of columns."""
    # Cells must be sqrt(2) times as wide as a line is high, 0.19 inches at 8 points, so that lines
    # at 45 degrees do not touch. Whole pixels at 75 dpi.
    cell = float(np.ceil(75 * np.clip(3.5 / max(map(len, labels)), 0.2, 0.4) - 1e-6) / 75)
    font_size = 8 + 10 * (cell - 0.2)
    largest = max(float(weights.max()) for row in grid for _, weights in row)
    scale = min([step for step in _SCALES if largest <= step * 1.001], default=1.0)
    size = cell * len(labels[1]), cell * len(labels[0])

    def panel(name, weights):
        def draw(axes, shown):
            # Some viewers of .svg and .pdf blur neighbouring image pixels, so a cell gets 12 x 12.
            image = weights.repeat(12, axis=0).repeat(12, axis=1)
            extent = (-0.5, len(labels[1]) - 0.5, len(labels[0]) - 0.5, -0.5)
            axes.imshow(image, vmin=0, vmax=scale, extent=extent, **_shades())
            _label(axes, *([shown(label) for label in side] for side in labels), font_size)
            axes.set_title(name, loc="left", fontsize=font_size, fontweight="bold")
            axes.set_xlabel(titles[1], loc="left", fontsize=font_size)
            axes.set_ylabel(titles[0], loc="bottom", fontsize=font_size)

        return Panel(size, draw)

    def draw_bar(axes, shown):
        axes.imshow(np.linspace(1, 0, 256)[:, None], extent=(0, 1, 0, scale), **_shades())
        axes.set(xticks=[], yticks=[0, scale / 2, scale])
        axes.set_ylabel("weight", fontsize=8)
        axes.yaxis.set_label_position("right")
        axes.yaxis.tick_right()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.tick_params(length=0, labelsize=8)

    bar = Panel((_BAR_WIDTH, float(np.clip(size[1], 1.2, 3))), draw_bar)
    rows = [[panel(*head_map) for head_map in row] for row in grid]
    rows[0].append(bar)
    return draw_panels(rows, title, font_size + 2)


def _shades() -> dict[str, Any]:
    return {"cmap": figures.colour_map(), "interpolation": "none", "aspect": "auto"}


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
