"""Writes a comparison of systems as one HTML page that needs no network."""

import html
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nmt_zoo.decoding.comparison.report import NAMES, Table, without_controls
from nmt_zoo.decoding.comparison.words import Texts
from nmt_zoo.decoding.explorer.page import offline_page

_FOLDER = Path(__file__).parent
_LEFT, _TOP, _WIDTH, _HEIGHT, _LEGEND = 40, 20, 480, 220, 22  # Of the chart, in pixels.
_ORDERS = {
    "file": "as in the file",
    "first": "first system better",
    "second": "second system better",
    "most": "largest difference",
    "worst": "poor in all systems",
}


def comparison_page(
    title: str,
    remarks: Iterable[str],
    report: dict[str, Any],
    tables: Iterable[Table],
    sentences: Iterable[str],
) -> str:
    """Returns the page of a `compare` report, with its tables and the HTML of its sentences."""
    first, second, *rest = tables
    shown = [_table(first), _table(second, _chart(report)), *map(_table, rest)]
    body = [
        '<div class="explorer comparison">',
        *(f"<p>{_text(remark)}</p>" for remark in remarks),
        *shown,
        "<section>\n<h2>Sentences</h2>",
        "<p>Numbers are chrF. Marked words are not in the reference.</p>",
        _controls(report["systems"]),
        '<div id="sentences">',
        *sentences,
        "</div>\n</section>\n</div>",
    ]
    script, look = (
        (_FOLDER / f"comparison.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    return offline_page(title, "\n".join(body), script, look)


def _text(text):
    """Returns a text as HTML; one that runs from right to left does not move what is around it."""
    return f"<bdi>{_escaped(text)}</bdi>"


def _escaped(text):
    return html.escape(without_controls(text))


def _table(table, picture=""):
    """Returns a section with a table, which scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    rows = [
        f'<tr><th scope="row">{_text(row[0])}</th>'
        + "".join(f"<td>{_escaped(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    ]
    title = _escaped(table.title)
    return "\n".join(
        [
            f"<section>\n<h2>{title}</h2>{picture}",
            f'<div class="scrolled" tabindex="0" role="region" aria-label="{title}">',
            f"<table><thead><tr>{head}</tr></thead><tbody>",
            *rows,
            "</tbody></table>\n</div>",
            *(f'<p class="note">{_escaped(note)}</p>' for note in table.notes),
            "</section>",
        ]
    )


def _chart(report):
    """Returns the scores of each class of lengths, by the first metric, as lines in an SVG."""
    metric, classes = next(iter(report["scores"])), report["by_length"]
    scores = {s: [each["scores"][metric][s] for each in classes] for s in report["systems"]}
    # At least 1, so that scores of 0 can be divided by it; TER has no upper limit.
    top = max(1.0, *(score for line in scores.values() for score in line))
    columns = [_LEFT + _WIDTH * (n + 0.5) / len(classes) for n in range(len(classes))]
    bottom = _TOP + _HEIGHT
    parts = [
        f'<line class="frame" x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _WIDTH}" y2="{bottom}"/>'
    ]
    for value in (0, top / 2, top):
        y = bottom - _HEIGHT * value / top
        parts.append(f'<text class="row" x="{_LEFT - 6}" y="{y:.1f}">{value:.0f}</text>')
    for x, each in zip(columns, classes, strict=True):
        parts.append(f'<text class="column" x="{x:.1f}" y="{bottom + 14}">{each["words"]}</text>')
    for number, (system, line) in enumerate(scores.items()):
        points = [
            (x, bottom - _HEIGHT * score / top) for x, score in zip(columns, line, strict=True)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        y = bottom + 40 + _LEGEND * number
        parts += [
            f'<g class="system{number}"><polyline points="{path}"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points),
            f'<polyline points="{_LEFT},{y} {_LEFT + 36},{y}"/>',
            f'<circle cx="{_LEFT + 18}" cy="{y}" r="4"/></g>',
            f'<text x="{_LEFT + 46}" y="{y}">{_escaped(system)}</text>',
        ]
    width, height = _LEFT + _WIDTH + 10, bottom + 40 + _LEGEND * len(scores)
    title = f"{NAMES[metric]} by words of the source"
    return "\n".join(
        [
            f'<div class="scrolled" tabindex="0" role="region" aria-label="{title}, as a chart">',
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{title}; the table has the numbers">',
            *parts,
            "</svg>\n</div>",
        ]
    )


def _controls(systems):
    """Returns the form that orders and filters sentences; hidden until the script runs."""
    names = [(str(number), without_controls(name)) for number, name in enumerate(systems)]
    return "\n".join(
        [
            '<form class="choices" id="choices" hidden>',
            _select("first", "first system", names, 0),
            _select("second", "second system", names, 1),
            _select("order", "order", [*_ORDERS.items()], 0),
            '<label>difference of at least <input id="least" type="number" min="0" max="100" '
            'value="0"> chrF</label>',
            '<span id="count" role="status"></span>',
            "</form>",
        ]
    )


def _select(name, label, options, chosen):
    items = "".join(
        f'<option value="{value}"{" selected" * (n == chosen)}>{html.escape(text)}</option>'
        for n, (value, text) in enumerate(options)
    )
    return f'<label>{label} <select id="{name}">{items}</select></label>'


def sentence_html(
    number: int,
    lines: Texts,
    words: Texts,
    chrf: dict[str, Sequence[float]],
    place: int,
    fold: Callable[[str], str],
) -> str:
    """Returns a sentence with its translations as HTML, which `comparison.js` can move.

    `number` is the number of the line in its file, `place` its index in the texts. `words` are
    written as in `lines`; two words are equal if `fold` makes them equal.
    """
    known = set(map(fold, words.reference[place]))
    rows = [
        f"<dt>{name}</dt><dd>{_text(text[place])}</dd>"
        for name, text in (("source", lines.source), ("reference", lines.reference))
    ]
    for system, output in lines.outputs.items():
        marked = _marked(output[place], words.outputs[system][place], lambda w: fold(w) in known)
        rows.append(
            f"<dt>{_text(system)} <b>{chrf[system][place]:.1f}</b></dt><dd><bdi>{marked}</bdi></dd>"
        )
    scores = " ".join(f"{of_system[place]:.2f}" for of_system in chrf.values())
    return (
        f'<article data-scores="{scores}">\n<h3>line {number:,}</h3>\n'
        f'<dl class="texts">{"".join(rows)}</dl>\n</article>'
    )


def _marked(text, words, is_known):
    """Returns a text as HTML, with marks around those of its words that are not known."""
    parts, start = [], 0
    for word in words:
        found = text.find(word, start)
        if found >= 0:  # Tokenisations change a few characters, such as `&quot;`.
            shown = _escaped(word)
            parts += [
                _escaped(text[start:found]),
                shown if is_known(word) else f"<mark>{shown}</mark>",
            ]
            start = found + len(word)
    return "".join([*parts, _escaped(text[start:])])
