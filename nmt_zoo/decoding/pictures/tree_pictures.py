"""Pictures of derivations: which phrases or rules a translation is made of."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.decoding.pictures import figures

_FONT_SIZE = 9
_GAP, _LEVEL, _MARGIN = 0.2, 0.5, 0.25  # inches: between texts, between levels, around all
_DPI = 150
_DIGITS = "₁₂"
_KEY = "blue: phrases of the translation, X₁ and X₂ for phrases below them; black: the source"


class _Node(NamedTuple):
    """A phrase or rule in a picture."""

    label: str  # its target side
    words: list  # of int, its source words
    inner: list  # of int, the numbers of the phrases in its gaps
    first: int  # the first source word of it and of what is in its gaps
    last: int  # the last one
    level: int  # 1: no gaps


def save_tree(
    phrases: Sequence[Any],
    source_words: Sequence[str],
    target_words: Sequence[str],
    path: str | os.PathLike,
    *,
    title: str | None = None,
) -> None:
    """Draws a derivation as a tree over the source sentence.

    A phrase is a node with its translation, above its source words; X₁ and X₂ stand for the phrases
    in its gaps, in the order of the source.

    Args:
        phrases: the `models.phrases.table_decoder.Phrase`s of a translation; a rule comes before
            the phrases in its gaps.
        source_words, target_words: the words that the phrases number.
        path: ends in .png, .svg or .pdf.
        title: text above the picture, which a key follows.
    Raises UserError: the file ending is unknown, a .png would be too large, or the file cannot be
    written.

    Example:
        >>> save_tree([Phrase([0, 1], [0, 1], [(0, 0), (1, 1)])], ["ein", "Haus"],
        ...           ["a", "house"], "tree.svg")
    """
    from matplotlib.figure import Figure

    ending = figures.check_path(path)
    nodes = _nodes(phrases, [figures.shorten(word) for word in target_words])
    words = [figures.shorten(word) for word in source_words]
    title = f"{figures.printable(title)}\n{_KEY}" if title else ""
    with figures.style([*words, *(node.label for node in nodes), title], ending):
        edges = _edges(nodes, words)
        height = (1 + max((node.level for node in nodes), default=0)) * _LEVEL
        width = max(edges[-1], figures.text_widths([title], _FONT_SIZE + 1)[0])
        size = width + 2 * _MARGIN, height + 2 * _MARGIN
        dpi = figures.check_size(size, ending, _DPI)
        figure = Figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-_MARGIN, width + _MARGIN), ylim=(-_MARGIN, height + _MARGIN))
        axes.set_axis_off()
        axes.text(0, height + 0.4 * _MARGIN, title, va="top", fontsize=_FONT_SIZE + 1)
        _draw(axes, nodes, words, edges)
        figures.save(figure, path, dpi)


def _draw(axes, nodes, words, edges):
    """Draws the nodes and the source words, whose edges are `edges`."""
    points = [(x, 0.0) for x in (edges[1:] + edges[:-1]) / 2]
    centres = [
        ((edges[node.first] + edges[node.last + 1]) / 2, node.level * _LEVEL) for node in nodes
    ]
    for node, centre in zip(nodes, centres, strict=True):
        ends = [points[word] for word in node.words] + [centres[inner] for inner in node.inner]
        for end in ends:
            axes.plot(*zip(centre, end, strict=True), color="#999999", linewidth=0.8, zorder=1)
    look = {"ha": "center", "va": "center", "fontsize": _FONT_SIZE}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
    for point, word in zip(points, words, strict=True):
        axes.text(*point, word, **look, bbox=box)
    for centre, node in zip(centres, nodes, strict=True):
        axes.text(*centre, node.label, **look, bbox=box, color="#0072b2")


def _nodes(phrases, target_words):
    """Returns the nodes of phrases, in their order."""
    inner: list = [[] for _ in phrases]
    nodes: list = [None] * len(phrases)
    targets = [set(phrase.target) for phrase in phrases]
    for number in reversed(range(len(phrases))):
        phrase = phrases[number]
        inner[number].sort(key=lambda gap: nodes[gap].first)
        symbols = [(position, target_words[position]) for position in phrase.target]
        for gap, digit in zip(inner[number], _DIGITS, strict=False):
            symbols.append((min(targets[gap]), f"X{digit}"))
            targets[number] |= targets[gap]
        gaps = [nodes[gap] for gap in inner[number]]
        nodes[number] = _Node(
            " ".join(text for _, text in sorted(symbols)),
            phrase.source,
            inner[number],
            min([*phrase.source, *(node.first for node in gaps)]),
            max([*phrase.source, *(node.last for node in gaps)]),
            1 + max((node.level for node in gaps), default=0),
        )
        if phrase.parent >= 0:
            inner[phrase.parent].append(number)
    return nodes


def _edges(nodes, words):
    """Returns the left edge of each source word in inches, and the right edge of the last.

    Each word, and each phrase above its words, has room for its text.
    """
    widths = figures.text_widths(words, _FONT_SIZE) + _GAP
    labels = figures.text_widths([node.label for node in nodes], _FONT_SIZE) + _GAP
    for node, width in sorted(zip(nodes, labels, strict=True), key=lambda pair: pair[0].level):
        inside = slice(node.first, node.last + 1)
        widths[inside] *= max(width / widths[inside].sum(), 1)
    return np.append(0, np.cumsum(widths))
