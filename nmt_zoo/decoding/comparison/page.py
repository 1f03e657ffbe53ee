"""Writes a comparison of systems as one HTML page that needs no network."""

import collections
import difflib
import html
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nmt_zoo.decoding.comparison.report import Table, without_controls
from nmt_zoo.decoding.comparison.words import Texts
from nmt_zoo.decoding.explorer.page import offline_page

_FOLDER = Path(__file__).parent
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
    systems: Sequence[str],
    tables: Iterable[Table],
    sentences: Iterable[str],
) -> str:
    """Returns the page of a comparison, with its tables and the HTML of its sentences."""
    body = [
        '<div class="explorer comparison">',
        *(f"<p>{_text(remark)}</p>" for remark in remarks),
        *map(_table, tables),
        "<section>\n<h2>Sentences</h2>",
        "<p>Numbers are chrF. <mark>Marked</mark> words are not in the reference, or not so often; "
        "<u>underlined</u> words stand elsewhere in it; missing words follow each line.</p>",
        _controls(systems),
        '<div id="sentences">',
        *sentences,
        '</div>\n<button type="button" id="more" hidden>more</button>\n</section>\n</div>',
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


def _table(table):
    """Returns a section with a table, which scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    rows = [
        f'<tr{" class=shown" * ("best" in row)}><th scope="row">{_text(row[0])}</th>'
        + "".join(f"<td>{_escaped(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    ]
    title = _escaped(table.title)
    return "\n".join(
        [
            f"<section>\n<h2>{title}</h2>",
            f'<div class="scrolled" tabindex="0" role="region" aria-label="{title}">',
            f"<table><thead><tr>{head}</tr></thead><tbody>",
            *rows,
            "</tbody></table>\n</div>",
            *(f'<p class="note">{_escaped(note)}</p>' for note in table.notes),
            "</section>",
        ]
    )


def _controls(systems):
    """Returns the form that orders and searches sentences; hidden until the script runs."""
    names = [(str(number), without_controls(name)) for number, name in enumerate(systems)]
    selects = ("first", "first system", names, 0), ("second", "second system", names, 1)
    selects += (("order", "order", _ORDERS.items(), 0),)
    lists = "".join(_select(*select) for select in selects)
    return (
        f'<form class="choices" id="choices" hidden>{lists}'
        '<label>containing <input id="words" type="search" placeholder="text or line 7"></label>'
        '<span id="count" role="status"></span></form>'
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
    index: int,
    fold: Callable[[str], str],
) -> str:
    """Returns a sentence with its translations as HTML, which `comparison.js` can move.

    `number` is the number of the line in its file, `index` its index in the texts. `words` are
    written as in `lines`; two words are equal if `fold` makes them equal.
    """
    expected = [*map(fold, words.reference[index])]
    rows = [
        f"<dt>{name}</dt><dd>{_text(text[index])}</dd>"
        for name, text in (("source", lines.source), ("reference", lines.reference))
    ]
    for system, output in lines.outputs.items():
        found = words.outputs[system][index]
        tags, missing = _differences([*map(fold, found)], expected)
        text = unicodedata.normalize("NFC", output[index])  # As words are.
        shown = f"<bdi>{_marked(text, found, tags)}</bdi>"
        if missing:
            shown += f"<p>missing: {_text(' '.join(missing))}</p>"
        rows.append(f"<dt>{_text(system)} <b>{chrf[system][index]:.1f}</b></dt><dd>{shown}</dd>")
    scores = " ".join(f"{of_system[index]:.2f}" for of_system in chrf.values())
    return (
        f'<article data-scores="{scores}">\n<h3>line {number:,}</h3>\n'
        f'<dl class="texts">{"".join(rows)}</dl>\n</article>'
    )


def _differences(words, expected):
    """Compares words with those of a reference.

    Returns the HTML tag for each word: "" in order, "u" elsewhere, "mark" not there or too often;
    and the words of the reference that are missing.
    """
    blocks = difflib.SequenceMatcher(None, expected, words, autojunk=False).get_matching_blocks()
    tags = ["mark"] * len(words)
    for _, start, size in blocks:
        tags[start : start + size] = [""] * size
    left = collections.Counter(expected)
    left.subtract(word for word, tag in zip(words, tags, strict=True) if not tag)
    for number, word in enumerate(words):
        if tags[number] and left[word] > 0:
            left[word] -= 1
            tags[number] = "u"
    return tags, [*left.elements()]


def _marked(text, words, tags):
    """Returns a text as HTML, with tags around its words."""
    parts, start = [], 0
    for word, tag in zip(words, tags, strict=True):
        position = text.find(word, start)
        if position >= 0:  # Tokenisations change a few characters, such as `&quot;`.
            shown = _escaped(word)
            parts.append(_escaped(text[start:position]))
            parts.append(f"<{tag}>{shown}</{tag}>" if tag else shown)
            start = position + len(word)
    return "".join([*parts, _escaped(text[start:])])
