"""Writes attention as HTML pages that need no network: data, style and script are inside.

`explorer.js` draws a page in the browser and documents the data that it takes; this module makes
the data and the page around them.
"""

import base64
import hashlib
import html
import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import printable
from nmt_zoo.decoding.alignment.subword_merging import words_of

_FOLDER = Path(__file__).parent


def script() -> str:
    """Returns `explorer.js`, which defines `Explorer.show(element, data)`, after its parts."""
    parts = [f"explorer{part}.js" for part in ("_numbers", "_pictures", "")]
    return "\n".join((_FOLDER / part).read_text(encoding="utf-8") for part in parts)


def style() -> str:
    """Returns the text of `explorer.css`, whose rules hold below the class `explorer`."""
    return (_FOLDER / "explorer.css").read_text(encoding="utf-8")


def model_data(
    name: str,
    texts: tuple[str, str],
    tokens: tuple[Sequence[str], Sequence[str]],
    maps: Mapping[str, np.ndarray],
    alignment: tuple[int, int | str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Describes the attention of one model on one sentence, as a MODEL of `explorer.js`, for JSON.

    `texts` and `tokens` are of (source, translation), texts as people write them and tokens with
    `</s>`. `maps` are name -> `[H, rows, columns]` weights, from `attention_maps`; "alignment" may
    be there. `alignment` is the (layer, head) to show first, from 1, or None. `more` has further
    entries, which `explorer.js` documents: "translations", "confidence".
    """
    sides = [_side(*pair) for pair in zip(texts, tokens, strict=True)]
    packed = {map_name: _packed(weights) for map_name, weights in maps.items()}
    choice = dict(zip(("layer", "head"), alignment or (), strict=False))
    facts = {"name": name, "source": sides[0], "target": sides[1], "choice": choice}
    return {**facts, "maps": packed, **more}


def _side(text, tokens):
    """Returns a SIDE of `explorer.js`; words are found from the tokens themselves."""
    word_of, words = words_of(tokens)
    return {"text": text, "tokens": list(tokens), "words": words, "wordOf": word_of.tolist()}


def _packed(weights):
    """Returns a MAP of `explorer.js`: a byte a weight, of which small weights have more values."""
    weights = np.asarray(weights, np.float32)
    roots = np.sqrt(np.clip(weights, 0, 1))  # Rounding in bfloat16 may exceed these limits.
    data = np.round(255 * roots).astype(np.uint8).tobytes()
    return {"shape": list(weights.shape), "weights": base64.b64encode(data).decode("ascii")}


def explorer_page(data: dict[str, Any], title: str) -> str:
    """Returns the HTML page that shows the data of `explorer.js`."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":  # So that nothing in the data ends the element.
        text = text.replace(character, f"\\u{ord(character):04x}")
    body = '<div id="explorer"></div>\n<noscript>This page needs JavaScript.</noscript>'
    element = f'<script type="application/json" id="explorer-data">{text}</script>'
    return offline_page(title, body, script(), data=element)


def _text(text):
    return f"<bdi>{html.escape(printable(text))}</bdi>"


def offline_page(title: str, body: str, code: str = "", look: str = "", data: str = "") -> str:
    """Returns a page with the look of the explorer that needs no network.

    `body` is HTML, `code` JavaScript that runs after it, `look` more CSS, `data` elements that the
    code reads. A policy in the page forbids all scripts and styles but these, and all requests.
    """
    look = style() + look
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(look)}; "
        "base-uri 'none'; form-action 'none'"
    )
    template = string.Template((_FOLDER / "explorer.html").read_text(encoding="utf-8"))
    return template.substitute(
        policy=policy,
        title=html.escape(printable(title)),
        heading=_text(title),
        style=look,
        body=body,
        scripts="\n".join(filter(None, [data, f"<script>{code}</script>" if code else ""])),
    )


def _hash(text):
    """Returns the source expression of a content security policy for an inline text."""
    if not text:
        return "'none'"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
