"""Writes the explorer's page of a sentence, or the pages of a text and their index."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nmt_zoo.common.files import write_text
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.decoding.explorer.page import explorer_page, index_page
from nmt_zoo.decoding.explorer.sentence import NothingToShow, SentenceExplorer

_MOST_IN_TITLE = 80  # characters


def write_page(path: str | Path, models: Sequence[dict[str, Any]], choice: dict[str, Any]) -> None:
    """Writes a page of MODELs, of one sentence, and the "choice" of `explorer.js`, shown first."""
    title = models[0]["source"]["text"]
    if len(title) > _MOST_IN_TITLE:
        title = title[: _MOST_IN_TITLE - 1] + "…"
    write_text(path, explorer_page({"models": models, "choice": choice}, title))


def write_pages(
    path: str | Path,
    explorers: Sequence[SentenceExplorer],
    sources: Sequence[str],
    targets: Sequence[str] | None,
    choice: dict[str, Any],
) -> int:
    """Writes a page for each sentence of a text into a folder, and an index of them.

    The folder has the name of the index at `path`: `x_pages` for `x.html`. The index is written
    last. Each page compares the explorers; `targets` are the translations. Returns the number of
    lines that have no page; the index says why.
    """
    path = Path(path)
    folder = path.with_name(f"{path.stem}_pages")
    rows, width = [], max(len(str(len(sources))), 4)
    with Progress("exploring", len(sources), "lines") as progress:
        for number, source in enumerate(sources, start=1):
            target = targets[number - 1] if targets else ""
            name = f"{number:0{width}}.html"
            try:
                if targets and not split_words(target):
                    raise NothingToShow(f"line {number}: its translation is empty")
                models = [
                    explorer.explore(source, target, name=f"line {number}", number=number)
                    for explorer in explorers
                ]
            except NothingToShow as error:
                rows.append(("", source, f"no page: {error}"))
            else:
                write_page(folder / name, models, choice)
                address = f"{quote(folder.name)}/{name}"
                rows.append((address, source, models[0]["target"]["text"]))
            progress.update(1)
    write_text(path, index_page("Attention, sentence by sentence", rows))
    return sum(not address for address, *_ in rows)
